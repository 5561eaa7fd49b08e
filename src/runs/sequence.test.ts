/** R6: drip sequences. Time is the store's clock, in the test's hand; the worker is the real one. */
import { type Nevertwice, notSent, rejected, type SequenceOptions } from "nevertwice";
import { expect, it } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, openSqlite } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const STEPS = ["welcome", { step: "social_proof", after: "2d" }, { step: "first_dollar", after: "3d" }] as const;
const by = { by: "ada", reason: "asked to" };

type Data = { email: string };

function drip(nt: Nevertwice, sent: string[], more: Partial<SequenceOptions<Data, unknown>> = {}) {
  return nt.sequence<Data, unknown>("welcome", STEPS, {
    retry: { attempts: 2, backoff: 1 },
    run: ({ subject, step, data }) => {
      sent.push(`${subject} ${step} ${data.email}`);
      return { id: `m-${sent.length}` };
    },
    ...more,
  });
}

const steps = (sent: readonly string[]) => sent.map((line) => line.split(" ")[1]);

eachStore("R6: a sequence", (open) => {
  it("each step of a subject once, in order, when it is due", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    const worker = nt.worker();
    expect(await sequence.start("ann", { email: "ann@example.com" })).toEqual({ created: true });
    expect(await sequence.start("ann", { email: "new@example.com" })).toEqual({ created: false });
    await worker.drain();
    expect(sent).toEqual(["ann welcome ann@example.com"]);
    clock.advance(DAY);
    await worker.drain();
    expect(sent.length).toBe(1);
    expect((await sequence.status("ann")).state).toBe("running");
    clock.advance(DAY + 1_000);
    await worker.drain();
    clock.advance(3 * DAY + 1_000);
    await worker.drain();
    expect(steps(sent)).toEqual(["welcome", "social_proof", "first_dollar"]);
    const status = await sequence.status("ann");
    expect([status.state, status.steps.map(({ outcome }) => outcome.status)]).toEqual([
      "done",
      ["done", "done", "done"],
    ]);
    const [first = 0, second = 0, third = 0] = status.steps.map(({ outcome }) => ("at" in outcome ? outcome.at : 0));
    expect([second - first > 2 * DAY, third - second > 3 * DAY]).toEqual([true, true]);
    await sequence.start("ann", { email: "ann@example.com" });
    clock.advance(30 * DAY);
    await worker.drain();
    expect(sent.length).toBe(3);
  });

  it("the time between steps counts from when the step before was taken, not from when it was due", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    await sequence.start("ann", { email: "a" });
    // Nobody worked for ten days: everything is due, and still only the first step is taken.
    clock.advance(10 * DAY);
    const worker = nt.worker();
    await worker.drain();
    expect(steps(sent)).toEqual(["welcome"]);
    clock.advance(2 * DAY + 1_000);
    await worker.drain();
    expect(steps(sent)).toEqual(["welcome", "social_proof"]);
    clock.advance(2 * DAY);
    await worker.drain();
    expect(sent.length).toBe(2);
    clock.advance(DAY + 1_000);
    await worker.drain();
    expect(sent.length).toBe(3);
  });

  it("stopped by name: no further step; restarted: the ones that were not taken, never the others again", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    await sequence.start("bob", { email: "b" });
    await worker.drain();
    await sequence.stop("ann", by);
    for (let day = 0; day < 8; day += 1) {
      clock.advance(DAY);
      await worker.drain();
    }
    expect(sent.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
      "ann welcome",
      "bob welcome",
      "bob social_proof",
      "bob first_dollar",
    ]);
    expect((await sequence.status("ann")).state).toBe("stopped");
    await sequence.restart("ann", by);
    for (let day = 0; day < 8; day += 1) {
      clock.advance(DAY);
      await worker.drain();
    }
    expect(steps(sent.filter((line) => line.startsWith("ann")))).toEqual(["welcome", "social_proof", "first_dollar"]);
    expect((await sequence.status("ann")).state).toBe("done");
  });

  it("a step in doubt holds the ones after it back, until somebody has settled it", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent, {
      run: ({ step }) => {
        sent.push(`x ${step}`);
        if (step === "welcome") throw new Error("no answer");
      },
    });
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    for (let day = 0; day < 6; day += 1) {
      await worker.drain();
      clock.advance(DAY);
    }
    expect(steps(sent)).toEqual(["welcome"]);
    const { state, steps: found } = await sequence.status("ann");
    expect(state).toBe("held");
    await nt.resolve({ key: found[0]?.outcome.key as string }, { as: "done", ...by });
    for (let day = 0; day < 8; day += 1) {
      clock.advance(DAY);
      await worker.drain();
    }
    expect(steps(sent)).toEqual(["welcome", "social_proof", "first_dollar"]);
  });

  it.each([
    ["stop", ["welcome"]],
    ["continue", ["welcome", "social_proof", "first_dollar"]],
  ] as const)("a step that was refused for good: onFailed %s", async (onFailed, expected) => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent, {
      onFailed,
      run: ({ step }) => {
        sent.push(`x ${step}`);
        if (step === "welcome") throw rejected(new Error("550 no such mailbox"));
      },
    });
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    for (let day = 0; day < 8; day += 1) {
      await worker.drain();
      clock.advance(DAY);
    }
    expect(steps(sent)).toEqual(expected);
    expect((await sequence.status("ann")).state).toBe("failed");
  });

  it("two workers, one step at a time, each once; a step that surely was not sent is tried again", async () => {
    const { nt, another, clock } = open();
    const sent: string[] = [];
    let refusals = 1;
    const run: SequenceOptions<Data, unknown>["run"] = ({ subject, step }) => {
      if (step === "social_proof" && refusals > 0) {
        refusals -= 1;
        throw notSent(new Error("connection refused"));
      }
      sent.push(`${subject} ${step}`);
    };
    const sequence = drip(nt, sent, { run });
    const second = another();
    drip(second, sent, { run });
    const workers = [nt.worker(), second.worker()];
    for (const subject of ["a", "b", "c"]) await sequence.start(subject, { email: subject });
    for (let day = 0; day < 8; day += 1) {
      await Promise.all(workers.map((worker) => worker.drain()));
      clock.advance(DAY);
    }
    expect([...sent].sort()).toEqual(
      ["a", "b", "c"].flatMap((subject) =>
        ["first_dollar", "social_proof", "welcome"].map((step) => `${subject} ${step}`),
      ),
    );
    for (const subject of ["a", "b", "c"])
      expect(steps(sent.filter((line) => line.startsWith(subject)))).toEqual([
        "welcome",
        "social_proof",
        "first_dollar",
      ]);
  });
});

