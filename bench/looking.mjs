// Looking at a large SQLite ledger from inside a program: how long each look takes, and how long the slowest call beside
// it waits. Usage: node bench/looking.mjs [records] [dist], where dist is the build to measure (this one, unless given).
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { pathToFileURL } from "node:url";

const records = Number(process.argv[2] ?? 1_000_000);
const dist = resolve(process.argv[3] ?? new URL("../dist", import.meta.url).pathname);
const load = (file) => import(pathToFileURL(join(dist, file)).href);
const { nevertwice } = await load("index.js");
const { sqliteStore } = await load("stores/sqlite.js");
const { loadDriver } = await load("stores/sqlite-driver.js");
const { COLUMNS, encodeRow } = await load("stores/sqlite-row.js");

const folder = mkdtempSync(join(tmpdir(), "nevertwice-looking-"));
const path = join(folder, "ledger.db");
try {
  await fill();
  const store = sqliteStore({ path });
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  let calls = 0;
  const one = nt.action("call", { key: ["n"], run: async () => null });
  const call = () => {
    calls += 1;
    return one({ n: calls });
  };
  await call();
  await measured("no look", () => new Promise((done) => setTimeout(done, 2_000)));
  await measured("stats", () => store.stats());
  await measured("list, no match", () => store.list({ limit: 50, action: "nobody" }));
  await measured("inspect", () => store.inspect());
  await measured("sweep of 50 000", async () => {
    for (let removed = 0; removed < 50_000; ) removed += await store.sweep({ limit: 1_000, thorough: true });
  });
  await nt.close();
  for (const flags of [[], ["--deep"]]) doctor(flags);

  async function measured(name, look) {
    let [slowest, count, ended] = [0, 0, false];
    const calling = (async () => {
      while (!ended) {
        const started = performance.now();
        await call();
        slowest = Math.max(slowest, performance.now() - started);
        count += 1;
      }
    })();
    const started = performance.now();
    await look();
    const tookMs = performance.now() - started;
    ended = true;
    const before = count;
    await calling;
    console.log(
      `${name.padEnd(18)} ${seconds(tookMs)}   ${before} calls ended meanwhile, the slowest took ${seconds(slowest)}`,
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function doctor(flags) {
  const started = performance.now();
  try {
    execFileSync(process.execPath, [join(dist, "cli/main.js"), "doctor", ...flags, "--store", `sqlite:${path}`]);
  } catch (error) {
    if (error.status !== 0 && error.status !== 1)
      return console.log(`doctor ${flags.join(" ")}: not known to this build`);
  }
  console.log(`${`doctor ${flags.join(" ")}`.padEnd(18)} ${seconds(performance.now() - started)}`);
}

function seconds(ms) {
  return `${(ms / 1_000).toFixed(3)} s`;
}

/** Rows as the engine would write them, in one transaction. */
async function fill() {
  const nt = nevertwice({ store: sqliteStore({ path }), sweep: false, onWarning: () => {} });
  const fill = nt.action("fill", { key: ["n"], run: async () => ({ id: "msg_1" }) });
  await fill({ n: 1 });
  const [{ record }] = (await nt.store.list({ limit: 1 })).items;
  await nt.close();
  const db = loadDriver().open(path);
  const places = COLUMNS.map(() => "?").join(", ");
  const insert = db.prepare(`INSERT INTO nevertwice_records (${COLUMNS.join(", ")}) VALUES (${places})`);
  db.exec("BEGIN");
  for (let n = 0; n < records; n += 1) {
    const key = `nt1_${String(n).padStart(52, "0")}`;
    insert.run(...encodeRow({ ...record, key, expiresAt: 1_000 }, n + 1).row);
  }
  db.exec("COMMIT");
  db.close();
}
