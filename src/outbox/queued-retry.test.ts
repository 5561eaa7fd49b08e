import { nevertwice, notSent } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Bench, eachStore, openMemory } from "../../test/support/each-store.ts";

interface Mail {
  to: string;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** What Node throws where nobody listens. */
function connectionRefused(): Error {
  return Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:9"), { code: "ECONNREFUSED", syscall: "connect" });
}

eachStore("B6 queued work keeps trying", (open) => {
  /** A provider that refuses connections for as long as `down`. */
  function mailing(down: (passedMs: number) => boolean, options: object = {}, bench: Bench = open()) {
    const { clock, nt, record } = bench;
    const [sent, triedAt]: [string[], number[]] = [[], []];
    const began = clock.instant().now;
    const passed = () => clock.instant().now - began;
    const send = nt.action("mail", {
      key: ["to"],
      run: async ({ to }: Mail) => {
        triedAt.push(passed());
        if (down(passed())) throw connectionRefused();
        sent.push(to);
        return { mailed: to };
      },
      ...options,
    });
    const worker = nt.worker();
    /** Lets the time pass from try to try until nothing is pending any more, or for this long. */
    const live = async (key: string, forMs = 30 * DAY) => {
      for (let turn = 0; turn < 1_100; turn += 1) {
        await worker.drain();
        const { state, dueAt } = await record(key);
        if (state !== "pending" || passed() >= forMs) break;
        clock.advance(Math.max(0, (dueAt as number) - clock.instant().now));
      }
      return record(key);
    };
    return { ...bench, send, sent, triedAt, worker, live, passed };
  }

  it("a connection refused for two days, then back: sent once, and no dead letter", async () => {
    const { send, sent, live, triedAt } = mailing((passed) => passed < 2 * DAY);
    const { key } = await send.enqueue({ to: "ada" });
    expect(await live(key)).toMatchObject({ state: "confirmed" });
    expect(sent).toEqual(["ada"]);
    expect(await send({ to: "ada" })).toEqual({ mailed: "ada" });
    expect(sent).toEqual(["ada"]);
    // Growing pauses, from a minute to more than half an hour: neither eleven seconds nor a hammer.
    const pauses = triedAt.slice(1).map((at, i) => at - (triedAt[i] as number));
    expect(pauses[0]).toBeLessThanOrEqual(MINUTE + 1_000);
    expect(pauses.at(-1)).toBeGreaterThan(30 * MINUTE);
    expect(pauses.at(-1)).toBeLessThanOrEqual(3 * HOUR);
    expect(triedAt.length).toBeLessThan(150);
  });

  it("refused for four days: a dead letter after three, with a truthful message; a retry has three days of its own", async () => {
    const { nt, send, sent, live, passed, triedAt, record } = mailing((ms) => ms < 4 * DAY);
    const { key } = await send.enqueue({ to: "ada" });
    const dead = await live(key);
    expect(dead).toMatchObject({ state: "failed", final: false, error: { code: "ECONNREFUSED" } });
    expect(dead.error?.message).toContain("ECONNREFUSED");
    expect(dead.error?.message).toContain(`(given up after 3d of tries, at attempt ${triedAt.length})`);
    expect(passed()).toBeGreaterThanOrEqual(3 * DAY);
    expect(passed()).toBeLessThan(3 * DAY + HOUR);
    expect(await send.status({ to: "ada" })).toMatchObject({ status: "failed", final: false });
    await nt.retry({ key }, { by: "ana", reason: "the provider is back tomorrow" });
    expect((await record(key)).terms).toBeNull();
    expect(await live(key)).toMatchObject({ state: "confirmed" });
    expect(sent).toEqual(["ada"]);
  });

  it("the time counts from the first try: a delay, and days without a worker, do not use it up", async () => {
    const { send, live, clock, passed, worker, record } = mailing(() => true);
    const { key } = await send.enqueue({ to: "ada" }, { delay: "5d" });
    expect(await worker.tick()).toBe(0);
    clock.advance(9 * DAY);
    await worker.tick();
    const { terms, createdAt } = await record(key);
    expect(terms?.givesUpAt).toBeGreaterThanOrEqual(createdAt + 12 * DAY);
    expect((await live(key)).state).toBe("failed");
    expect(passed()).toBeGreaterThanOrEqual(12 * DAY);
  });

  it("status says when it is tried next, and when it is given up", async () => {
    const { send, worker, clock } = mailing(() => true);
    await send.enqueue({ to: "ada" });
    expect(await send.status({ to: "ada" })).not.toHaveProperty("givesUpAt");
    await worker.tick();
    const { now } = clock.instant();
    const outcome = await send.status({ to: "ada" });
    if (outcome.status !== "queued") throw new Error(outcome.status);
    expect(outcome.dueAt).toBeGreaterThan(now);
    expect(outcome.givesUpAt).toBeGreaterThan(now + 3 * DAY - MINUTE);
    expect(outcome.givesUpAt).toBeLessThanOrEqual(now + 3 * DAY);
  });

  it("`expires` replaces the three days, longer or shorter", async () => {
    const longer = mailing((ms) => ms < 5 * DAY);
    const { key } = await longer.send.enqueue({ to: "ada" }, { expires: "7d" });
    expect(await longer.live(key)).toMatchObject({ state: "confirmed" });
    const shorter = mailing(() => true);
    const { key: stale } = await shorter.send.enqueue({ to: "ada" }, { expires: "1h" });
    const dead = await shorter.live(stale);
    expect(dead).toMatchObject({ state: "failed", error: { code: "EXPIRED" } });
    expect(dead.error?.message).toContain("ECONNREFUSED");
    expect(shorter.passed()).toBeLessThan(HOUR + MINUTE);
  });

  it("an action's own retry applies to its queued work too; named apart, each has its own", async () => {
    const few = mailing(() => true, { retry: { attempts: 3, backoff: "10s", max: "10s" } });
    const { key } = await few.send.enqueue({ to: "ada" });
    expect(await few.live(key)).toMatchObject({ state: "failed", tries: 3 });
    expect(few.passed()).toBeLessThan(MINUTE);
    const apart = mailing(() => true, { retry: { attempts: 1, queued: { for: "2h" } } });
    const { key: other } = await apart.send.enqueue({ to: "ada" });
    expect(await apart.live(other)).toMatchObject({ state: "failed" });
    expect(apart.passed()).toBeGreaterThanOrEqual(2 * HOUR);
    expect(await apart.send.attempt({ to: "bob" })).toMatchObject({ status: "failed" });
    expect(apart.triedAt.length).toBeGreaterThan(5);
  });

  it("one intent, called directly and enqueued: the call stays short, the queue goes on, and it is sent once", async () => {
    const { send, sent, live, record } = mailing((ms) => ms < DAY, { wait: "1s", retry: { queued: {} } });
    const called = await send.attempt({ to: "ada" });
    expect(called).toMatchObject({ status: "failed", final: false });
    const { key } = called;
    expect(await record(key)).toMatchObject({ state: "pending", queued: false, terms: null });
    expect(await send.enqueue({ to: "ada" })).toMatchObject({ created: false, state: "pending" });
    await live(key, MINUTE);
    // In its pause, a call does not jump the queue: it answers what is true.
    expect(await send.attempt({ to: "ada" }, { wait: 0 })).toMatchObject({ status: "queued" });
    expect(await live(key)).toMatchObject({ state: "confirmed" });
    expect(sent).toEqual(["ada"]);
  });

  it("a direct call of due queued work does not start its three days anew", async () => {
    const { send, worker, clock, record } = mailing(() => true);
    const { key } = await send.enqueue({ to: "ada" });
    await worker.tick();
    const end = (await record(key)).terms?.givesUpAt;
    clock.advance(DAY);
    await send.attempt({ to: "ada" }, { wait: 0 });
    expect(await record(key)).toMatchObject({ state: "pending", terms: { givesUpAt: end } });
  });

  it("a Retry-After beyond the three days is a dead letter at once, which says so", async () => {
    const { nt, record } = open();
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        throw notSent(new Error("429: monthly quota used up"), { retryAfter: "20d" });
      },
    });
    const { key } = await send.enqueue({ to: "ada" });
    await nt.worker().drain();
    const { state, error } = await record(key);
    expect(state).toBe("failed");
    expect(error?.message).toMatch(/^429: monthly quota used up \(given up: the next try was asked for not before 20/);
  });