it("started in the caller's own transaction: the sequence is there with the caller's row, or neither is", async () => {
  const { nt, store } = openSqlite();
  const sequence = drip(nt, []);
  await store.stats();
  const db = new DatabaseSync(store.name.replace("sqlite:", ""));
  db.exec("CREATE TABLE subscribers (name TEXT)");
  const subscribe = async (end: "COMMIT" | "ROLLBACK") => {
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO subscribers VALUES ('ann')");
    await sequence.start("ann", { email: "a" }, { tx: db });
    db.exec(end);
    const [rows] = db.prepare("SELECT count(*) AS n FROM subscribers").all() as { n: number }[];
    return [rows?.n, (await sequence.status("ann")).state];
  };
  expect(await subscribe("ROLLBACK")).toEqual([0, "absent"]);
  expect(await subscribe("COMMIT")).toEqual([1, "running"]);
  db.close();
});

it("what is wrong is said", async () => {
  const { nt } = openSqlite();
  const make =
    (list: unknown, options: unknown = { run: () => 1 }) =>
    () =>
      nt.sequence("s", list as never, options as never);
  expect(make([])).toThrow(/it takes a list of 1 to 100 steps/);
  expect(make(["a", "a"])).toThrow(/two steps are called "a"\. Names of steps must be unique/);
  expect(make(["a", { after: "2d" }])).toThrow(/step 2 has no name/);
  expect(make(["a", { step: "b", after: "soon" }])).toThrow(/after of "b"/);
  // A misspelled delay would be none at all.
  expect(make(["a", { step: "b", delay: "2d" }])).toThrow(
    /the step "b" has no option "delay"; it takes step and after/,
  );
  expect(make(["a"], {})).toThrow(/run is missing/);
  // A step that is forgotten before the next one looks for it. Without keep it is known for twice as long as its steps take.
  expect(() => nt.sequence("long", ["a", { step: "b", after: "45d" }], { run: () => 1 })).not.toThrow();
  expect(make(["a", { step: "b", after: "45d" }], { run: () => 1, keep: "30d" })).toThrow(
    /its steps take 45d, and keep is 30d: a step would be forgotten before .* such as \{ keep: "90d" \}, or "forever"/,
  );
  expect(make(["a", "b", "c"], { run: () => 1, after: "10d", keep: "20d" })).toThrow(/take 20d, and keep is 20d/);
  expect(make(["a", { step: "b", after: "45d" }], { run: () => 1, keep: "46d" })).not.toThrow();
  expect(make(["a"], { run: () => 1, wait: 1 })).toThrow(/there is no option "wait"/);
  const sequence = nt.sequence("t", ["a"], { run: () => 1 });
  await expect(sequence.start(" ", undefined)).rejects.toThrow(/the subject is " "; give the id of whom it is for/);
  await expect(sequence.stop("ann", { by: "", reason: "x" })).rejects.toThrow(/by is missing/);
  await expect(sequence.stop("ann", undefined as never)).rejects.toThrow(/by is missing/);
  await expect(sequence.restart("ann", { by: "ada" } as never)).rejects.toThrow(/reason is missing/);
});
