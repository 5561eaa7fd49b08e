// Opens a JSONL ledger in a process of its own, and says how long that took. Started by bench/file.mjs.
import { fileStore } from "nevertwice/file";

const store = fileStore({ path: process.argv[2] });
const opened = performance.now();
const before = process.cpuUsage();
await store.read(["nt1_none"]);
const startMs = performance.now() - opened;
const { user, system } = process.cpuUsage(before);
const cpuMs = (user + system) / 1_000;
console.log(JSON.stringify({ startMs, cpuMs, heapMb: Math.round(process.memoryUsage().heapUsed / 1_000_000) }));
await store.close();
