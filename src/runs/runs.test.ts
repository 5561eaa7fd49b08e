/** R5, F40, F41: runs that go on where they stopped. */
import { notSent, type Run, type RunOptions, rejected } from "nevertwice";
import { describe, expect, it } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, openSqlite } from "../../test/support/each-store.ts";

const refused = () => notSent(new Error("the door was closed"));

eachStore("R5: a run", (open) => {
  it("takes its steps once, and a finished run returns its result without being called", async () => {
    const { nt, another } = open();
    const calls: string[] = [];
    const onboard = (program: typeof nt) =>
      program.run("onboard", "lead-1", async (run) => {
        calls.push("body");
        const lead = await run.step("source", () => ({ name: "Ada", step: calls.push("source") }));
        const more = await run.step("enrich", () => ({ ...lead, company: calls.push("enrich") }));
        return run.step("send", () => `${more.name} ${calls.push("send")}`);
      });
    expect(await onboard(nt)).toBe("Ada 4");
    expect(await onboard(another())).toBe("Ada 4");
    expect(calls).toEqual(["body", "source", "enrich", "send"]);
  });

  it("F40: called again after a step failed, finished steps return what they returned", async () => {
    const { nt, another } = open();
    const calls: string[] = [];
    let broken = true;
    const onboard = (program: typeof nt) =>
      program.run("onboard", 7, async (run) => {
        const id = await run.step("create", () => ({ id: calls.push("create") }));
        await run.step(
          "mail",
          () => {
            calls.push("mail");
            if (broken) throw refused();
          },
          { retry: { attempts: 1 } },
        );
        return { id, attempt: run.attempt };
      });
    await expect(onboard(nt)).rejects.toThrow("the door was closed");
    broken = false;
    expect(await onboard(another())).toEqual({ id: { id: 1 }, attempt: 2 });
    expect(calls).toEqual(["create", "mail", "mail"]);
  });

  it("a step in doubt is held, as any action is, and the run goes on once somebody has settled it", async () => {
    const { nt, store } = open();
    const calls: string[] = [];
    const onboard = () =>
      nt.run("onboard", "x", async (run) => {
        await run.step("charge", () => {
          calls.push("charge");
          throw new Error("no answer");
        });
        return run.step("thank", () => calls.push("thank"));
      });
    for (let call = 0; call < 2; call += 1) await expect(onboard()).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(calls).toEqual(["charge"]);
    const { items } = await store.list({ limit: 1, action: "step:onboard" });
    await nt.resolve(
      { key: items[0]?.record.key as string },
      { as: "done", result: undefined, by: "ada", reason: "seen in the dashboard" },
    );
    expect(await onboard()).toBe(2);
    expect(calls).toEqual(["charge", "thank"]);
  });

  it("a run that was refused for good is not taken up again", async () => {
    const { nt } = open();
    let bodies = 0;
    const order = () =>
      nt.run("order", "o-1", async () => {
        bodies += 1;
        throw rejected(new Error("out of stock for ever"));
      });
    await expect(order()).rejects.toThrow(/out of stock/);
    await expect(order()).rejects.toMatchObject({ code: "FAILED" });
    expect(bodies).toBe(1);
  });

  it("another id, another version, another tenant: another run", async () => {
    const { nt } = open();
    let steps = 0;
    const go = (id: string, options = {}) => nt.run("r", id, (run) => run.step("s", () => ++steps), options);
    expect(await go("a")).toBe(1);
    expect(await go("b")).toBe(2);
    expect(await go("a", { version: 2 })).toBe(3);
    expect(await go("a", { tenant: "acme" })).toBe(4);
    expect([await go("a"), await go("b"), await go("a", { version: 2 })]).toEqual([1, 2, 3]);
  });

  it("O3: two processes at one run: one is at it, the other waits and gets the result", async () => {
    const { nt, another } = open();
    const calls: string[] = [];
    const go = (program: typeof nt) =>
      program.run("slow", "1", async (run) => {
        calls.push("body");
        return run.step("wait", () => new Promise((done) => setTimeout(() => done(calls.push("step")), 100)));
      });
    expect(await Promise.all([go(nt), go(another())])).toEqual([2, 2]);
    expect(calls).toEqual(["body", "step"]);
    const held = nt.run("held", "1", () => new Promise((done) => setTimeout(done, 300)));
    await new Promise((done) => setTimeout(done, 50));
    await expect(another().run("held", "1", () => 1, { wait: 10 })).rejects.toMatchObject({ code: "IN_FLIGHT" });
    await held;
  });

  it("a run outlives its lease for as long as it takes: heartbeats keep it", async () => {
    const { nt, another } = open();
    let bodies = 0;
    const go = (program: typeof nt) =>
      program.run(
        "long",
        "1",
        async (run) => {
          bodies += 1;
          await new Promise((done) => setTimeout(done, 1_200));
          return run.step("end", () => bodies);
        },
        { lease: 300, wait: "10s" },
      );
    const first = go(nt);
    await new Promise((done) => setTimeout(done, 700));
    expect(await Promise.all([first, go(another())])).toEqual([1, 1]);
  });
});

