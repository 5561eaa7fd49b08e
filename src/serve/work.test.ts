/** Queued work that is run outside: what programs enqueue is taken, and what is enqueued from outside is worked off. */
import { describe, expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Answer, operations } from "../../test/support/served.ts";

const MAIL = { action: "mail", parts: ["lead-7"], input: { to: "a@example.com" } };
const TAKE = { actions: ["mail"] };

eachStore("work taken from outside", (open) => {
  const start = (options = {}) => {
    const bench = open(options);
    return { ...bench, ...operations(bench.store, options), program: bench.nt };
  };
  const take = async (ask: ReturnType<typeof start>["ask"], more = {}): Promise<Answer[]> =>
    (await ask("take", { ...TAKE, ...more })).work;

  it("D7: what a program enqueues is taken once, with its input, and is done for the program", async () => {
    const { ask, program } = start();
    const mail = program.action("mail", { key: ["to"], run: async (_: { to: string }) => "by a worker" });
    const { key } = await mail.enqueue({ to: "a@example.com" });
    const [work, none] = [await take(ask), await take(ask)];
    expect(work).toMatchObject([
      { status: "claimed", key, action: "mail", attempt: 1, state: "sent", input: { to: "a@example.com" } },
    ]);
    expect(none).toEqual([]);
    expect(await mail.attempt({ to: "a@example.com" }, { wait: 0 })).toMatchObject({ status: "in_flight" });
    await ask("settle", { token: work[0].token, as: "done", result: "by Python" });
    expect(await mail({ to: "a@example.com" })).toBe("by Python");
  });

  it("D7: what is enqueued from outside is worked off by a program's worker, once however often it is enqueued", async () => {
    const { ask, program } = start();
    const ran: unknown[] = [];
    program.action("mail", {
      key: ["to"],
      run: async (input: { to: string }) => {
        ran.push(input);
        return "by a worker";
      },
    });
    const enqueue = { ...MAIL, parts: ["a@example.com"] };
    expect(await ask("enqueue", enqueue)).toMatchObject({ status: "queued" });
    expect(await ask("enqueue", enqueue)).toMatchObject({ status: "queued" });
    await program.worker().drain();
    expect(ran).toEqual([{ to: "a@example.com" }]);
    expect(await ask("enqueue", enqueue)).toMatchObject({ status: "done", result: "by a worker" });
    expect(await ask("enqueue", { ...enqueue, input: { to: "b@example.com" } })).toMatchObject({
      status: "conflict",
      differs: ["to"],
    });
  });

  it("D7: due times, deadlines, priorities and orders are those of the outbox", async () => {
    const { ask, clock, record } = start();
    const enqueue = (part: string, more: object) =>
      ask("enqueue", { action: "mail", parts: [part], input: part, ...more });
    await enqueue("later", { delay: "1h" });
    await enqueue("at", { runAt: clock.instant().now + 7_200_000 });
    const stale = await enqueue("stale", { expires: "1s" });
    clock.advance(2_000);
    await enqueue("low", {});
    await enqueue("high", { priority: 9 });
    const work = await take(ask, { limit: 10 });
    expect(work.map(({ input }: Answer) => input)).toEqual(["high", "low"]);
    expect(await record(stale.key)).toMatchObject({ state: "failed", error: { code: "EXPIRED" } });
    clock.advance(3_600_000);
    expect((await take(ask)).map(({ input }: Answer) => input)).toEqual(["later"]);
    await enqueue("first", { order: "ann" });
    await enqueue("second", { order: "ann" });
    const [first, none] = [await take(ask, { limit: 10 }), await take(ask)];
    expect(first.map(({ input }: Answer) => input)).toEqual(["first"]);
    expect(none).toEqual([]);
    await ask("settle", { token: first[0].token, as: "done" });
    clock.advance(10_000);
    expect((await take(ask)).map(({ input }: Answer) => input)).toEqual(["second"]);
  });

  it("D7: a taker that dies leaves a doubt; with mark manual, before its send mark, it leaves none", async () => {
    const { ask, nt, clock } = start();
    await ask("enqueue", MAIL);
    const [manual] = await take(ask, { mark: "manual" });
    expect(manual).toMatchObject({ state: "claimed" });
    clock.advance(61_000);
    const [auto] = await take(ask);
    expect(auto).toMatchObject({ state: "sent", attempt: 2, key: manual.key });
    clock.advance(61_000);
    await nt.sweep();
    expect(await take(ask)).toEqual([]);
    expect(await ask("status", { key: auto.key })).toMatchObject({ status: "unknown" });
  });

  it("D7: a doubt of queued work is handed out again only where doubt says so by name", async () => {
    const { ask, clock } = start();
    await ask("enqueue", MAIL);
    const [first] = await take(ask);
    await ask("settle", { token: first.token, as: "unknown" });
    expect(await take(ask)).toEqual([]);
    const [again] = await take(ask, { doubt: "retry", limit: 5 });
    expect(again).toMatchObject({ key: first.key, resend: true, input: MAIL.input, attempt: 2 });
    await ask("settle", { token: again.token, as: "unknown" });
    clock.advance(7_200_000);
    expect(await take(ask, { doubt: { resendWithin: "1h" } })).toEqual([]);
  });

  it("D7: not-sent is tried again after its pause, and is a dead letter after its tries; not-begun is no try", async () => {
    const { ask, clock, record } = start();
    await ask("enqueue", MAIL);
    const retry = { attempts: 2, backoff: "10s", max: "10s" };
    const [first] = await take(ask, { retry });
    expect(await ask("settle", { token: first.token, as: "not-begun" })).toMatchObject({ status: "queued" });
    const [second] = await take(ask, { retry });
    expect(second).toMatchObject({ attempt: 1, fence: 2 });
    const put = await ask("settle", {
      token: second.token,
      as: "not-sent",
      retryAfter: "20s",
      error: { message: "503" },
    });
    expect(put).toMatchObject({ status: "queued" });
    expect(await take(ask, { retry })).toEqual([]);
    clock.advance(21_000);
    const [third] = await take(ask, { retry });
    expect(third).toMatchObject({ attempt: 2 });
    expect(await ask("settle", { token: third.token, as: "not-sent" })).toMatchObject({
      status: "failed",
      final: false,
    });
    expect(await record(third.key)).toMatchObject({ state: "failed", final: false });
  });

  it("D7, B6: queued work that is not sent is tried for days, unless retry says otherwise", async () => {
    const { ask, clock } = start();
    await ask("enqueue", MAIL);
    for (let tries = 1; tries <= 8; tries += 1) {
      const [work] = await take(ask);
      expect(work, `try ${tries}`).toMatchObject({ attempt: tries });
      expect(await ask("settle", { token: work.token, as: "not-sent" })).toMatchObject({ status: "queued" });
      clock.advance(3_600_000);
    }
  });

  it("D7, A6: who enqueued, claimed and took it is on record, and the provider's id leads back to it", async () => {
    const { ask, nt, record } = start();
    const { key } = await ask("enqueue", { ...MAIL, agent: "planner" });
    expect(await record(key)).toMatchObject({ agent: "planner" });
    const [work] = await take(ask, { agent: "mailer" });
    await ask("settle", { token: work.token, as: "done", result: { id: "msg_81" } });
    expect(await record(key)).toMatchObject({ agent: "mailer", providerId: "msg_81" });
    expect(await nt.find({ providerId: "msg_81" })).toMatchObject([{ key }]);
    const claimed = await ask("claim", { action: "call", parts: [1], agent: "caller" });
    expect(await record(claimed.key)).toMatchObject({ agent: "caller" });
  });

  it("D7: a take whose reply was lost is asked for again by its request, and gets the same work", async () => {
    const { ask } = start();
    for (const part of ["a", "b", "c"]) await ask("enqueue", { ...MAIL, parts: [part], input: part });
    const request = "take-1";
    const first = await take(ask, { limit: 2, request });
    expect(first).toHaveLength(2);
    const again = await take(ask, { limit: 2, request });
    expect(again).toEqual(expect.arrayContaining(first.map((one: Answer) => ({ ...one, again: true }))));
    await ask("settle", { token: first[0].token, as: "done" });
    expect(await take(ask, { limit: 2, request })).toHaveLength(1);
    await ask("settle", { token: first[1].token, as: "done" });
    const third = await take(ask, { limit: 2, request });
    expect(
      first
        .concat(third)
        .map(({ input }: Answer) => input)
        .toSorted(),
    ).toEqual(["a", "b", "c"]);
  });

  it("D7: a take waits for work, and for no longer than its caller", async () => {
    const { ask } = start();
    const waiting = take(ask, { wait: "20s" });
    await ask("enqueue", MAIL);
    expect(await waiting).toHaveLength(1);
    const left = new AbortController();
    const caller = { gone: () => left.signal.aborted, signal: left.signal };
    const second = ask("take", { ...TAKE, wait: "60s" }, caller);
    left.abort();
    expect(await second).toEqual({ work: [] });
  });

  it("D7: of takes that wait for the same only the first looks, and each gets its work when it is there", async () => {
    const { ask, store } = start();
    const lease = store.lease.bind(store);
    let looks = 0;
    store.lease = (query) => {
      looks += 1;
      return lease(query);
    };
    const waiting = Array.from({ length: 30 }, () => take(ask, { wait: "60s" }));
    await until(() => looks >= 30, "each has looked once");
    await new Promise((done) => setTimeout(done, 600));
    // Ten times as many, if each looked for itself.
    expect(looks).toBeLessThan(60);
    const parts = Array.from({ length: 30 }, (_, at) => [`m-${at}`]);
    for (const one of parts) await ask("enqueue", { ...MAIL, parts: one });
    const taken = (await Promise.all(waiting)).flat();
    expect(new Set(taken.map(({ key }: Answer) => key)).size).toBe(30);
  });

  it("D7: work that was leased for a caller who has left is given back", async () => {
    const { ask, record } = start();
    const { key } = await ask("enqueue", MAIL);
    // It leaves while its work is being leased: the wait goes on, the answer does not arrive.
    const leaving = { gone: () => true, signal: new AbortController().signal };
    expect(await ask("take", TAKE, leaving)).toEqual({ work: [] });
    expect(await record(key)).toMatchObject({ state: "pending", attempt: 0 });
    expect(await take(ask)).toHaveLength(1);
  });

  it("D7: a service of one tenant hands out the work of that tenant alone", async () => {
    const bench = open();
    const [acme, other] = [operations(bench.store, { tenant: "acme" }), operations(bench.store, { tenant: "other" })];
    await acme.ask("enqueue", MAIL);
    expect(await other.ask("take", TAKE)).toEqual({ work: [] });
    expect((await acme.ask("take", TAKE)).work).toHaveLength(1);
  });

  it("D7: sealed work is left to those who have the key", async () => {
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    const secret = "a secret of sixteen and more";
    const bench = open();
    const sealed = operations(bench.store, { encrypt, secret });
    const blind = operations(bench.store, { secret });
    const { key } = await sealed.ask("enqueue", MAIL);
    expect(await blind.ask("take", TAKE)).toEqual({ work: [] });
    expect(await bench.record(key)).toMatchObject({ state: "pending", attempt: 0 });
    bench.clock.advance(31_000);
    expect((await sealed.ask("take", TAKE)).work).toMatchObject([{ key, input: MAIL.input }]);
  });

  it("D7: ten takers and a worker share a queue, and each piece of work is had once", async () => {
    const { ask, program } = start();
    const ran: string[] = [];
    program.action("mail", {
      key: ["to"],
      run: async ({ to }: { to: string }) => {
        ran.push(to);
      },
    });
    const all = Array.from({ length: 40 }, (_, i) => `to-${i}`);
    for (const to of all) await ask("enqueue", { action: "mail", parts: [to], input: { to } });
    const worker = program.worker({ concurrency: 2 });
    const taker = async () => {
      for (;;) {
        const [work] = await take(ask);
        if (work === undefined) return;
        ran.push(work.input.to);
        await ask("settle", { token: work.token, as: "done" });
      }
    };
    await Promise.all([worker.drain(), ...Array.from({ length: 10 }, taker)]);
    await until(() => ran.length >= all.length, "all work is done");
    expect(ran.toSorted()).toEqual(all.toSorted());
  });
});

describe("names", () => {
  it("D7: a queue of a program is taken from by its name", async () => {
    const { openMemory } = await import("../../test/support/each-store.ts");
    const bench = openMemory();
    const { ask } = operations(bench.store);
    await bench.nt.queue<{ id: number }>("tasks", { key: ["id"] }).add({ id: 1 });
    const { work } = await ask("take", { actions: ["tasks"], mark: "manual" });
    expect(work).toMatchObject([{ action: "tasks", input: { id: 1 }, state: "claimed" }]);
  });
});
