/** The examples a newcomer runs first, run as a newcomer does: as programs, against the built package. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const TIMEOUT_MS = 60_000;

/** Rejects, with all it printed, on any exit code but 0. */
async function run(example: string): Promise<string> {
  const options = { cwd: root, timeout: TIMEOUT_MS, env: { ...process.env, NO_COLOR: "1" } };
  return (await promisify(execFile)(process.execPath, [`examples/${example}`], options)).stdout;
}

/** The last four numbers of a table row: mails and duplicates without, mails and duplicates with. */
function row(output: string, start: string): string[] | undefined {
  const line = output.split("\n").find((one) => one.startsWith(start));
  return line?.match(/(\d+|-)\s+(\d+|-)\s+(\d+)\s+(\d+)\s\s\S/)?.slice(1, 5);
}

describe("the first run", () => {
  test("duplicates without, one mail for each intent with", { timeout: TIMEOUT_MS + 5_000 }, async () => {
    const output = await run("first-run/story.mjs");
    expect(row(output, "reply lost")).toEqual(["2", "1", "1", "0"]);
    expect(row(output, "crash")).toEqual(["2", "1", "1", "0"]);
    expect(row(output, "overlapping crons")).toEqual(["2", "1", "1", "0"]);
    expect(row(output, "three clicks")).toEqual(["3", "2", "1", "0"]);
    expect(row(output, "resent, version 2")).toEqual(["-", "-", "1", "0"]);
    expect(row(output, "all ")).toEqual(["13", "7", "7", "0"]);
    expect(output).toMatch(/agent \d+ is dead \(SIGKILL\)/);
    expect(output).toMatch(/ada@example\.com is unknown/);
    expect(output).toMatch(/1 held in doubt until a person resolved\s+it, 1 settled by\s+its probe/);
    expect(output).toContain("npx nevertwice ls --store sqlite:");
    expect(output.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });

  test("ten lines print what their comment says", async () => {
    const source = readFileSync(`${root}examples/ten-lines.mjs`, "utf8");
    const promised = source
      .slice(source.indexOf("// Prints:"))
      .split("\n")
      .filter((line) => line.startsWith("//   "))
      .map((line) => line.slice(5));
    expect((await run("ten-lines.mjs")).trimEnd().split("\n")).toEqual(promised);
    expect(promised.filter((line) => line.startsWith("sending:"))).toHaveLength(1);
  });
});
