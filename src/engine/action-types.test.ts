/** The public types, as a program outside sees them. Checked by tsc; the bodies run as well. */
import {
  type Absent,
  type Action,
  type AttemptContext,
  amount,
  day,
  email,
  keepFor,
  type Nevertwice,
  nevertwice,
  type OnceOptions,
  type Outcome,
  type Store,
  text,
  type,
} from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

const nt = nevertwice({ store: "memory:", sweep: false });

describe("types", () => {
  it("input and result follow from run", async () => {
    const send = nt.action("a", { key: ["to"], run: async (_input: { to: string; body: string }) => ({ id: 1 }) });
    expectTypeOf(send).toEqualTypeOf<Action<{ to: string; body: string }, { id: number }>>();
    expectTypeOf(send).parameter(0).toEqualTypeOf<{ to: string; body: string }>();
    expectTypeOf(await send({ to: "a", body: "" })).toEqualTypeOf<{ id: number }>();
    expectTypeOf(send.attempt).returns.toEqualTypeOf<Promise<Outcome<{ id: number }>>>();
    expectTypeOf(send.status).returns.toEqualTypeOf<Promise<Outcome<{ id: number }> | Absent>>();
    expect(await send({ to: "a", body: "" })).toEqual({ id: 1 });
  });

  it("a schema gives its input to callers and its output to run: zod, valibot", async () => {
    const byZod = nt.action("zod", {
      input: z.object({ n: z.string().transform(Number) }),
      run: async (input) => {
        expectTypeOf(input).toEqualTypeOf<{ n: number }>();
        return input.n + 1;
      },
    });
    expectTypeOf(byZod).parameter(0).toEqualTypeOf<{ n: string }>();
    expectTypeOf(byZod).returns.toEqualTypeOf<Promise<number>>();
    const byValibot = nt.action("valibot", {
      input: v.object({ n: v.pipe(v.string(), v.transform(Number)) }),
      run: async (input) => input.n + 1,
    });
    expectTypeOf(byValibot).parameter(0).toEqualTypeOf<{ n: string }>();
    expect([await byZod({ n: "1" }), await byValibot({ n: "1" })]).toEqual([2, 2]);
  });

  it("type<T>() declares the input and checks nothing when the program runs, in actions and in queues", async () => {
    const send = nt.action("declared", {
      run: async (i) => i.to.length,
      key: (i) => [i.to],
      input: type<{ to: string }>(),
    });
    expectTypeOf(send).toEqualTypeOf<Action<{ to: string }, number>>();
    const more = { to: "ada", more: new Date(0) };
    expect([await send(more), await send(more)]).toEqual([3, 3]);
    const unfit = { to: ["a", "b"] } as unknown as { to: string };
    expect(await send(unfit)).toBe(2);
    await send.enqueue({ to: "grace" });
    expect((await nt.worker({ actions: [send] }).drain()).done).toBe(1);
    const queue = nt.queue("declared tasks", { input: type<{ id: number }>(), key: ["id"] });
    await queue.add({ id: 1 });
    expect((await queue.take())?.input).toEqual({ id: 1 });
  });

  it("O13 effect is a closed union, and infers nothing", async () => {
    const pay = nt.action("typed-pay", { effect: "mail", key: ["id"], run: async (_: { id: number }) => "ok" });
    expectTypeOf(pay).toEqualTypeOf<Action<{ id: number }, string>>();
    // @ts-expect-error no such effect
    expect(() => nt.action("typed-sms", { effect: "sms", run: async (_: { id: number }) => 1 })).toThrow(
      /effect is "sms"/,
    );
    // @ts-expect-error the tiers have other names
    expect(() => keepFor.mail).toThrow(/keepFor\.mail does not exist/);
  });

  it("what prepare makes is what run gets", async () => {
    const send = nt.action("draft", {
      prepare: async (input: { to: string }) => ({ text: `to ${input.to}` }),
      run: async (_input: { to: string }, ctx, draft) => {
        expectTypeOf(ctx).toEqualTypeOf<AttemptContext>();
        expectTypeOf(draft).toEqualTypeOf<{ text: string }>();
        return draft.text;
      },
    });
    expect(await send({ to: "a" })).toBe("to a");
  });

  it("key and free name fields of the input; a misspelt one is an error", () => {
    const run = async (_input: { to: string; body: string }) => 1;
    nt.action("named", { key: ["to"], free: ["body"], run });
    // @ts-expect-error there is no such field
    nt.action("misspelt key", { key: ["too"], run });
    nt.action("fields", { key: { to: email, body: text }, run });
    nt.action("a window", { key: { to: true, at: day }, run: async (_input: { to: string; at: Date }) => 1 });
    nt.action("an amount", { key: { total: amount("EUR") }, run: async (_input: { total: number | string }) => 1 });
    nt.action("an amount in a function", {
      key: (i: { total: number }) => [amount(i.total, "EUR")],
      run: async () => 1,
    });
    // @ts-expect-error there is no such field
    nt.action("misspelt field", { key: { too: email }, run });
    // @ts-expect-error email() takes a text
    nt.action("other type", { key: { to: email }, run: async (_input: { to: number }) => 1 });
    nt.action("formerly", {
      key: ["to"],
      formerly: { name: "before", key: (i) => (i.to === "" ? null : [i.body]) },
      run,
    });
    // @ts-expect-error there is no such field
    nt.action("misspelt former field", { key: ["to"], formerly: { key: ["too"] }, run });
    // @ts-expect-error there is no such field
    nt.action("misspelt free", { free: ["bodyy"], run });
    // @ts-expect-error there is no such option
    expect(() => nt.action("misspelt option", { run, kee: "1d" })).toThrow();
  });

  it("an outcome is told apart by its status", () => {
    const read = (outcome: Outcome<number>) => {
      switch (outcome.status) {
        case "done":
          return expectTypeOf(outcome.result).toEqualTypeOf<number>();
        case "in_flight":
          return expectTypeOf(outcome.until).toEqualTypeOf<number>();
        case "queued":
          return expectTypeOf(outcome.dueAt).toEqualTypeOf<number>();
        case "failed":
          return expectTypeOf(outcome.error).toEqualTypeOf<unknown>();
        case "unknown":
          return expectTypeOf(outcome.why).toEqualTypeOf<string>();
        case "conflict":
          return expectTypeOf(outcome.differs).toEqualTypeOf<readonly string[]>();
        default:
          return expectTypeOf(outcome).toBeNever();
      }
    };
    expectTypeOf(read).parameter(0).toEqualTypeOf<Outcome<number>>();
  });

  it("a probe answers with the action's result", () => {
    nt.action("probed", {
      doubt: { quietFor: "1m", probe: async (input: { to: string }) => ({ as: "done", result: input.to.length }) },
      run: async (input: { to: string }) => input.to.length,
    });
    const probe = async () => ({ as: "done", result: "text" }) as const;
    const run = async (_input: { to: string }) => 1;
    // @ts-expect-error the probe's result and the effect's must be of one type
    nt.action("misprobed", { doubt: { quietFor: "1m", probe }, run });
  });

  it("once, stores and the instance", async () => {
    expectTypeOf(nt).toExtend<Nevertwice>();
    expectTypeOf(memoryStore()).toEqualTypeOf<Store>();
    expectTypeOf(sqliteStore).returns.toExtend<Store>();
    expectTypeOf<SqliteHandle["prepare"]>().parameter(0).toEqualTypeOf<string>();
    expectTypeOf<OnceOptions["wait"]>().toEqualTypeOf<string | number | undefined>();
    expectTypeOf(await nt.once("typed", [1], () => "x")).toEqualTypeOf<string>();
    // @ts-expect-error a key needs parts
    await expect(nt.once("typed", "not parts", () => 1)).rejects.toThrow();
  });
});
