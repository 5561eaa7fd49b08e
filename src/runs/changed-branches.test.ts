/** F41 across branches: what a run has taken is asked for again before anything new runs. */
import { type Nevertwice, NevertwiceError, notSent, type Run } from "nevertwice";
import { describe, expect, it } from "vitest";
import { type Bench, eachStore, type Open, openMemory, openSqlite } from "../../test/support/each-store.ts";

type Body = (run: Run, take: Take) => Promise<unknown>;
type Take = (row: Run, name: string) => Promise<unknown>;

/** Runs of one id whose bodies differ. Steps named in `failing` fail, and surely did nothing. */
function program(bench: Pick<Bench, "nt">, id = "l-1") {
  const calls: string[] = [];
  const go = (body: Body, { failing = [], nt = bench.nt, ...options }: Options = {}) => {
    const take: Take = (row, name) =>
      row.step(
        name,
        () => {
          if (failing.includes(name)) throw notSent(new Error(`${name} failed`));
          calls.push(name);
          return name;
        },
        { retry: { attempts: 1 } },
      );
    return nt.run("onboard", id, (run) => body(run, take), options);
  };
  return { go, calls };
}

interface Options {
  readonly failing?: readonly string[];
  readonly nt?: Nevertwice;
  readonly version?: number;
  readonly renamed?: Readonly<Record<string, string>>;
  readonly tenant?: string;
}

