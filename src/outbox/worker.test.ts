import { notSent, rejected, type Store } from "nevertwice";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { type Bench, eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}

const mailTo = (to: string) => ({ to });

eachStore("worker", (open) => {
  function mailing(bench: Bench = open(), more: object = {}) {
    const sent: string[] = [];
    const send = bench.nt.action("mail", {
      key: ["to"],
      run: async ({ to }: Mail) => {
        sent.push(to);
        return { mailed: to };
      },
      ...more,
    });
    return { ...bench, send, sent };
  }

  it("B3 runs what is due, once each, and confirms it", async () => {
    const { nt, send, sent, store } = mailing();
    await send.enqueueMany(Array.from({ length: 300 }, (_, i) => mailTo(`n${i}`)));
    const worker = nt.worker({ concurrency: 32 });
    expect(await worker.drain()).toMatchObject({ done: 300, inFlight: 0 });
    expect(new Set(sent).size).toBe(300);
    expect(sent).toHaveLength(300);
    expect((await store.stats()).states).toMatchObject({ confirmed: 300, pending: 0 });
    expect(await send.enqueue(mailTo("n7"))).toMatchObject({ created: false, result: { mailed: "n7" } });
    expect(await worker.tick()).toBe(0);
  });

  it("a started worker hears of new work by itself, and stops when told", async () => {
    const { nt, send, sent } = mailing();
    const worker = nt.worker({ poll: "1h" });
    await worker.start();
    await send.enqueue(mailTo("ada"));
    await until(() => sent.length === 1);
    expect(await worker.stop()).toEqual({ stillRunning: 0 });
    expect(worker.status).toMatchObject({ state: "stopped", done: 1 });
    await expect(worker.start()).rejects.toThrow("was stopped");
  });

  it("finds what another process enqueued by looking now and then", async () => {
    const { nt, another, sent, send } = mailing();
    const worker = nt.worker({ poll: "20ms" });
    await worker.start();
    const elsewhere = another().action("mail", { key: ["to"], run: async (_: Mail) => 0 });
    await elsewhere.enqueue(mailTo("ada"));
    await until(() => sent.length === 1);
    expect(await send.status(mailTo("ada"))).toMatchObject({ status: "done" });
  });

  it("does not begin what is due later", async () => {
    const { nt, send, sent, clock } = mailing();
    await send.enqueue(mailTo("ada"), { delay: "10m" });
    const worker = nt.worker();
    expect(await worker.tick()).toBe(0);
    clock.advance(600_000);
    expect(await worker.tick()).toBe(1);
    expect(sent).toEqual(["ada"]);
  });

  it("expires: stale mail is not sent, it fails as expired; retry brings it back without the deadline", async () => {
    const { nt, send, sent, clock } = mailing();
    const { key } = await send.enqueue(mailTo("ada"), { expires: "1m" });
    clock.advance(60_001);
    const worker = nt.worker();
    await worker.tick();
    expect(worker.status).toMatchObject({ failed: 1, expired: 1, done: 0 });
    const outcome = await send.status(mailTo("ada"));
    expect(outcome).toMatchObject({ status: "failed", final: false });
    expect(outcome.status === "failed" && String(outcome.error)).toContain("expired");
    expect(sent).toEqual([]);
    await nt.retry({ key }, { by: "ana", reason: "still wanted" });
    await worker.tick();
    expect(sent).toEqual(["ada"]);
  });

  it("what surely was not sent is tried again after its backoff, with Retry-After as a floor, and counted", async () => {
    const { nt, clock, record } = open();
    let tries = 0;
    const send = nt.action("mail", {
      key: ["to"],
      retry: { attempts: 3, backoff: "10s", max: "1m" },
      run: async (_: Mail) => {
        tries += 1;
        if (tries === 1) throw notSent(new Error("429"), { retryAfter: "5m" });
        if (tries === 2) throw notSent(new Error("503"));
        return "ok";
      },
    });
    const { key } = await send.enqueue(mailTo("ada"));
    const worker = nt.worker();
    await worker.tick();
    const waiting = await record(key);
    expect(waiting).toMatchObject({ state: "pending", queued: true, tries: 1, attempt: 1 });
    expect(waiting.dueAt).toBeGreaterThanOrEqual(clock.instant().now + 290_000);
    expect(await worker.tick()).toBe(0);
    clock.advance(300_000);
    expect(await worker.tick()).toBe(1);
    clock.advance(60_000);
    expect(await worker.tick()).toBe(1);
    expect(await record(key)).toMatchObject({ state: "confirmed", attempt: 3 });
    expect(worker.status).toMatchObject({ retried: 2, done: 1 });
  });

  it("F45 a poison message is parked after its tries, and the queue moves on", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const send = nt.action("mail", {
      key: ["to"],
      retry: { attempts: 2, backoff: "1s" },
      run: async ({ to }: Mail) => {
        if (to === "poison") throw notSent(new Error("cannot be rendered"));
        sent.push(to);
      },
    });
    await send.enqueueMany(["poison", "a", "b"].map(mailTo));
    const worker = nt.worker({ concurrency: 1 });
    for (let i = 0; i < 5; i += 1) {
      await worker.drain();
      clock.advance(1_000);
    }
    expect(sent).toEqual(["a", "b"]);
    expect(await send.status(mailTo("poison"))).toMatchObject({ status: "failed", final: false });
    expect(worker.status).toMatchObject({ failed: 1, done: 2, retried: 1 });
  });

  it("F45 an input that no longer fits its schema is parked with the reason, and nothing runs", async () => {
    const { nt, another, store } = open();
    const old = another().action("mail", { key: ["to"], run: async (_: Mail) => 0 });
    await old.enqueue(mailTo("ada"));
    let runs = 0;
    const send = nt.action("mail", {
      input: z.object({ to: z.string(), subject: z.string() }),
      key: ["to"],
      run: async () => {
        runs += 1;
      },
    });
    await nt.worker().drain();
    expect(runs).toBe(0);
    const [parked] = (await store.list({ limit: 1 })).items;
    expect(parked?.record).toMatchObject({ state: "failed", final: false, error: { code: "INVALID_INPUT" } });
    expect(parked?.record.error?.message).toContain("does not fit its schema at: subject");
    expect(send.actionName).toBe("mail");
  });

  it("parses the input again, as given, by the schema of the worker", async () => {
    const { nt } = open();
    const got: unknown[] = [];
    const send = nt.action("mail", {
      input: z.object({ to: z.string().trim(), at: z.coerce.date() }),
      key: (i) => [i.to],
      run: async (i) => void got.push(i),
    });
    await send.enqueue({ to: " ada ", at: new Date(5) });
    await nt.worker().drain();
    expect(got).toEqual([{ to: "ada", at: new Date(5) }]);
  });

  it("refused for good: a dead letter at once", async () => {
    const { nt } = open();
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        throw rejected(new Error("no such mailbox"));
      },
    });
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker();
    const finished: unknown[] = [];
    worker.on((event) => finished.push(event));
    await worker.drain();
    expect(finished).toContainEqual(expect.objectContaining({ type: "finished", as: "failed", why: "refused" }));
    expect(await send.status(mailTo("ada"))).toMatchObject({ status: "failed", final: true });
  });

  it("F34 in doubt: held as unknown, never run again by itself", async () => {
    const { nt, clock } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        runs += 1;
        throw new Error("socket hang up");
      },
    });
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker();
    await worker.drain();
    clock.advance(3_600_000);
    await nt.sweep();
    await worker.drain();
    expect(runs).toBe(1);
    expect(worker.status).toMatchObject({ inDoubt: 1 });
    expect(await send.status(mailTo("ada"))).toMatchObject({ status: "unknown" });
  });

  it("a doubt that its policy may settle is settled by the worker", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      doubt: { resendWithin: "1h" },
      retry: { backoff: "1ms" },
      run: async (_: Mail) => {
        runs += 1;
        if (runs === 1) throw new Error("socket hang up");
        return "ok";
      },
    });
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker({ poll: "20ms" });
    await worker.start();
    await until(async () => (await send.status(mailTo("ada"))).status === "done");
    expect(runs).toBe(2);
  });

  it("F34 a worker that dies after the send mark leaves an unknown; before it, the next worker takes over", async () => {
    const { nt, store, clock, sent } = mailing();
    const prepared = nt.action("prepared", {
      key: ["to"],
      prepare: async (i: Mail) => i.to,
      run: async (_i, _c, d) => void sent.push(d),
    });
    await prepared.enqueue(mailTo("p"));
    const direct = nt.action("direct", { key: ["to"], run: async ({ to }: Mail) => void sent.push(to) });
    await direct.enqueue(mailTo("d"));
    // What a worker does right before it dies.
    const dead = { holder: "dead", limit: 10, leaseMs: 60_000 };
    await store.lease({ ...dead, to: "claimed", actions: ["prepared"] });
    await store.lease({ ...dead, to: "sent", actions: ["direct"] });
    clock.advance(60_001);
    await nt.sweep();
    await nt.worker().drain();
    expect(sent).toEqual(["p"]);
    expect(await direct.status(mailTo("d"))).toMatchObject({ status: "unknown" });
    expect(await prepared.status(mailTo("p"))).toMatchObject({ status: "done" });
  });

  it("F36 two workers share the work, each intent in one hand only", async () => {
    const bench = open();
    const { nt, send, sent } = mailing(bench);
    const other = bench.another();
    const { send: alsoSend, sent: alsoSent } = mailing({ ...bench, nt: other });
    expect(alsoSend.actionName).toBe(send.actionName);
    await send.enqueueMany(Array.from({ length: 400 }, (_, i) => mailTo(`n${i}`)));
    await Promise.all([nt.worker({ concurrency: 10 }).drain(), other.worker({ concurrency: 10 }).drain()]);
    expect(new Set([...sent, ...alsoSent]).size).toBe(400);
    expect(sent.length + alsoSent.length).toBe(400);
    expect(sent.length).toBeGreaterThan(0);
    expect(alsoSent.length).toBeGreaterThan(0);
  });

  it("stop waits for what runs and hands back what has not begun, uncounted", async () => {
    const { nt, store, record } = open();
    const { opened, open: release } = gate();
    let begun = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_: Mail) => {
        begun += 1;
        await opened;
      },
    });
    const keys = await Promise.all(["a", "b", "c"].map(async (to) => (await send.enqueue(mailTo(to))).key));
    const worker = nt.worker({ concurrency: 2 });
    await worker.start();
    await until(() => begun === 2);
    const stopping = worker.stop();
    expect(worker.status).toMatchObject({ state: "stopping", inFlight: 2 });
    release();
    expect(await stopping).toEqual({ stillRunning: 0 });
    expect((await store.stats()).states).toMatchObject({ confirmed: 2, pending: 1 });
    const records = await Promise.all(keys.map(record));
    expect(records.find(({ state }) => state === "pending")).toMatchObject({ attempt: 0, tries: 0 });
  });

  it("stop does not wait longer than it was told to", async () => {
    const { nt } = open();
    const { opened, open: release } = gate();
    let begun = false;
    const run = async (_: Mail) => {
      begun = true;
      await opened;
    };
    const send = nt.action("mail", { key: ["to"], run });
    await send.enqueue(mailTo("a"));
    const worker = nt.worker();
    await worker.start();
    // Leased and not begun, it would be handed back.
    await until(() => begun);
    expect(await worker.stop({ within: "10ms" })).toEqual({ stillRunning: 1 });
    release();
  });

  it("close stops its workers first", async () => {
    const { nt, send, sent } = mailing();
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker({ poll: "20ms" });
    await worker.start();
    await until(() => sent.length === 1);
    await nt.close();
    expect(worker.status).toMatchObject({ state: "stopped", inFlight: 0, done: 1 });
  });

  it("F15 F19 a heartbeat keeps a long run; one that lost its lease is told to stop, and nobody sends again", async () => {
    const { nt, clock, store } = open();
    const { opened, open: release } = gate();
    let begun = false;
    let aborted = false;
    const send = nt.action("mail", {
      key: ["to"],
      lease: "300ms",
      run: async (_: Mail, { signal }) => {
        begun = true;
        signal.addEventListener("abort", () => {
          aborted = true;
          release();
        });
        await opened;
        throw signal.reason;
      },
    });
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker();
    await worker.start();
    await until(() => begun);
    // The whole machine slept past the lease: the next heartbeat is refused.
    clock.advance(10_000);
    await until(() => aborted);
    await worker.stop();
    expect((await store.stats()).states).toMatchObject({ unknown: 1 });
  });

  it("runs only the actions it was given, and says which it does not know", async () => {
    const { nt, send, sent } = mailing();
    const other = nt.action("other", { key: ["to"], run: async (_: Mail) => 0 });
    await send.enqueue(mailTo("ada"));
    await other.enqueue(mailTo("ada"));
    await nt.worker({ actions: [other] }).drain();
    expect(sent).toEqual([]);
    expect(await other.status(mailTo("ada"))).toMatchObject({ status: "done" });
    await expect(nt.worker({ actions: ["nobody"] }).start()).rejects.toThrow(
      /no action "nobody".*It has: "mail", "other"/,
    );
  });
});

