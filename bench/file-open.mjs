// Opens a JSONL ledger in a process of its own, and says how long that took. Started by bench/file.mjs.
import { fileStore } from "nevertwice/file";

const store = fileStore({ path: process.argv[2] });
const opened = performance.now();
await store.read(["nt1_none"]);
const startMs = performance.now() - opened;
console.log(JSON.stringify({ startMs, heapMb: Math.round(process.memoryUsage().heapUsed / 1_000_000) }));
await store.close();
