// node crash.mjs <agent>[:<variant>] <provider> <store | "bare"> <crash | resume>: one run of an agent in a process of its own.
import { nevertwice } from "../../../dist/index.js";

const [name, url, store, how] = process.argv.slice(2);
const [file, variant] = name.split(":");
const { runBy } = await import(`./agents/${file}.mjs`);
const run = runBy(variant);
const nt = store === "bare" ? null : nevertwice({ store, sweep: false });
const answers = await run({ url, nt, thread: "thread-1", soon: true, crash: how === "crash" }, [
  [{ to: "ada", body: `Hello, ${how}` }],
]);
console.log(JSON.stringify(answers));
await nt?.close();
process.exit(0);
