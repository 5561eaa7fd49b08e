/** R5: what a run says about lease, timeout and doubt holds for its steps; errors and records name the step. */
import { NevertwiceError, notSent, type Run, rejected } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

const silence = () => {
  throw new Error("socket hang up");
};

eachStore("R5: a run's doubt", (open) => {
  it('"retry" reaches its steps, those of branches too', async () => {
    const { nt } = open();
    const calls: string[] = [];
    const flaky = (name: string) => () => {
      if (calls.push(name) % 2 === 1) throw new Error("no answer");
      return name;
    };
    const go = () =>
      nt.run(
        "read",
        "1",
        async (run) => {
          await run.step("search", flaky("search"));
          return run.branch("side", (branch) => branch.branch("deep", (deep) => deep.step("rate", flaky("rate"))));
        },
        { doubt: "retry" },
      );
    expect(await go()).toBe("rate");
    expect(calls).toEqual(["search", "search", "rate", "rate"]);
  });

  it("a step's own doubt comes first, and so does its kind of effect", async () => {
    const { nt } = open();
    let sent = 0;
    const charge = (id: string, options: object) => () =>
      nt.run(
        "pay",
        id,
        (run) =>
          run.step(
            "charge",
            () => {
              sent += 1;
              throw new Error("no answer");
            },
            options,
          ),
        { doubt: "retry", wait: 0 },
      );
    for (const [id, options] of Object.entries({ own: { doubt: "hold" }, effect: { effect: "mail" } })) {
      sent = 0;
      for (let call = 0; call < 2; call += 1)
        await expect(charge(id, options)()).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
      expect(sent, id).toBe(1);
    }
  });

  it("holds for steps alone: an action called inside keeps its own", async () => {
    const { nt } = open();
    let sent = 0;
    const send = nt.action("send", {
      key: ["id"],
      run: (_: { id: string }) => {
        sent += 1;
        throw new Error("no answer");
      },
    });
    const once = { wait: 0, retry: { attempts: 1 } };
    const go = () => nt.run("r", "1", (run) => run.step("s", () => send({ id: "a" }), once), { doubt: "retry" });
    const error = await go().catch((thrown: unknown) => thrown as NevertwiceError);
    expect(error).toBeInstanceOf(NevertwiceError);
    expect(sent).toBe(1);
  });
});

eachStore("R5: errors name the step", (open) => {
  const onboard = (nt: ReturnType<typeof open>["nt"], body: (run: Run) => Promise<unknown>) =>
    nt.run("onboard", "lead-1", body).catch((thrown: unknown) => thrown as NevertwiceError);

  it("in doubt: what the run waits for, and the command that settles it", async () => {
    const { nt, another, record } = open();
    const mails = (run: Run) => run.branch("mails", (branch) => branch.step("send", silence));
    for (const program of [nt, another()]) {
      const error = (await onboard(program, mails)) as NevertwiceError;
      const key = error.key as string;
      expect(error).toMatchObject({ code: "OUTCOME_UNKNOWN", outcome: { status: "unknown", key } });
      expect(error.message).toContain(
        `run onboard waits for a decision on step "mails › send" (${key}): attempt 1 may or may not have happened`,
      );
      expect(error.message).toContain(`nevertwice resolve ${key} --done --result '<json>' --reason "…"`);
      expect(error.message).toMatch(/Then call the run again: it goes on with that step\.$/);
      const { scope } = await record(key);
      expect((await record(scope as string)).error?.message).toBe(
        'waits for a decision on step "mails › send": an error nobody classified (Error)',
      );
    }
    const error = (await onboard(nt, mails)) as NevertwiceError;
    await nt.resolve({ key: error.key as string }, { as: "done", result: "m-1", by: "ada", reason: "seen" });
    expect(await onboard(nt, mails)).toBe("m-1");
  });

  it("failed: the user's own error comes as it was thrown, and the record of the run names the step", async () => {
    const { nt, store } = open();
    const cause = new Error("connection refused");
    const fail = (run: Run) =>
      run.step(
        "send",
        () => {
          throw notSent(cause);
        },
        { retry: { attempts: 1 } },
      );
    expect(await onboard(nt, fail)).toBe(cause);
    const { items } = await store.list({ action: "run:onboard", limit: 1 });
    expect(items[0]?.record.error?.message).toBe('step "send": connection refused');
  });

  it("refused for good, and called again: the step is named", async () => {
    const { nt } = open();
    const refuse = (run: Run) =>
      run.step("send", () => {
        throw rejected(new Error("no such address"));
      });
    await onboard(nt, (run) => refuse(run).catch(() => Promise.reject(new Error("later"))));
    const error = (await onboard(nt, refuse)) as NevertwiceError;
    expect(error.message).toMatch(/^run onboard, step "send" \(nt1_\w+\): refused for good/);
  });

  it("an error outside of the steps is the run's own", async () => {
    const { nt, store } = open();
    await onboard(nt, async (run) => {
      await run.step("send", () => 1);
      throw new Error("a slip");
    });
    const { items } = await store.list({ action: "run:onboard", limit: 1 });
    expect(items[0]?.record.error?.message).toBe("a slip");
  });
});

