// node crash.mjs <agent> <provider> <store | "bare"> <crash | resume>: one run of an agent in a process of its own.
import { nevertwice } from "../../../dist/index.js";

const [name, url, store, how] = process.argv.slice(2);
const { run } = await import(`./agents/${name}.mjs`);
const nt = store === "bare" ? null : nevertwice({ store, sweep: false });
const answers = await run({ url, nt, thread: "thread-1", soon: true, crash: how === "crash" }, [
  [{ to: "ada", body: `Hello, ${how}` }],
]);
console.log(JSON.stringify(answers));
await nt?.close();
process.exit(0);
