/** A table at the end of a test run: what was tried in it, and by which seed the sample was chosen. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DAY_MS = 86_400_000;

export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-tally-"));
  const file = join(folder, "tried");
  writeFileSync(file, "");
  process.env.NEVERTWICE_TALLY = file;
  process.env.NEVERTWICE_TEST_SEED ??= String(Math.floor(Date.now() / DAY_MS));
  return () => {
    const table = tableOf(readFileSync(file, "utf8"));
    if (table !== "") console.log(`\nTried in this run\n${table}\n${sampleLine()}`);
    rmSync(folder, { recursive: true, force: true });
  };
}

/** Each line of the text: a number, and what it counts. */
export function tableOf(text: string): string {
  const sums = new Map<string, number>();
  for (const line of text.split("\n").filter(Boolean)) {
    const [many = "0", ...what] = line.split(" ");
    const name = what.join(" ");
    sums.set(name, (sums.get(name) ?? 0) + Number(many));
  }
  const rows = [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, sum]) => `  ${name.padEnd(width)}  ${String(sum).padStart(7)}`).join("\n");
}

function sampleLine(): string {
  if (process.env.NEVERTWICE_TESTS === "long") return "  everything; npm test tries a sample of it";
  return `  a sample; NEVERTWICE_TEST_SEED=${process.env.NEVERTWICE_TEST_SEED} repeats it, npm run test:long tries everything`;
}