describe("R5: a run's lease and timeout", () => {
  const remaining = async (runTerms: object, stepTerms: object) => {
    const { nt, clock, store } = openMemory();
    const at = clock.instant();
    let seen = { timeout: 0, lease: 0 };
    await nt.run(
      "r",
      "1",
      (run) =>
        run.step(
          "s",
          async (ctx) => {
            const { items } = await store.list({ action: "step:r", limit: 1 });
            const lease = items[0]?.record.lease?.until ?? 0;
            const round = (ms: number) => Math.round(ms / 1_000);
            seen = { timeout: round(ctx.deadline - at.now), lease: round(lease - at.steady) };
          },
          stepTerms,
        ),
      runTerms,
    );
    return seen;
  };

  it.each([
    ["nothing", {}, {}, { timeout: 50, lease: 60 }],
    ["the run's lease", { lease: "120s" }, {}, { timeout: 100, lease: 120 }],
    ["the run's timeout", { timeout: "20s" }, {}, { timeout: 20, lease: 60 }],
    ["a run's timeout that needs a longer lease", { timeout: "100s" }, {}, { timeout: 100, lease: 120 }],
    ["both", { timeout: "20s", lease: "90s" }, {}, { timeout: 20, lease: 90 }],
    ["a step's own timeout", { timeout: "20s" }, { timeout: "30s" }, { timeout: 30, lease: 60 }],
    [
      "a step's own lease, too short for the run's timeout",
      { timeout: "40s" },
      { lease: "12s" },
      { timeout: 10, lease: 12 },
    ],
    ["a step's kind of effect", { timeout: "5s" }, { effect: "mail" }, { timeout: 30, lease: 90 }],
  ])("%s", async (_, runTerms, stepTerms, expected) => {
    expect(await remaining(runTerms, stepTerms)).toEqual(expected);
  });

  it("a step that takes longer than the run's timeout is in doubt, and named", async () => {
    const { nt } = openMemory();
    const slow = nt.run("slow", "1", (run) => run.step("wait", () => new Promise(() => {})), {
      timeout: "50ms",
      wait: 0,
    });
    await expect(slow).rejects.toThrow(/run slow waits for a decision on step "wait"/);
  });

  it.each([
    [{ timeout: "soon" }, /run\("r", …\): timeout.*"soon" is not a duration/],
    [{ timeout: 0 }, /run\("r", …\): timeout .*must be above zero/],
    [{ doubt: "maybe" }, /run\("r", …\): doubt is "maybe"; it takes "hold", "retry"/],
    [
      { doubt: { probe: () => "not-done", quietFor: 0 } },
      /run\("r", …\): doubt\.probe asks about one effect, and a run has several steps\. Give it to the step/,
    ],
    [{ timeOut: "5s" }, /no option "timeOut".*timeout/],
  ])("refuses %j before anything runs", async (options, message) => {
    const { nt } = openMemory();
    let ran = false;
    const go = nt.run("r", "1", () => (ran = true), options as never);
    await expect(go).rejects.toThrow(message);
    expect(ran).toBe(false);
  });
});