  it("in an order, those behind wait as long as the first is tried, and have three days of their own", async () => {
    const { send, worker, clock, record, triedAt } = mailing(() => true);
    const first = await send.enqueue({ to: "ada" }, { orderKey: "x" });
    const second = await send.enqueue({ to: "bob" }, { orderKey: "x" });
    for (let turn = 0; turn < 1_000 && (await record(first.key)).state === "pending"; turn += 1) {
      await worker.tick();
      if ((await record(first.key)).state === "pending") expect((await record(second.key)).tries).toBe(0);
      clock.advance(Math.max(0, ((await record(first.key)).dueAt ?? 0) - clock.instant().now));
    }
    expect((await record(first.key)).state).toBe("failed");
    expect(triedAt.at(-1)).toBeGreaterThanOrEqual(3 * DAY);
    for (let turn = 0; turn < 10 && (await record(second.key)).tries === 0; turn += 1) {
      clock.advance(MINUTE);
      await worker.drain();
    }
    const { state, terms } = await record(second.key);
    expect(state).toBe("pending");
    expect(terms?.givesUpAt).toBeGreaterThan(clock.instant().now + 2 * DAY);
  });

  it("a limit that is full and a lease handed back count neither as tries nor as time", async () => {
    const { send, worker, record } = mailing(() => true, { limit: { rate: "1/h" } });
    await send.enqueue({ to: "ada" });
    await worker.tick();
    const { key } = await send.enqueue({ to: "bob" });
    await worker.tick();
    expect(await record(key)).toMatchObject({ state: "pending", tries: 0, attempt: 0, terms: null });
  });

