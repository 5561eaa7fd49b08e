/** `nevertwice runs` and the steps that `show` draws. */
import { notSent } from "nevertwice";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
});
afterEach(() => cli.close());

async function onboard(id: string, fail: boolean) {
  const nt = cli.program();
  return nt
    .run("onboard-lead", id, async (run) => {
      await run.step("source", () => ({ id }));
      await run.step(
        "enrich",
        () => {
          if (fail) throw notSent(new Error("429 too many requests"));
        },
        { retry: { attempts: 1 } },
      );
      await run.branch("mails", (branch) => branch.step("send", () => "m-1"));
      return "sent";
    })
    .catch(() => "stopped");
}

it("R5: runs lists what has come how far; show draws the steps", async () => {
  await onboard("lead-1", false);
  await onboard("lead-2", true);
  const { out, code } = await cli.run(["runs"], { columns: 120 });
  expect(code).toBe(0);
  expect(out).toMatch(/onboard-lead +lead-2 +failed +1 +\S+ +1 done, at enrich/);
  expect(out).toMatch(/onboard-lead +lead-1 +confirmed +1 +\S+ +3 done\n/);
  const key = /show (nt1_\w+)/.exec(out)?.[1] as string;
  const shown = await cli.run(["show", key], { columns: 120 });
  expect(shown.out).toMatch(
    /Steps\n.*step +state.*\n✓ +source +confirmed.*\n✗ +enrich +failed .*429 too many requests/,
  );
  const done = await cli.run(["runs", "onboard-lead", "--json"]);
  expect(done.json.runs.map((run: { id: string; status: string }) => [run.id, run.status])).toEqual([
    ["lead-2", "failed"],
    ["lead-1", "done"],
  ]);
  expect(done.json.runs[1].steps.map(({ step, path }: { step: string; path: string[] }) => [...path, step])).toEqual([
    ["source"],
    ["enrich"],
    ["mails", "send"],
  ]);
  expect((await cli.run(["runs", "other"])).out).toBe("No run fits.\n");
});
