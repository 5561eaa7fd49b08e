import { currentAttempt } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

interface Job {
  id: string;
}

eachStore("results", (open) => {
  it("O7: the provider's answer is the stored result, and every replay gets one of its own", async () => {
    const { nt, another } = open();
    const options = { key: ["id"], run: async ({ id }: Job) => ({ id: `msg_${id}`, tags: ["a"] }) } as const;
    const send = nt.action("send", options);
    const first = await send({ id: "1" });
    first.tags.push("changed by the caller");
    const second = await send({ id: "1" });
    second.tags.push("changed by another");
    expect(await send({ id: "1" })).toEqual({ id: "msg_1", tags: ["a"] });
    expect(await another().action("send", options)({ id: "1" })).toEqual({ id: "msg_1", tags: ["a"] });
  });

  it("undefined, null, false, zero and the empty string are results like any other", async () => {
    const { nt, another } = open();
    const values = [undefined, null, false, 0, ""];
    const options = { key: ["n"], run: async ({ n }: { n: number }) => values[n] } as const;
    const send = nt.action("send", options);
    const elsewhere = another().action("send", options);
    for (const [n, value] of values.entries()) {
      expect(await send({ n })).toBe(value);
      expect(await elsewhere.attempt({ n })).toMatchObject({ status: "done", replayed: true, result: value });
    }
  });

  it("a result that cannot be stored is done all the same; a replay says what is missing and why", async () => {
    const { nt } = open();
    const results: Record<string, unknown> = { bigint: 1n, large: "x".repeat(1_100_000) };
    let runs = 0;
    const send = nt.action("send", {
      key: ["id"],
      run: async ({ id }: Job) => {
        runs += 1;
        return results[id];
      },
    });
    for (const id of Object.keys(results)) {
      expect(await send({ id })).toBe(results[id]);
      expect(await send.attempt({ id })).toMatchObject({
        status: "done",
        replayed: true,
        result: undefined,
        resultOmitted: expect.stringMatching(id === "large" ? /larger than/ : /JSON/),
      });
    }
    expect(runs).toBe(2);
  });

  it("an input that cannot be stored guards its key like any other", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("send", {
      key: ["id"],
      run: async (_job: Job & { body: string }) => ++runs,
    });
    const large = { id: "1", body: "x".repeat(300_000) };
    expect([await send(large), await send(large)]).toEqual([1, 1]);
    expect(await send.attempt({ ...large, body: "y" })).toMatchObject({ status: "conflict", differs: ["body"] });
  });
});

describe("what a running attempt knows", () => {
  it("O6: ctx has the key in every form a provider takes, the attempt, the fence and the deadline", async () => {
    const { nt, clock } = openMemory();
    const seen: Record<string, unknown> = {};
    const send = nt.action("send", {
      key: ["id"],
      timeout: "50s",
      run: async (_job: Job, ctx) => {
        Object.assign(seen, {
          key: ctx.key,
          attempt: ctx.attempt,
          fence: ctx.fence,
          aborted: ctx.signal.aborted,
          left: Math.round((ctx.deadline - clock.instant().now) / 1_000),
          uuid: ctx.providerKey("uuid"),
          hex: ctx.providerKey("hex"),
          short: ctx.providerKey({ maxLength: 36 }),
          plain: ctx.providerKey(),
        });
        await ctx.sent();
        ctx.log.info("hello");
      },
    });
    await send({ id: "1" });
    const key = await send.keyOf({ id: "1" });
    expect(seen).toMatchObject({ key, plain: key, attempt: 1, fence: 1, aborted: false, left: 50 });
    expect(seen.uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(seen.hex).toMatch(/^[0-9a-f]{64}$/);
    expect(seen.short).toBe(key.slice(4, 40));
  });

  it("O6: currentAttempt() in code deep below, each call its own, and nothing outside", async () => {
    const { nt } = openMemory();
    const deep = async () => {
      await new Promise((done) => setTimeout(done, 1));
      return currentAttempt()?.key;
    };
    const send = nt.action("send", {
      key: ["id"],
      prepare: deep,
      run: async (_job: Job, _ctx, draft) => [draft, await deep()],
    });
    const results = await Promise.all(["1", "2", "3"].map((id) => send({ id })));
    const keys = await Promise.all(["1", "2", "3"].map((id) => send.keyOf({ id })));
    expect(results).toEqual(keys.map((key) => [key, key]));
    expect(currentAttempt()).toBeUndefined();
    expect(await nt.once("ad hoc", [1], async (ctx) => currentAttempt() === ctx)).toBe(true);
  });

  it("a user's logger is handed through", async () => {
    const lines: string[] = [];
    const log = (message: string) => lines.push(message);
    const { nt } = openMemory({ logger: { debug: log, info: log, warn: log, error: log } });
    await nt.once("x", [1], ({ log }) => log.info("from the effect"));
    expect(lines).toEqual(["from the effect"]);
  });
});
