/** What a message advises must exist where it is to be written. */
import { nevertwice } from "nevertwice";
import { expect, it, onTestFinished } from "vitest";

function open() {
  const warned: string[] = [];
  const nt = nevertwice({
    store: "memory:",
    sweep: false,
    onWarning: ({ code, message }) => {
      if (code === "UNCLASSIFIED_ERROR") warned.push(message);
    },
  });
  onTestFinished(() => nt.close());
  return { nt, warned };
}

const fails = () => {
  throw new TypeError("cannot read properties of undefined");
};

it("an unclassified error of a step: what a step can have", async () => {
  const { nt, warned } = open();
  const error = await nt.run("onboard", "1", (run) => run.step("compute", fails)).catch((caught: Error) => caught);
  expect(warned).toEqual([
    expect.stringMatching(/^a step of the run onboard: .*give the step `classify:.*`doubt: "retry"`/),
  ]);
  for (const text of [...warned, (error as Error).message]) expect(text).not.toContain("tools:");
});

it("an unclassified error of a sequence: what a sequence can have", async () => {
  const { nt, warned } = open();
  const sequence = nt.sequence<object, unknown>("onboarding", ["welcome"], { run: fails });
  await sequence.start("ann", {});
  await nt.worker().drain();
  expect(warned).toEqual([expect.stringMatching(/^sequence onboarding: .*give the sequence `doubt: "retry"`/)]);
  expect(warned[0]).not.toMatch(/tools:|classify/);
  expect(() => nt.sequence("retried", ["welcome"], { run: fails, doubt: "retry" })).not.toThrow();
});

it("an unclassified error of a job: what a job can have", async () => {
  const { nt, warned } = open();
  const job = nt.job("report", { every: "1h", doubt: "hold", run: fails });
  await job.runAt(new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000)).catch(() => {});
  expect(warned).toEqual([expect.stringMatching(/^job report: .*give the job `doubt: "retry"`/)]);
  expect(warned[0]).not.toMatch(/tools:|classify/);
});

it("an unclassified error of a plain action: what an action can have", async () => {
  const { nt, warned } = open();
  await nt
    .action("pay", { key: ["id"], run: fails as (input: { id: number }) => never })({ id: 1 })
    .catch(() => {});
  expect(warned).toEqual([expect.stringMatching(/^action pay: .*give the action `classify:/)]);
  expect(warned[0]).not.toContain("tools:");
});
