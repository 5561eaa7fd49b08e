import { describe, expect, it } from "vitest";
import { callable, entryAction, entryLabel, entryOf, ownName } from "./entry-name.ts";

describe("the name of an action in the ledger", () => {
  it("says what a user called", () => {
    expect(entryOf(entryAction("step", "onboard"))).toEqual({ kind: "step", name: "onboard" });
    expect(entryOf(entryAction("plan", "post"))).toEqual({ kind: "plan", name: "post" });
    expect(entryOf("send_mail")).toEqual({ kind: "action", name: "send_mail" });
    expect(entryOf("step:")).toEqual({ kind: "action", name: "step:" });
  });

  it("is the ledger's own where it begins so", () => {
    for (const name of ["nevertwice.line", "run:x", "step:x", "job:x", "job-plan:x", "sequence:x"])
      expect(ownName(name)).toMatch(/the ledger's own/);
    for (const name of ["nevertwice", "runs:x", "send", "my.job:x"]) expect(ownName(name)).toBeNull();
  });

  it("is shown as what a program can call", () => {
    const names = [
      "run:onboard",
      "step:onboard",
      "branch:onboard",
      "sequence:drip",
      "job:post",
      "job-plan:post",
      "pay",
    ];
    expect(names.map(callable)).toEqual([
      "the run onboard",
      "the run onboard",
      "the run onboard",
      "the sequence drip",
      "the job post",
      "the job post",
      "pay",
    ]);
    expect(names.map(entryLabel)).toEqual([
      "run onboard",
      "a step of the run onboard",
      "a branch of the run onboard",
      "sequence drip",
      "job post",
      "the plan of the job post",
      "action pay",
    ]);
  });
});
