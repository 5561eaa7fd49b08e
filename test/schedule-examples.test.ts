/** The stories of docs/cron.md, docs/runs.md and docs/sequences.md, run as a reader would run them. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const exec = promisify(execFile);

async function story(path: string): Promise<string[]> {
  const file = fileURLToPath(new URL(`../examples/${path}`, import.meta.url));
  const { stdout } = await exec(process.execPath, [file], { timeout: 50_000 });
  return stdout.trimEnd().split("\n");
}

it("R1: a cron job that is safe to retry", async () => {
  expect(await story("cron/story.mjs")).toEqual([
    "Monday: the scheduler fires three times at once.",
    "  1 ran, 2 were skipped; posts: 1",
    "Tuesday: the runner is killed in the middle, and the job goes on without it.",
    "  noticed: the command still runs; skipped",
    "  it has ended with 0: recorded as done, and not run again; posts: 2",
    "Wednesday morning, once more for Tuesday:",
    "  already done; skipped; posts: 2",
  ]);
});

it("R5: a workflow that is killed after each of its steps", async () => {
  const lines = await story("runs/story.mjs");
  expect(lines.filter((line) => line.includes("source: found"))).toHaveLength(1);
  expect(lines.filter((line) => line.includes("enrich: looked"))).toHaveLength(1);
  expect(lines.filter((line) => line.includes("send: wrote"))).toHaveLength(1);
  expect(lines.slice(-4)).toEqual([
    "Called once more:",
    "  the run is done: m-1",
    "And again:",
    "  the run is done: m-1",
  ]);
});

it("R6: a drip sequence with a stop and a restart", async () => {
  const lines = await story("sequence/story.mjs");
  const sent = (who: string) =>
    lines.filter((line) => line.endsWith(`→ ${who}`)).map((line) => line.trim().split(" ")[0]);
  expect(sent("ann")).toEqual(["welcome", "social_proof", "first_dollar"]);
  expect(sent("bob")).toEqual(["welcome", "social_proof", "first_dollar"]);
  expect(lines).toContain("Ann: done. Bob: stopped.");
  expect(lines.indexOf("Bob changes his mind.")).toBeLessThan(lines.indexOf("  social_proof → bob"));
});
