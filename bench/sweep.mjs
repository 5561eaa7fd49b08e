/**
 * Does the background sweep keep up, and what does it cost callers? 64 callers insert as fast as they can, and each record expires
 * after a second: with the sweep, and without. Run: npm run build && node bench/sweep.mjs [seconds] [store url]
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nevertwice } from "nevertwice";

const CALLERS = 64;
const [, file, seconds = "20", url, sweep] = process.argv;

if (sweep === undefined) {
  const runs = ["1s", "false"].map((one) =>
    JSON.parse(execFileSync(process.execPath, ["--no-warnings", file, seconds, url ?? "", one], { encoding: "utf8" })),
  );
  const [swept, bare] = runs;
  console.log(`calls/s with the sweep ${swept.rate}, without ${bare.rate}: ${(swept.rate / bare.rate).toFixed(2)}`);
  console.log(`removed ${swept.removed} of ${swept.calls}: ${(swept.removed / swept.calls).toFixed(2)}`);
} else {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-bench-"));
  const store = url === "" ? `sqlite:${join(folder, "ledger.db")}` : url;
  const nt = nevertwice({ store, sweep: sweep === "false" ? false : sweep, onWarning: () => {} });
  const act = nt.action(`bench-sweep-${process.pid}`, { key: ["id"], doubt: "retry", keep: "1s", run: async () => 1 });
  const end = performance.now() + Number(seconds) * 1_000;
  let calls = 0;
  const caller = async () => {
    while (performance.now() < end) {
      calls += 1;
      await act({ id: calls });
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const own = (await nt.store.stats()).actions.find(({ action }) => action === act.actionName);
  console.log(JSON.stringify({ calls, rate: Math.round(calls / Number(seconds)), removed: calls - (own?.total ?? 0) }));
  await nt.close();
  rmSync(folder, { recursive: true, force: true });
}