async function failure(work: Promise<unknown>): Promise<NevertwiceError> {
  const error = await work.then(
    (value) => {
      throw new Error(`it ended with ${JSON.stringify(value)}`);
    },
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(NevertwiceError);
  return error;
}

/** source, then a branch with two steps, then a step at the end. */
const withBranch =
  (branch: string): Body =>
  async (run, take) => {
    await take(run, "source");
    await run.branch(branch, async (row) => {
      await take(row, "mail");
      await take(row, "call");
    });
    await take(run, "report");
  };

const sideBySide =
  (...names: string[]): Body =>
  async (run, take) => {
    await Promise.all(
      names.map((name) =>
        run.branch(name, async (row) => {
          await take(row, `${name}.mail`);
          await take(row, `${name}.call`);
        }),
      ),
    );
    return take(run, "report");
  };

const CHANGES: readonly (readonly [what: string, failsFirst: string, body: Body])[] = [
  ["a renamed branch", "call", withBranch("links")],
  ["a renamed branch of which all is done", "report", withBranch("links")],
  ["a branch in another branch", "call", (run, take) => run.branch("all", (row) => withBranch("left")(row, take))],
  [
    "a branch whose steps are now in the run's own function",
    "call",
    async (run, take) => {
      await take(run, "source");
      for (const name of ["mail", "call", "report"]) await take(run, name);
    },
  ],
  [
    "a branch that is gone, before a step that is to be tried again",
    "report",
    async (run, take) => {
      await take(run, "source");
      await take(run, "report");
    },
  ],
  [
    "a new branch in front",
    "call",
    async (run, take) => {
      await run.branch("check", (row) => take(row, "check"));
      await withBranch("left")(run, take);
    },
  ],
  [
    "a step of the run's own function in a branch",
    "mail",
    (run, take) => run.branch("start", (row) => take(row, "source")),
  ],
  ["a branch named by chance", "call", (run, take) => withBranch(`left-${Math.random()}`)(run, take)],
];

eachStore("F41: a release that changes the branches of a run under way", (open) => {
  it("runs nothing, shows both lists, and the old program still goes on", async () => {
    await Promise.all(
      CHANGES.map(async ([what, failing, body]) => {
        const { go, calls } = program(open());
        await expect(go(withBranch("left"), { failing: [failing] })).rejects.toThrow(`${failing} failed`);
        const before = [...calls];
        const error = await failure(go(body));
        expect(calls, what).toEqual(before);
        expect(error, what).toMatchObject({ code: "KEY_CONFLICT", outcome: { status: "conflict" } });
        expect(error.message, what).toMatch(/Nothing was run\. .* Recorded: "source" \(confirmed\), .*\. This call: /);
        expect(error.message, what).toMatch(/with \{ version: 2 \}, which runs all steps again/);
        await go(withBranch("left"));
        expect(calls, what).toEqual(["source", "mail", "call", "report"]);
      }),
    );
  });

  it("a renamed branch side by side with another is noticed before it begins", async () => {
    const { go, calls } = program(open());
    await expect(go(sideBySide("left", "right"), { failing: ["right.call"] })).rejects.toThrow("right.call failed");
    const before = [...calls];
    const error = await failure(go(sideBySide("links", "right")));
    expect(error.message).toMatch(/run onboard → left: step 1 of this run was "left\.mail" \(confirmed\)/);
    expect(error.message).toMatch(/Recorded: "left › left\.mail" \(confirmed\)/);
    expect(error.message).toMatch(/This call: "links › links\.mail"/);
    expect(error.message).toContain('pass { renamed: { "left": "links" } }');
    expect(calls).toEqual(before);
  });

  it("a function that catches the error runs nothing more, and does not end the run", async () => {
    const bench = open();
    const { go, calls } = program(bench);
    await expect(go(withBranch("left"), { failing: ["call"] })).rejects.toThrow();
    const stubborn: Body = async (run, take) => {
      await take(run, "source");
      await run.branch("links", (row) => take(row, "mail")).catch(() => {});
      await take(run, "report").catch(() => {});
      return "done after all";
    };
    expect((await failure(go(stubborn))).message).toMatch(/goes on with "links › mail" without it/);
    expect(calls).toEqual(["source", "mail"]);
    const { items } = await bench.store.list({ action: "run:onboard", limit: 2 });
    expect(items.map(({ record }) => record.state)).toEqual(["failed"]);
  });

  it("a function that ends without a branch that was taken does not end the run", async () => {
    const { go, calls } = program(open());
    await expect(go(withBranch("left"), { failing: ["report"] })).rejects.toThrow();
    const error = await failure(go((run, take) => take(run, "source")));
    expect(error.message).toMatch(
      /^run onboard → left: step 1 of this run was "mail" \(confirmed\), and the program no longer takes it\. Nothing/,
    );
    await go(withBranch("left"));
    expect(calls).toEqual(["source", "mail", "call", "report"]);
  });

  it("a loop that goes around less often is an error, one that goes on longer is not", async () => {
    const { go, calls } = program(open());
    const loop =
      (count: number): Body =>
      async (run, take) => {
        for (let at = 0; at < count; at += 1) await run.branch(`lead-${at}`, (row) => take(row, `mail-${at}`));
        return take(run, "report");
      };
    await expect(go(loop(3), { failing: ["report"] })).rejects.toThrow("report failed");
    expect((await failure(go(loop(2)))).message).toMatch(/lead-2: step 1 of this run was "mail-2"/);
    await go(loop(4));
    expect(calls).toEqual(["mail-0", "mail-1", "mail-2", "mail-3", "report"]);
  });

  it("a step in doubt in a renamed branch is not done again", async () => {
    const { nt, store } = open();
    const calls: string[] = [];
    const go = (branch: string) =>
      nt.run("pay", 1, (run) =>
        run.branch(branch, (row) =>
          row.step("charge", () => {
            calls.push("charge");
            throw new Error("no answer");
          }),
        ),
      );
    await expect(go("left")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect((await failure(go("links"))).message).toMatch(/step 1 of this run was "charge" \(unknown\)/);
    await expect(go("left")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(calls).toEqual(["charge"]);
    expect((await store.list({ action: "step:pay", limit: 5 })).items).toHaveLength(1);
  });

  it("says what this call has run, where it has run something", async () => {
    const { go, calls } = program(open());
    const caught =
      (last: string): Body =>
      async (run, take) => {
        await take(run, "first");
        await take(run, "second").catch(() => {});
        await take(run, last);
        return take(run, "end");
      };
    await expect(go(caught("third"), { failing: ["second", "end"] })).rejects.toThrow("end failed");
    const error = await failure(go(caught("other")));
    expect(error.message).toMatch(/Nothing was run from there on \(this call has run "second"\)/);
    expect(calls).toEqual(["first", "third", "second"]);
  });
});

eachStore("renamed steps and branches", (open) => {
  it("go on with what the run has, under the old name and the new one", async () => {
    const { go, calls } = program(open());
    const body =
      (branch: string, first: string): Body =>
      async (run, take) => {
        await take(run, first);
        await run.branch(branch, async (row) => {
          await take(row, "mail");
          await row.branch("inner", (inner) => take(inner, "call"));
        });
        await take(run, "report");
      };
    await expect(go(body("left", "source"), { failing: ["report"] })).rejects.toThrow("report failed");
    const error = await failure(go(body("left", "origin")));
    expect(error.message).toMatch(/pass \{ renamed: \{ "source": "origin" \} \}/);
    const renamed = { left: "links", source: "origin" };
    await expect(go(body("links", "origin"), { renamed, failing: ["report"] })).rejects.toThrow("report failed");
    await go(body("links", "origin"), { renamed });
    expect(calls).toEqual(["source", "mail", "call", "report"]);
  });

  it("a run that is new takes the new names, so that the old ones may be forgotten later", async () => {
    const { go, calls } = program(open());
    const renamed = { left: "links" };
    await expect(go(withBranch("links"), { renamed, failing: ["report"] })).rejects.toThrow("report failed");
    await go(withBranch("links"));
    expect(calls).toEqual(["source", "mail", "call", "report"]);
  });

  it("the error names both, where only one branch is gone and one is new; not where it could be several", async () => {
    const { go } = program(open());
    await expect(go(sideBySide("left", "right"), { failing: ["report"] })).rejects.toThrow("report failed");
    expect((await failure(go(sideBySide("links", "right")))).message).toContain(
      'pass { renamed: { "left": "links" } }',
    );
    for (const names of [["links", "rechts"], ["right"], ["links", "right", "rechts"]]) {
      const { message } = await failure(go(sideBySide(...names)));
      expect(message, names.join()).toContain('pass { renamed: { "old name": "new name" } }');
    }
  });

  it("the error shows what this call asks for by its new names, and the remedy before the lists", async () => {
    const bench = open();
    const { go } = program(bench);
    await expect(go(withBranch("left"), { failing: ["report"] })).rejects.toThrow("report failed");
    const changed: Body = async (run, take) => {
      await take(run, "origin");
      await run.branch("links", async (row) => {
        await take(row, "post");
        await take(row, "phone");
      });
    };
    const renamed = { source: "origin", left: "links", mail: "post", "never there": "x" };
    const error = await failure(go(changed, { renamed }));
    expect(error.message).toContain('pass { renamed: { "call": "phone" } }');
    expect(error.message).toMatch(/This call: "origin", "links › post", "links › phone"\.$/);
    const [stored] = (await bench.store.list({ action: "run:onboard", limit: 1 })).items;
    expect(stored?.record.error?.message).toMatch(
      /renamed: \{ "call": "phone" \}.*\{ version: 2 \}, which runs all steps again/,
    );
  });

  it("what is wrong with it is said", async () => {
    const { go } = program(open());
    const body: Body = (run, take) => take(run, "source");
    const shapes = ["left", null, 7, ["a", "b"], [], [["a", "b"]], new Map([["a", "b"]]), () => {}];
    for (const renamed of [...shapes, { left: "" }, { "": "links" }, { left: 7 }, { left: { to: "links" } }])
      await expect(go(body, { renamed: renamed as never })).rejects.toThrow(/renamed takes the old and the new names/);
    await expect(go(body, { renamed: { left: "b", right: "b" } })).rejects.toThrow(/two old names for "b"/);
  });
});

eachStore("programs that have not changed go on", (open) => {
  it("branches that are slower or faster than before, with other work between their steps", async () => {
    const { go, calls } = program(open());
    const names = ["a", "b", "c", "d"];
    const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));
    const body =
      (slowest: number): Body =>
      async (run, take) => {
        await Promise.all(
          names.map((name, at) =>
            run.branch(name, async (row) => {
              await pause(((at + slowest) % names.length) * 60);
              await take(row, `${name}1`);
              await pause(((at + slowest) % names.length) * 60);
              await take(row, `${name}2`);
              await take(row, `${name}3`);
            }),
          ),
        );
        return take(run, "end");
      };
    for (const [slowest, failing] of [["c3"], ["a2", "d3"], ["b3"], ["end"]].entries())
      await expect(go(body(slowest), { failing: [...failing, "end"] })).rejects.toThrow(/failed$/);
    await go(body(1));
    expect([...calls].sort()).toEqual([...names.flatMap((name) => [`${name}1`, `${name}2`, `${name}3`]), "end"].sort());
  });

  it("a branch that does other work for longer than the wait before it asks for its finished step", async () => {
    const { go, calls } = program(open());
    let slow = 0;
    const body: Body = async (run, take) => {
      await Promise.all([
        run.branch("left", async (row) => {
          await new Promise((done) => setTimeout(done, slow));
          await take(row, "left");
        }),
        run.branch("right", async (row) => {
          await take(row, "right");
          await take(row, "last");
        }),
      ]);
    };
    await expect(go(body, { failing: ["last"] })).rejects.toThrow("last failed");
    slow = 3_000;
    await go(body);
    expect([...calls].sort()).toEqual(["last", "left", "right"]);
  });

  it("steps side by side of which only the later ones were recorded", async () => {
    const { nt, store } = open();
    const calls: string[] = [];
    const go = (failing: readonly string[]) =>
      nt.run("fan", 1, (run) =>
        Promise.all(
          ["a", "b", "c"].map((name) =>
            run.step(
              name,
              () => {
                if (failing.includes(name)) throw notSent(new Error("not yet"));
                calls.push(name);
              },
              { retry: { attempts: 1 } },
            ),
          ),
        ),
      );
    await expect(go(["a", "b"])).rejects.toThrow("not yet");
    await go([]);
    expect([calls[0], ...calls.slice(1).sort()]).toEqual(["c", "a", "b"]);
    expect((await store.list({ action: "step:fan", limit: 9 })).items).toHaveLength(3);
  });

  it("steps and branches that follow what was taken may be new", async () => {
    const { go, calls } = program(open());
    await expect(go(withBranch("left"), { failing: ["call"] })).rejects.toThrow("call failed");
    await go(async (run, take) => {
      await take(run, "source");
      await run.branch("left", (row) => take(row, "mail"));
      await run.branch("more", (row) => take(row, "visit"));
      await run.branch("left-2", (row) => take(row, "again"));
    });
    expect(calls).toEqual(["source", "mail", "visit", "again"]);
  });

  it("sealed and of a tenant: the lists are read all the same, and a stranger's run is another", async () => {
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    const bench = open({ encrypt, secret: "a secret of the tests, long enough" });
    const { go, calls } = program(bench);
    const other = program(bench);
    await expect(go(withBranch("left"), { failing: ["call"], tenant: "acme" })).rejects.toThrow("call failed");
    await other.go(withBranch("links"), { tenant: "globex" });
    expect(other.calls).toHaveLength(4);
    const error = await failure(go(withBranch("links"), { tenant: "acme" }));
    expect(error.message).toMatch(/Recorded: "source" \(confirmed\), "left › mail" \(confirmed\)/);
    await go(withBranch("left"), { tenant: "acme" });
    expect(calls).toEqual(["source", "mail", "call", "report"]);
    const { items } = await bench.store.list({ action: "branch:onboard", limit: 9 });
    expect(items.map(({ record }) => record.tenant).sort()).toEqual(["acme", "globex"]);
    expect(JSON.stringify(items)).not.toContain("left");
  });

  it("a run that an older release began: without numbers in its steps and without records of its branches", async () => {
    const asBefore: Parameters<Open>[0] = {
      wrap: (store) => {
        const read = store.read.bind(store);
        store.read = async (keys) =>
          (await read(keys)).map((stored) => {
            if (stored === null || stored.record.action.startsWith("branch:")) return null;
            const { input } = stored.record;
            if (input === null || !("json" in input)) return stored;
            const { order: _, behind: __, ...rest } = JSON.parse(input.json);
            return { ...stored, record: { ...stored.record, input: { json: JSON.stringify(rest) } } };
          });
        return store;
      },
    };
    for (const failing of ["call", "report"]) {
      const bench = open();
      const { go, calls } = program(bench);
      await expect(go(withBranch("left"), { failing: [failing] })).rejects.toThrow(`${failing} failed`);
      await go(withBranch("left"), { nt: bench.another(asBefore) });
      expect(calls).toEqual(["source", "mail", "call", "report"]);
    }
  });

  it("two processes at once: one goes on, the other waits, each step once", async () => {
    const bench = open();
    const { go, calls } = program(bench);
    await expect(go(sideBySide("left", "right"), { failing: ["right.call"] })).rejects.toThrow();
    const nt = bench.another();
    expect(await Promise.all([go(sideBySide("left", "right")), go(sideBySide("left", "right"), { nt })])).toEqual([
      "report",
      "report",
    ]);
    expect([...calls].sort()).toEqual(["left.call", "left.mail", "report", "right.call", "right.mail"]);
  });
});

describe("a long list", () => {
  const many: readonly (readonly [what: string, open: Open])[] = [
    ["memory", openMemory],
    ["sqlite", openSqlite],
  ];

  it.each(many)("of 3000 steps and 500 branches is read in blocks, and a step reads no list (%s)", async (_, open) => {
    let reads = 0;
    const wrap: Parameters<Open>[0] = {
      wrap: (store) =>
        new Proxy(store, {
          get(target, name) {
            const value = Reflect.get(target, name) as unknown;
            if (typeof value !== "function") return value;
            return (...given: unknown[]) => {
              if (name === "read") reads += 1;
              if (name === "list") throw new Error("a run reads by key");
              return (value as (...given: unknown[]) => unknown).apply(target, given);
            };
          },
        }),
    };
    const { nt } = open(wrap);
    let ran = 0;
    const count = () => {
      ran += 1;
    };
    let fails = true;
    const body = async (run: Run) => {
      for (let at = 0; at < 3_000; at += 100)
        await Promise.all(Array.from({ length: 100 }, (__, i) => run.step(`s-${at + i}`, count)));
      await Promise.all(
        Array.from({ length: 500 }, (__, at) => run.branch(`b-${at}`, (row) => row.step("one", count))),
      );
      return run.step(
        "end",
        () => {
          if (fails) throw notSent(new Error("not today"));
          return "ended";
        },
        { retry: { attempts: 1 } },
      );
    };
    await expect(nt.run("long", 1, body)).rejects.toThrow("not today");
    expect(ran).toBe(3_500);
    fails = false;
    reads = 0;
    expect(await nt.run("long", 1, body)).toBe("ended");
    expect(ran).toBe(3_500);
    // 3 500 replays and the list, in batches: far from a list for each step.
    expect(reads).toBeLessThan(3_500);
  });
});
