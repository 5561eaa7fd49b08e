/** `nevertwice runs` and the steps that `show` draws. */
import { notSent } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
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

describe("a run that a step in doubt holds", () => {
  const held = async () => {
    const nt = cli.program();
    await nt
      .run("onboard-lead", "lead-3", async (run) => {
        await run.step("source", () => ({ id: "lead-3" }));
        await run.step("send", () => {
          throw new Error("socket hang up");
        });
      })
      .catch(() => {});
    const { items } = await nt.store.list({ limit: 10 });
    const keyOf = (action: string, state: string) =>
      items.find(({ record }) => record.action === action && record.state === state)?.record.key ?? "";
    return { run: keyOf("run:onboard-lead", "failed"), step: keyOf("step:onboard-lead", "unknown") };
  };

  it("show says what holds it and offers to settle that step, not to retry the run", async () => {
    const { run, step } = await held();
    const { out } = await cli.run(["show", run], { columns: 120 });
    expect(out).toMatch(
      /^state +held\n +waits for a decision on step send: it may or may not have happened\. Settle the step, and the next\n +call of the run goes on$/m,
    );
    expect(out).toContain(`nevertwice resolve ${step.slice(0, 14)} --not-done --reason '…'`);
    expect(out).not.toMatch(/it did not happen, after|nevertwice retry/);
    expect((await cli.run(["show", run, "--json"])).json).toMatchObject({ heldBy: [step] });
  });

  it("ls, runs and status say it too, with the command that settles the step", async () => {
    const { run, step } = await held();
    const words = "waits for a decision on step send";
    const settle = `nevertwice resolve ${step.slice(0, 14)} --done --result '…' --reason '…'`;
    const ls = (await cli.run(["ls"], { columns: 120 })).out;
    expect(ls).toMatch(new RegExp(`run:onboard-lead +held +1 .*${words}`));
    expect(ls).toContain(settle);
    const runs = (await cli.run(["runs"], { columns: 120 })).out;
    expect(runs).toMatch(/lead-3 +held +1 +\S+ +1 done, waits for a decision on step send\n/);
    expect(runs).toContain(settle);
    expect((await cli.run(["runs", "--json"])).json.runs[0]).toMatchObject({ heldBy: [step] });
    const status = await cli.run(["status", run]);
    expect(status.out).toContain(`${words}. Look, and settle it: nevertwice show ${step.slice(0, 14)}`);
    expect((await cli.run(["status", run, "--json"])).json).toMatchObject({ heldBy: [step] });
  });

  it("the record of the run, and that of the step, name the step", async () => {
    const { run, step } = await held();
    expect((await cli.run(["show", run], { columns: 120 })).out).toMatch(
      /^error +NevertwiceError: waits for a decision on step "send": an error nobody classified \(Error\)\n +\(OUTCOME_UNKNOWN\)$/m,
    );
    expect((await cli.run(["show", step], { columns: 120 })).out).toMatch(
      /^record +the step "send" of a run of "onboard-lead"$/m,
    );
  });

  it("is as any other once the step is settled", async () => {
    const { run, step } = await held();
    expect((await cli.run(["resolve", step, "--not-done", "--reason", "never arrived"])).code).toBe(0);
    const { out } = await cli.run(["show", run]);
    expect(out).toMatch(/^state +failed$/m);
    expect(out).toContain("nevertwice retry");
  });
});