  it("tasks of a queue are queued work too", async () => {
    const { nt, clock } = open();
    const queue = nt.queue<{ topic: string }, string>("research", { key: ["topic"] });
    const { key } = await queue.add({ topic: "rates" });
    const began = clock.instant().now;
    let outcome = await queue.status({ key });
    for (let turn = 0; turn < 1_000; turn += 1) {
      outcome = (await (await queue.take())?.fail(new Error("no source"))) ?? outcome;
      if (outcome.status !== "queued") break;
      clock.advance(outcome.dueAt - clock.instant().now);
    }
    expect(outcome).toMatchObject({ status: "failed", final: false });
    expect(clock.instant().now - began).toBeGreaterThanOrEqual(3 * DAY);
  });

  it("the steps of a sequence are queued work too: a night without the provider breaks none off", async () => {
    const { nt, clock } = open();
    const began = clock.instant().now;
    const sent: string[] = [];
    const drip = nt.sequence("drip", ["welcome", "tips"], {
      run: async ({ step }) => {
        if (clock.instant().now - began < 12 * HOUR) throw connectionRefused();
        sent.push(step);
      },
    });
    await drip.start("ada", undefined);
    const worker = nt.worker();
    for (let turn = 0; turn < 500 && (await drip.status("ada")).state === "running"; turn += 1) {
      await worker.drain();
      clock.advance(15 * MINUTE);
    }
    expect(await drip.status("ada")).toMatchObject({ state: "done" });
    expect(sent).toEqual(["welcome", "tips"]);
  });

  it("doubts of queued work are sent again a few times only, also after days of failed tries", async () => {
    const { nt, clock, record } = open();
    let [tries, back] = [0, false];
    const send = nt.action("mail", {
      key: ["to"],
      doubt: { resendWithin: "24h" },
      run: async (_: Mail) => {
        tries += 1;
        if (!back) throw connectionRefused();
        throw new DOMException("no answer", "TimeoutError");
      },
    });
    const { key } = await send.enqueue({ to: "ada" });
    const worker = nt.worker();
    for (let turn = 0; turn < 20; turn += 1) {
      await worker.tick();
      clock.advance(HOUR);
    }
    const before = tries;
    expect(before).toBe(20);
    back = true;
    await worker.tick();
    expect((await record(key)).state).toBe("unknown");
    for (let turn = 0; turn < 10; turn += 1) await nt.sweep();
    expect((await record(key)).state).toBe("unknown");
    expect(tries - before).toBe(5);
    await nt.resolve({ key }, { as: "not-done", by: "ana", reason: "looked" });
    expect(await record(key)).toMatchObject({ state: "pending", tries: 0, terms: null });
  });

  it("a worker of another process finds in the record when the tries end", async () => {
    const { send, worker, another, clock, record, triedAt } = mailing(() => true);
    const { key } = await send.enqueue({ to: "ada" });
    await worker.tick();
    const end = (await record(key)).terms?.givesUpAt as number;
    const nt = another();
    nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        triedAt.push(0);
        throw connectionRefused();
      },
    });
    clock.advance(end - clock.instant().now);
    await nt.worker().drain();
    expect(await record(key)).toMatchObject({ state: "failed", tries: 2 });
  });
});

describe("B6 with the ledger down", () => {
  it("an outage of the ledger is no try, and does not change when the tries end", async () => {
    const { nt, clock, record } = openMemory();
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => Promise.reject(connectionRefused()) });
    const { key } = await send.enqueue({ to: "ada" });
    const worker = nt.worker();
    await worker.tick();
    const { terms, tries } = await record(key);
    clock.advance(DAY);
    const down = nevertwice({ store: unleasable(clock), sweep: false, onWarning: () => {} });
    onTestFinished(() => down.close());
    down.action("mail", { key: ["to"], run: async (_: Mail) => 0 });
    await expect(down.worker().tick()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await record(key)).toMatchObject({ terms, tries });
  });
});

function unleasable(clock: Bench["clock"]) {
  const store = memoryStore({ clock });
  store.lease = async () => {
    throw new Error("the server is gone");
  };
  return store;
}
