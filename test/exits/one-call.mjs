// A script that uses the ledger and ends without close(): nothing of it may keep the process alive.
import { createRequire } from "node:module";
import { nevertwice } from "nevertwice";

const spec = JSON.parse(process.argv[2]);
const require = createRequire(import.meta.url);

// The store takes whichever driver is installed, ioredis first.
if (spec.without !== undefined) {
  const { Module } = require("node:module");
  const load = Module._load;
  Module._load = (name, ...rest) => {
    if (name === spec.without)
      throw Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
    return load(name, ...rest);
  };
}

const nt = nevertwice({ store: spec.store, onWarning: () => {} });
const send = nt.action("mail", {
  key: ["to"],
  doubt: { resendWithin: "1h" },
  wait: 200,
  run: async ({ to }) => `sent to ${to}`,
});
const calls = {
  call: () => send({ to: "ada" }),
  crowd: () => Promise.all(Array.from({ length: 40 }, (_, i) => send({ to: `n${i}` }))),
  // Another holder has it: the caller waits, and listens for its end where the store can tell.
  wait: async () => {
    await send.enqueue({ to: "held" });
    await nt.store.lease({ holder: "other", limit: 1, leaseMs: 60_000, to: "claimed", actions: ["mail"] });
    return send.attempt({ to: "held" });
  },
  drain: async () => {
    await send.enqueue({ to: "queued" });
    return nt.worker().drain();
  },
  task: async () => {
    const queue = nt.queue("research", { key: ["to"] });
    await queue.add({ to: "ada" });
    await queue.take({ wait: 100 });
    return queue.take({ wait: 100 });
  },
};
await calls[spec.does]();
process.stdout.write(`${JSON.stringify({ event: "over" })}\n`);
