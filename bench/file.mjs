// The JSONL ledger: how fast it starts and answers with 1 000 and with 300 000 records. npm run build && node bench/file.mjs
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { fileStore } from "nevertwice/file";

// What a new process pays: measured in one.
const OPENER = fileURLToPath(new URL("./file-open.mjs", import.meta.url));
const LOOKUPS = 20_000;
const CALLS = 200;
const WARM_UP = 5_000;

async function fill(path, count) {
  const nt = nevertwice({ store: fileStore({ path }), sweep: false });
  const send = nt.action("send_followup", {
    key: ["lead", "template"],
    run: async ({ lead }) => ({ id: `msg_${lead}` }),
  });
  const batch = 4_096;
  for (let from = 0; from < count; from += batch) {
    const leads = Array.from({ length: Math.min(batch, count - from) }, (_, i) => `lead-${from + i}`);
    await Promise.all(leads.map((lead) => send({ lead, template: "welcome" })));
  }
  const keys = (await nt.store.list({ limit: LOOKUPS })).items.map(({ record }) => record.key);
  await nt.close();
  return keys;
}

async function measure(count) {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-bench-"));
  const path = join(folder, "ledger.jsonl");
  try {
    const keys = await fill(path, count);
    const { startMs, cpuMs, heapMb } = JSON.parse(execFileSync(process.execPath, [OPENER, path], { encoding: "utf8" }));
    const store = fileStore({ path });
    for (let i = 0; i < WARM_UP; i += 1) await store.read([keys[i % keys.length]]);
    const began = performance.now();
    for (let i = 0; i < LOOKUPS; i += 1) await store.read([keys[i % keys.length]]);
    const lookups = LOOKUPS / ((performance.now() - began) / 1_000);
    await store.close();
    const nt = nevertwice({ store: fileStore({ path }), sweep: false });
    const note = nt.action("note", { key: ["n"], run: async ({ n }) => n });
    await note({ n: "warm" });
    const calling = performance.now();
    for (let n = 0; n < CALLS; n += 1) await note({ n });
    const calls = CALLS / ((performance.now() - calling) / 1_000);
    await nt.close();
    return { records: count, mib: Math.round(statSync(path).size / 1_048_576), startMs, cpuMs, heapMb, lookups, calls };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const rows = [await measure(1_000), await measure(300_000)];
console.log("records   file       start      of CPU     heap       lookups/s  guarded calls/s, one after another");
for (const { records, mib, startMs, cpuMs, heapMb, lookups, calls } of rows) {
  const cells = [
    `${mib} MiB`,
    `${Math.round(startMs)} ms`,
    `${Math.round(cpuMs)} ms`,
    `${heapMb} MB`,
    Math.round(lookups),
    Math.round(calls),
  ];
  console.log(String(records).padEnd(10) + cells.map((cell) => String(cell).padEnd(11)).join(""));
}
const [small, large] = rows;
const slower = small.lookups / large.lookups;
const verdict = (met) => (met ? "met" : "missed");
console.log(
  `lookups at 300 000 records take ${slower.toFixed(2)} times as long as at 1 000 (target: at most 3, ${verdict(slower <= 3)})`,
);
console.log(
  `start with 300 000 records: ${Math.round(large.startMs)} ms (target: under 2000 ms, ${verdict(large.startMs < 2_000)})`,
);
