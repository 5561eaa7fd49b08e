/** Workers on the stores that have a server: two instances on one ledger, as two processes would be. */
import { type Nevertwice, nevertwice, notSent } from "nevertwice";
import { afterAll, describe, expect, it } from "vitest";
import { flushableRedisDb, freshDatabase } from "../../test/services/addresses.ts";
import { until } from "../../test/support/gate.ts";

const stores = {
  PostgreSQL: (await freshDatabase()).url,
  Redis: await flushableRedisDb(),
};
const opened: Nevertwice[] = [];

afterAll(async () => {
  for (const nt of opened) await nt.close();
});

describe.each(Object.entries(stores))("worker on %s", (_, store) => {
  const connect = () => {
    const nt = nevertwice({ store, sweep: false });
    opened.push(nt);
    return nt;
  };

  it("B3 F36 two workers share the work; expiry, delay, retries and dead letters are what they are elsewhere", async () => {
    const sent: number[] = [];
    const failing = new Set([3, 30, 300]);
    const options = {
      key: ["id"] as const,
      retry: { attempts: 3, backoff: "1ms" },
      run: async ({ id }: { id: number }) => {
        if (id === 7) throw notSent(new Error("503"));
        if (failing.delete(id)) throw notSent(new Error("503"));
        sent.push(id);
        return `msg_${id}`;
      },
    };
    const [one, other] = [connect(), connect()];
    const send = one.action("mail", options);
    other.action("mail", options);
    await send.enqueueMany(Array.from({ length: 400 }, (_, id) => ({ id })));
    await send.enqueue({ id: 1_000 }, { delay: "1h" });
    await send.enqueue({ id: 1_001 }, { expires: new Date(Date.now() - 60_000) });
    await Promise.all([one, other].map((nt) => nt.worker({ concurrency: 16, poll: "20ms" }).start()));
    await until(async () => sent.length === 399 && (await send.status({ id: 7 })).status === "failed", "all at rest");
    expect(new Set(sent).size).toBe(399);
    expect(await send.status({ id: 42 })).toMatchObject({ status: "done", result: "msg_42" });
    expect(await send.status({ id: 1_000 })).toMatchObject({ status: "queued" });
    await until(async () => (await send.status({ id: 1_001 })).status === "failed", "the stale one");
    expect(await send.status({ id: 1_001 })).toMatchObject({ final: false, error: { code: "EXPIRED" } });
  });

  it("B6 a refused connection is tried again after a minute, for three days, and the next worker finds in the record until when", async () => {
    const run = async (_: { id: number }) => {
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" });
    };
    const [one, other] = [connect(), connect()];
    const [send] = [one, other].map((nt) => nt.action("b6_mail", { key: ["id"], run }));
    const { key } = (await send?.enqueue({ id: 1 })) ?? { key: "" };
    const before = one.store.now();
    await one.worker({ actions: ["b6_mail"] }).drain();
    const waiting = await other.status({ key });
    if (waiting.status !== "queued") throw new Error(waiting.status);
    expect(waiting.dueAt - before).toBeGreaterThanOrEqual(29_000);
    expect((waiting.givesUpAt ?? 0) - before).toBeGreaterThanOrEqual(3 * 86_400_000 - 1_000);
    expect(await other.worker({ actions: ["b6_mail"] }).tick()).toBe(0);
    const [stored] = await other.store.read([key]);
    expect(stored?.record).toMatchObject({ tries: 1, terms: { givesUpAt: waiting.givesUpAt } });
  });

  it("the latest deadline that anybody gave says how long an intent is known, before and after it is done", async () => {
    const nt = connect();
    const offer = nt.action("offer", { key: ["id"], keep: "1d", run: async (_: { id: number }) => 1 });
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000);
    const expiresAt = async (id: number) =>
      (await nt.store.read([await offer.keyOf({ id })]))[0]?.record.expiresAt as number;
    const [called, queued] = [{ id: 1 }, { id: 2 }];
    await offer(called);
    expect(await offer.enqueue(called, { expires: inDays(10) })).toMatchObject({ created: false, state: "confirmed" });
    expect(await expiresAt(1)).toBeGreaterThan(inDays(9).getTime());
    await offer.enqueue(queued, { expires: inDays(10), delay: "0s" });
    expect(await offer.enqueue(queued, { expires: inDays(20) })).toMatchObject({ created: false, state: "pending" });
    await offer(queued);
    expect(await expiresAt(2)).toBeGreaterThan(inDays(19).getTime());
  });

  it("limits and lines hold across workers", async () => {
    const line: number[] = [];
    let now = 0;
    let most = 0;
    let done = 0;
    // The first holds its place until a second has come, so that "two at once" does not hang on how fast this machine is.
    let second = () => {};
    const two = new Promise<void>((come) => {
      second = come;
    });
    const limited = {
      key: ["id"] as const,
      limit: { by: () => "one place", concurrency: 2 },
      run: async (_input: { id: number }) => {
        now += 1;
        most = Math.max(most, now);
        if (now === 2) second();
        await two;
        await new Promise((wait) => setTimeout(wait, 2));
        now -= 1;
        done += 1;
      },
    };
    const ordered = { key: ["id"] as const, run: async ({ id }: { id: number }) => void line.push(id) };
    const [one, other] = [connect(), connect()];
    const [send, step] = [one.action("limited", limited), one.action("ordered", ordered)];
    other.action("limited", limited);
    other.action("ordered", ordered);
    await send.enqueueMany(Array.from({ length: 20 }, (_, id) => ({ id })));
    await step.enqueueMany(
      Array.from({ length: 12 }, (_, id) => ({ id })),
      { orderKey: "acct" },
    );
    await Promise.all([one, other].map((nt) => nt.worker({ concurrency: 8, poll: "20ms" }).start()));
    await until(() => done === 20 && line.length === 12, "all done");
    expect(most).toBe(2);
    expect(line).toEqual(Array.from({ length: 12 }, (_, id) => id));
  });

  it("an idle worker is woken by another process's enqueue, long before it would look by itself", async () => {
    const [here, there] = [connect(), connect()];
    const rung: number[] = [];
    const ring = { key: ["id"] as const, run: async ({ id }: { id: number }) => void rung.push(id) };
    const send = here.action("ring", ring);
    there.action("ring", ring);
    const worker = there.worker({ poll: "1h" });
    const idle = new Promise<void>((done) => worker.on((event) => event.type === "idle" && done()));
    await worker.start();
    await idle;
    let id = 0;
    await until(async () => {
      // Again and again: the other side may not have heard yet that somebody waits.
      await send.enqueue({ id });
      id += 1;
      await new Promise((done) => setTimeout(done, 20));
      return rung.length > 0;
    }, "the ring");
  });
});
