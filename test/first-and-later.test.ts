/** What is stored is JSON: whoever comes first and whoever comes later see the same, or somebody is refused or warned. */
import { type Nevertwice, notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, type Open } from "./support/each-store.ts";

const AT = new Date(0);

const LOSSY: readonly (readonly [value: unknown, said: RegExp])[] = [
  [{ at: AT }, /returned a Date \(in at\): a repeat would get its ISO string/],
  [
    { list: [{ seen: new Map() }] },
    /returned a Map \(in list\.0\.seen\), which cannot be stored: a repeat would get an empty/,
  ],
  [new Set([1]), /returned a Set, which cannot be stored: a repeat would get an empty object/],
  [{ score: Number.NaN }, /returned NaN \(in score\): a repeat would get null/],
  [{ body: Buffer.from("x") }, /returned bytes \(in body\): a repeat would get a plain object/],
];

const PLAIN: readonly unknown[] = [undefined, null, "x", { id: "m-1", tags: ["a", null], note: undefined, n: 0 }];

function listening(open: Open) {
  const warned: { code: string; message: string }[] = [];
  const bench = open({ onWarning: (warning) => void warned.push(warning) });
  return { ...bench, warned };
}

/** Every entry whose result is stored. */
const RESULTS: Readonly<Record<string, (nt: Nevertwice, value: unknown) => Promise<unknown>>> = {
  "an action": (nt, value) => nt.action("send", { key: ["id"], run: (_: { id: string }) => value })({ id: "1" }),
  once: (nt, value) => nt.once("send", ["1"], () => value),
  "a step": (nt, value) => nt.run("r", 1, async (run) => void (await run.step("s", () => value))),
  "a run": (nt, value) => nt.run("r", 1, () => value),
  "a job": (nt, value) =>
    nt.job("j", { every: "1d", run: () => value }).runAt(Math.floor(Date.now() / 86_400_000) * 86_400_000),
};

eachStore("a result that a repeat would get as something else", (open) => {
  it.each(Object.entries(RESULTS))("is warned about with its path, for %s", async (_, take) => {
    for (const [value, said] of LOSSY) {
      const { nt, warned } = listening(open);
      await take(nt, value);
      expect(warned.map(({ code }) => code)).toEqual(["RESULT_NOT_PLAIN"]);
      expect(warned[0]?.message).toMatch(said);
    }
    for (const value of [1n, { price: 1n }, "x".repeat(3 * 1024 * 1024)]) {
      const { nt, warned } = listening(open);
      await take(nt, value);
      expect(warned.map(({ code }) => code)).toEqual(["RESULT_NOT_STORED"]);
    }
  });

  it.each(Object.entries(RESULTS))("is not warned about where a repeat gets the same, for %s", async (_, take) => {
    for (const value of PLAIN) {
      const { nt, warned } = listening(open);
      await take(nt, value);
      expect(warned).toEqual([]);
    }
  });
});

eachStore("a draft", (open) => {
  const drafts = [{ at: AT }, { seen: new Map([["a", 1]]) }, { body: Buffer.from("x") }, { n: 1n }, { f: () => 1 }];

  it("that JSON would change is made again for a second run, never handed on as something else", async () => {
    for (const draft of drafts) {
      const { nt } = open();
      const seen: unknown[] = [];
      const send = nt.action("send", {
        key: ["id"],
        doubt: "retry",
        retry: { backoff: 1 },
        prepare: () => draft,
        run: (_: { id: string }, __, given: unknown) => {
          seen.push(given);
          if (seen.length === 1) throw new Error("no answer");
        },
      });
      await send({ id: "1" });
      expect(seen).toStrictEqual([draft, draft]);
    }
  });

  it("that JSON would change is not sent again under the provider's key: the bytes could differ", async () => {
    for (const draft of drafts) {
      const { nt } = open();
      let runs = 0;
      const send = nt.action("send", {
        key: ["id"],
        doubt: { resendWithin: "1d" },
        retry: { backoff: 1 },
        wait: 50,
        prepare: () => draft,
        run: (_: { id: string }) => {
          runs += 1;
          throw new Error("no answer");
        },
      });
      expect(await send.attempt({ id: "1" })).toMatchObject({ status: "unknown" });
      expect(runs).toBe(1);
    }
  });

  it("of plain data is stored, and a second send has the same", async () => {
    const { nt } = open();
    const seen: unknown[] = [];
    const send = nt.action("send", {
      key: ["id"],
      doubt: { resendWithin: "1d" },
      retry: { backoff: 1 },
      prepare: () => ({ nonce: Math.random(), note: undefined }),
      run: (_: { id: string }, __, draft: unknown) => {
        seen.push(draft);
        if (seen.length === 1) throw new Error("no answer");
      },
    });
    await send({ id: "1" });
    expect(seen[1]).toEqual(seen[0]);
  });
});

eachStore("what is queued", (open) => {
  const inputs = [
    { at: AT },
    { seen: new Map() },
    { price: 1n },
    { score: Number.NaN },
    { send: () => 1 },
    { body: "x".repeat(3 * 1024 * 1024) },
  ];

  it("is refused where a worker, a queue or a sequence would read something else, and nothing is queued", async () => {
    const { nt, store } = open();
    const send = nt.action("send", { key: () => ["1"], run: (_: object) => 1 });
    const queue = nt.queue<object>("tasks");
    const drip = nt.sequence<object>("drip", [{ step: "one" }], { run: () => 1 });
    for (const input of inputs) {
      await expect(send.enqueue(input)).rejects.toMatchObject({ code: "INVALID_INPUT" });
      await expect(queue.add(input as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
      await expect(drip.start("lead-1", input)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    }
    expect((await store.stats()).states.pending).toBe(0);
  });
});

eachStore("a step of a run that goes on", (open) => {
  it("gets plain results as they were", async () => {
    const { nt, another } = open();
    const seen: unknown[] = [];
    const go = (program: Nevertwice) =>
      program.run("r", 1, async (run) => {
        seen.push(await run.step("s", () => ({ id: 1, tags: [null, "a"] })));
        await run.step(
          "end",
          () => {
            if (seen.length === 1) throw notSent(new Error("not yet"));
          },
          { retry: { attempts: 1 } },
        );
      });
    await expect(go(nt)).rejects.toThrow("not yet");
    await go(another());
    expect(seen[1]).toStrictEqual(seen[0]);
  });
});