describe("worker, the store's troubles and options", () => {
  it("goes on when the store did not answer, and says so", async () => {
    let down = true;
    const flaky = (store: Store): Store =>
      new Proxy(store, {
        get(target, name) {
          const value = Reflect.get(target, name);
          if (name === "lease" && down) return () => Promise.reject(new Error("the store is down"));
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    const { nt } = openMemory({ wrap: flaky });
    const runs: string[] = [];
    const send = nt.action("mail", { key: ["to"], run: async ({ to }: Mail) => void runs.push(to) });
    await send.enqueue(mailTo("ada"));
    const worker = nt.worker({ poll: "10ms" });
    const errors: unknown[] = [];
    worker.on((event) => void (event.type === "error" && errors.push(event.error)));
    await worker.start();
    await until(() => errors.length > 0);
    down = false;
    await until(() => runs.length === 1);
    expect(String(errors[0])).toContain("the store is down");
  });

  it("says what is wrong with its options", () => {
    const { nt } = openMemory();
    expect(() => nt.worker({ concurency: 1 } as object)).toThrow('no option "concurency"');
    expect(() => nt.worker({ concurrency: 0 })).toThrow("from 1 to 10000");
    expect(() => nt.worker({ poll: "1ms" })).toThrow("at least 5ms");
    expect(() => nt.worker({ actions: [7 as unknown as string] })).toThrow("what nt.action() returned");
  });

  it("without any action there is nothing to run", async () => {
    const { nt } = openMemory();
    await expect(nt.worker().drain()).rejects.toThrow("no action to run");
  });
});
