/** One number at the end of a test run: how many processes were killed in it. */
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-tally-"));
  const file = join(folder, "kills");
  writeFileSync(file, "");
  process.env.NEVERTWICE_KILL_TALLY = file;
  return () => {
    const kills = statSync(file).size;
    if (kills > 0) console.log(`\nProcesses killed in this run: ${kills}`);
    rmSync(folder, { recursive: true, force: true });
  };
}
