/** Records that no nt.action() made: what is offered for them can be done. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { notSent } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
});
afterEach(() => cli.close());

const HOUR_MS = 3_600_000;
const lastHour = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const reason = ["--reason", "the customer lost it"];

/** Work of every kind that is done, on one ledger. */
async function work() {
  const nt = cli.program();
  await nt.job("digest", { every: "1h", plan: () => ({ topic: "cost" }), run: () => "sent" }).runAt(lastHour());
  await nt.run("onboard", "lead-1", async (run) => {
    await run.step("source", () => "found");
    await run.branch("mails", (branch) => branch.step("send", () => "m-1"));
  });
  const drip = nt.sequence<undefined, string>("drip", ["one"], { run: () => "sent" });
  await drip.start("ada", undefined);
  const worker = nt.worker({ concurrency: 1 });
  await worker.drain();
}

async function keyOf(action: string): Promise<string> {
  const { items } = await cli.store.list({ action, limit: 1 });
  return items[0]?.record.key ?? `no record of ${action}`;
}

const KINDS: readonly [action: string, what: string, again: RegExp][] = [
  [
    "job:digest",
    'a slot of the job "digest"',
    /nevertwice run --job digest --slot '20\d\d-\S+Z\/slot again' -- <command>.*in code, call what its run/,
  ],
  ["job-plan:digest", 'the plan of a slot of the job "digest"', /nevertwice ls --action job:digest/],
  ["job-since:digest", 'the time at which the job "digest" was first seen', /nothing in it to run/],
  ["nevertwice.job", "a note that the ledger keeps for itself", /nothing in it to run/],
  ["run:onboard", 'a run of "onboard"', /nt\.run\("onboard", …\) with another id/],
  ["step:onboard", 'the step "mails › send" of a run of "onboard"', /nevertwice show nt1_\w{10}.*with another id/],
  ["branch:onboard", 'a step of a run of "onboard"', /with another id/],
  ["sequence:drip", 'the step "one" of the sequence "drip" for "ada"', /start a sequence of another name/],
  ["nevertwice.sequence", "a note that the ledger keeps for itself", /nothing in it to run/],
];

describe.each(KINDS)("%s", (action, what, again) => {
  it("show says what it is, and does not offer resend", async () => {
    await work();
    const { out, code } = await cli.run(["show", await keyOf(action)], { columns: 120 });
    expect(code).toBe(0);
    expect(out).toContain(what);
    expect(out).not.toContain("nevertwice resend");
  });

  it("resend and retry say what to do instead, and change nothing", async () => {
    await work();
    const key = await keyOf(action);
    writeFileSync(join(cli.folder, "actions.mjs"), "export const one = 1;");
    const before = await cli.store.read([key]);
    for (const argv of [
      ["resend", key],
      ["resend", key, "--actions", "./actions.mjs"],
      ["retry", key],
    ]) {
      const { code, err } = await cli.run([...argv, ...reason]);
      expect([code, err]).toEqual([1, expect.stringContaining(what)]);
      expect(err).toMatch(again);
      expect(err).not.toContain("--actions");
    }
    expect(await cli.store.read([key])).toEqual(before);
  });
});

it("the command that is suggested for a slot that failed runs it", async () => {
  const nt = cli.program();
  const job = nt.job("digest", {
    every: "1h",
    retry: { attempts: 1 },
    run: () => {
      throw notSent(new Error("no network"));
    },
  });
  await job.runAt(lastHour());
  const { code, out } = await cli.run(["retry", await keyOf("job:digest"), ...reason]);
  expect(code).toBe(0);
  const [, slot] = /nevertwice run --job digest --slot (\S+) -- <command>, or job\.runAt/.exec(out) ?? [];
  const ran = await cli.run(["run", "--job", "digest", "--slot", slot as string, "--", "echo", "ran"], {
    env: { PATH: process.env.PATH ?? "" },
  });
  expect(ran).toMatchObject({ code: 0, out: "ran\n" });
});

it("a record of nt.once: resend names the call that does it again", async () => {
  await cli.program().once("welcome", ["ada"], () => "sent");
  const { code, err } = await cli.run(["resend", await keyOf("welcome"), ...reason]);
  expect([code, err]).toEqual([2, expect.stringContaining('await nt.once("welcome", parts, run, { version: 2 })')]);
});
