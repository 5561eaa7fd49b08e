/** What a program is told about its own words: marks, names and keys. */
import { nevertwice, notSent, outcomeOf, refused, rejected } from "nevertwice";
import { describe, expect, it, onTestFinished } from "vitest";

function open() {
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

describe("refused, rejected and notSent with a message", () => {
  it.each([refused, rejected, notSent])("%o: what is thrown is an error with that message", async (mark) => {
    const send = open().action("send", {
      key: ["to"],
      retry: { attempts: 1 },
      run: (_: { to: string }) => Promise.reject(mark("no such address")),
    });
    const thrown = await send({ to: "ada" }).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Error);
    expect(thrown).toMatchObject({ message: "no such address" });
    expect(outcomeOf(thrown as Error)).toMatchObject({ status: "failed" });
  });
});

describe("names that the ledger has for its own records", () => {
  const OWN = ["nevertwice.x", "run:x", "step:x", "branch:x", "sequence:x", "job:x", "job-plan:x", "job-since:x"];

  it.each(OWN)("%s is refused for an action, a queue and once, with what to do", async (name) => {
    const nt = open();
    const run = async () => 1;
    const message = /names that begin with ".*" are the ledger's own .*Choose another name\./;
    expect(() => nt.action(name, { key: ["x"], run: async (_: { x: string }) => 1 })).toThrow(message);
    expect(() => nt.queue(name)).toThrow(message);
    await expect(nt.once(name, ["x"], run)).rejects.toThrow(message);
  });

  it("runs, sequences and jobs go on, and so does an action that had such a name before", async () => {
    const nt = open();
    expect(await nt.run("x", "1", (run) => run.step("a", async () => 1))).toBe(1);
    const job = nt.job("x", { every: "1h", run: async () => 2 });
    expect(await job.runAt(new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000))).toMatchObject({ status: "done" });
    const sequence = nt.sequence("x", ["a"], { run: async () => 3 });
    await sequence.start("ada", undefined as never);
    const renamed = nt.action("mine", {
      key: ["x"],
      formerly: { name: "step:mine" },
      run: async (_: { x: string }) => 4,
    });
    expect(await renamed({ x: "1" })).toBe(4);
  });
});

it("INVALID_KEY names the action, whatever is wrong with its key", async () => {
  const nt = open();
  const run = async () => 1;
  const dated = nt.action("digest", { key: () => ["a", "b", new Date()], run });
  await expect(dated({})).rejects.toThrow(/^action "digest": key\[2\]: a Date is never the same/);
  await expect(nt.once("welcome", [null], run)).rejects.toThrow(/^action "welcome": key\[0\]: the part is null/);
  await expect(nt.once("welcome", ["a"], run, { scope: " " })).rejects.toThrow(/^action "welcome": scope: /);
});