eachStore("R5: steps side by side", (open) => {
  it("parallel steps and branches: each once, whatever order they end in", async () => {
    const { nt, another } = open();
    const calls: string[] = [];
    let broken = true;
    const slow = (name: string, ms: number) => () =>
      new Promise<string>((done) => setTimeout(() => done(`${name}${calls.push(name)}`), ms));
    const go = (program: typeof nt) =>
      program.run("fan", "1", async (run) => {
        const [a, b] = await Promise.all([run.step("a", slow("a", 40)), run.step("b", slow("b", 5))]);
        const both = await Promise.all(
          ["left", "right"].map((side, i) =>
            run.branch(side, async (branch) => {
              await branch.step("one", slow(`${side}.one`, broken ? 30 * i : 30 * (1 - i)));
              return branch.step("two", slow(`${side}.two`, 5));
            }),
          ),
        );
        await run.step(
          "join",
          () => {
            if (broken) throw refused();
          },
          { retry: { attempts: 1 } },
        );
        return [a, b, ...both];
      });
    await expect(go(nt)).rejects.toThrow();
    const before = [...calls];
    broken = false;
    const result = await go(another());
    expect(calls).toEqual(before);
    expect([...calls].sort()).toEqual(["a", "b", "left.one", "left.two", "right.one", "right.two"]);
    expect(result.map((text) => text.replace(/\d/g, ""))).toEqual(["a", "b", "left.two", "right.two"]);
  });
});

eachStore("F41: a release that changes the steps of a run under way", (open) => {
  const ORIGINAL = ["source", "enrich", "send"];

  async function begun(open_: typeof open, names: readonly string[], failAt: string) {
    const bench = open_();
    const calls: string[] = [];
    const go = (steps: readonly string[], options = {}, fail: string | null = null) =>
      bench.nt.run(
        "onboard",
        "l",
        async (run) => {
          for (const name of steps) {
            await run.step(
              name,
              () => {
                if (name === fail) throw refused();
                calls.push(name);
              },
              { retry: { attempts: 1 } },
            );
          }
          return steps.length;
        },
        options,
      );
    await expect(go(names, {}, failAt)).rejects.toThrow();
    return { go, calls };
  }

  it.each([
    [
      "renamed",
      ["source", "augment", "send"],
      /step 2 of this run was "enrich" \(confirmed\), and the program now calls "augment" there/,
    ],
    [
      "reordered",
      ["enrich", "source", "send"],
      /step 1 of this run was "source" \(confirmed\), and the program now calls "enrich" there/,
    ],
    ["removed", ["enrich", "send"], /step 1 of this run was "source"/],
    [
      "put in between",
      ["source", "check", "enrich", "send"],
      /step 2 of this run was "enrich".*now calls "check" there/,
    ],
    [
      "dropped at the end",
      ["source"],
      /step 2 of this run was "enrich" \(confirmed\), and the program no longer takes it/,
    ],
  ])("%s: a clear error, nothing is run", async (_, changed, message) => {
    const { go, calls } = await begun(open, ORIGINAL, "send");
    expect(calls).toEqual(["source", "enrich"]);
    await expect(go(changed)).rejects.toThrow(message);
    await expect(go(changed)).rejects.toThrow(
      /bring the old ones back until it has ended, or begin anew on purpose with \{ version: 2 \}/,
    );
    expect(calls).toEqual(["source", "enrich"]);
    expect(await go(ORIGINAL)).toBe(3);
    expect(calls).toEqual(ORIGINAL);
  });

  it("steps after the ones that were taken may change freely, and a new version begins anew", async () => {
    const { go, calls } = await begun(open, ORIGINAL, "enrich");
    expect(await go(["source", "augment", "check", "send"])).toBe(4);
    expect(calls).toEqual(["source", "augment", "check", "send"]);
    const other = await begun(open, ORIGINAL, "send");
    expect(await other.go(["send"], { version: 2 })).toBe(1);
    expect(other.calls).toEqual(["source", "enrich", "send"]);
  });
});

