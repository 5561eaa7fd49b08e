/** A decision about a slot whose command still runs: it is refused, since the next call would start a second one beside it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const env = { PATH: process.env.PATH ?? "" };
const main = join(import.meta.dirname, "../../dist/cli/main.js");
const reason = ["--reason", "looked"];
const job = ["run", "--job", "k3", "--slot", "a", "--", "sh", "-c", "echo $$ >> log; exec sleep 60"];
const begun = () => readFileSync(join(cli.folder, "log"), "utf8").trim().split("\n").map(Number);

it("R1: not-done, failed and forget wait for its end, for one record, a group and a file; then the slot is run again", async () => {
  const runner = spawn(process.execPath, [main, ...job], { cwd: cli.folder, env, stdio: "ignore" });
  await vi.waitFor(() => expect(existsSync(join(cli.folder, "log")) && begun()).toHaveLength(1), 20_000);
  runner.kill("SIGKILL");
  await once(runner, "exit");
  await cli.run(job, { env });
  const { items } = await cli.store.list({ action: "job:k3", limit: 1 });
  const { key, state } = items[0]?.record ?? { key: "" };
  expect(state).toBe("unknown");
  const shown = (await cli.run(["show", key])).out;
  expect(shown).not.toMatch(/resolve \S+ --(not-done|failed)/);
  writeFileSync(join(cli.folder, "d.jsonl"), `${JSON.stringify({ key, as: "not-done" })}\n`);
  const many = ["resolve", "--all", "--action", "job:k3", "--not-done", ...reason];
  for (const argv of [
    ["resolve", key, "--not-done", ...reason],
    ["resolve", key, "--failed", ...reason],
    many,
    [...many, "--yes"],
    ["resolve", "--from", "d.jsonl", ...reason, "--yes"],
    ["forget", key, "--even-in-doubt", ...reason],
  ]) {
    const { code, err } = await cli.run(argv);
    expect([argv, code, err]).toEqual([argv, 1, expect.stringMatching(/its command still runs \(process group \d+\)/)]);
  }
  await cli.run(job, { env });
  expect(begun()).toHaveLength(1);
  // As the message says.
  const { err } = await cli.run(["resolve", key, "--not-done", ...reason]);
  process.kill(Number(/kill -- (-\d+)/.exec(err)?.[1]), "SIGKILL");
  await vi.waitFor(async () => expect((await cli.run(many)).code).toBe(0), 20_000);
});