describe("what is wrong is said", () => {
  it("names, bodies and options", async () => {
    const { nt } = openSqlite();
    await expect(nt.run(" ", 1, () => 1)).rejects.toThrow(/a run's name must be a text of 1 to 150 characters/);
    for (const id of ["", " ", undefined])
      await expect(nt.run("r", id as string, () => 1)).rejects.toMatchObject({
        code: "INVALID_KEY",
        message: expect.stringMatching(/^run\("r", …\): its id is .* one id, one run/),
      });
    await expect(nt.run("r", 1, undefined as never)).rejects.toThrow(
      /the third argument must be the function that takes/,
    );
    await expect(nt.run("r", 1, () => 1, { retries: 3 } as never)).rejects.toThrow(/there is no option "retries"/);
    const twice = nt.run("r", 2, async (run) => {
      await run.step("mail", () => 1);
      await run.step("mail", () => 2);
    });
    await expect(twice).rejects.toThrow(/two steps are called "mail".*in a loop, put what it is about into the name/);
    await expect(nt.run("r", 3, (run) => run.step("x", undefined as never))).rejects.toThrow(
      /needs the function that does it/,
    );
    await expect(nt.run("r", 4, (run) => run.step("x", () => 1, { retries: 3 } as never))).rejects.toThrow(
      /run r: step "x": there is no option "retries"\. The options are: keep, .*, tx/,
    );
  });

  it("a step inside a step is refused: when the run is taken up again it would be missing", async () => {
    const { nt } = openSqlite();
    const taken: string[] = [];
    const inside = (run: Run) => run.step("inner", () => taken.push("inner"));
    const nested = nt.run("r", 1, (run) => run.step("outer", () => inside(run).catch((error) => error.message)));
    expect(await nested).toMatch(/the step "inner" was called inside a step\. .* Steps stand side by side/);
    const other = nt.run("r", 2, (run) => run.step("outer", () => nt.run("s", 2, inside)));
    expect([await other, taken]).toEqual([1, ["inner"]]);
  });

  it("a step and the record of a branch have the lease of their run, unless they have their own", async () => {
    const { nt, store, record } = openSqlite();
    const spanOf = async (key: string) => {
      const outcome = await nt.status({ key });
      if (outcome.status !== "in_flight") return outcome.status;
      return Math.round((outcome.until - (await record(key)).updatedAt) / 100) * 100;
    };
    const spans = (options: RunOptions) =>
      nt.run(
        "leased",
        JSON.stringify(options),
        async (run) => [
          await run.step("plain", ({ key }) => spanOf(key)),
          await run.step("own", ({ key }) => spanOf(key), { lease: "7s" }),
          await run.step("short", ({ key }) => spanOf(key), { timeout: "1s" }),
          await run.step("long", ({ key }) => spanOf(key), { timeout: "10m" }),
          await run.branch("b", (branch) => branch.step("in a branch", ({ key }) => spanOf(key))),
        ],
        options,
      );
    expect(await spans({ lease: "3s" })).toEqual([3_000, 7_000, 3_000, 720_000, 3_000]);
    expect(await spans({ lease: "5m" })).toEqual([300_000, 7_000, 300_000, 720_000, 300_000]);
    expect(await spans({})).toEqual([60_000, 7_000, 60_000, 720_000, 60_000]);
    expect((await store.list({ action: "branch:leased", limit: 10 })).items.length).toBe(3);
  });

  it("a step inside a step that nobody caught: the error, at once and on later calls, says what is wrong", async () => {
    const { nt } = openSqlite();
    const nested = () => nt.run("r", 1, (run) => run.step("outer", () => run.step("inner", () => 1)));
    for (let call = 0; call < 2; call += 1)
      await expect(nested()).rejects.toMatchObject({
        code: "OUTCOME_UNKNOWN",
        message: expect.stringMatching(
          /\(CONFIG\)\)\. Inside: run r: the step "inner" was called inside a step\. .*nevertwice resolve/,
        ),
      });
  });

  it("a step that is called after the run has ended, well or not, is refused and runs nothing", async () => {
    const { nt } = openSqlite();
    const taken: string[] = [];
    const kept: Run[] = [];
    await nt.run("r", 1, async (run) => void kept.push(run));
    const failed = nt.run("r", 2, (run) =>
      run.branch("side", async (branch) => {
        kept.push(branch);
        throw notSent(new Error("not today"));
      }),
    );
    await expect(failed).rejects.toThrow("not today");
    for (const run of kept)
      await expect(run.step("late", () => taken.push("late"))).rejects.toThrow(
        /the step "late" was called after the run had ended\. Nothing was run\. Wait for every step/,
      );
    expect([kept.length, taken]).toEqual([2, []]);
  });

  it("a step in the caller's own transaction commits with it, or not at all", async () => {
    const { nt, store } = openSqlite();
    const path = store.name.replace("sqlite:", "");
    await store.stats();
    const db = new DatabaseSync(path);
    db.exec("CREATE TABLE orders (id TEXT)");
    const count = () => (db.prepare("SELECT count(*) AS n FROM orders").all() as { n: number }[])[0]?.n;
    const go = (commit: boolean) =>
      nt.run("order", "o-1", async (run) => {
        db.exec("BEGIN IMMEDIATE");
        try {
          await run.step("insert", () => void db.prepare("INSERT INTO orders VALUES ('o-1')").run(), { tx: db });
          if (!commit) throw refused();
          db.exec("COMMIT");
        } catch (error) {
          db.exec("ROLLBACK");
          throw error;
        }
      });
    await expect(go(false)).rejects.toThrow();
    expect(count()).toBe(0);
    await go(true);
    await go(true);
    expect(count()).toBe(1);
    db.close();
  });
});
