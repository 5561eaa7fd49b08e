/** check: before the claim, only where the call would claim; what it throws leaves no record. */
import { type CheckContext, type Nevertwice, notSent, outcomeOf, refused } from "nevertwice";
import { queuedTool } from "nevertwice/agents";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";

interface Order {
  readonly id: string;
  readonly cents: number;
}

const bad: Order = { id: "A-1", cents: -5 };
const good: Order = { id: "A-1", cents: 500 };
const negative = new Error("the amount is negative");

function shop(nt: Nevertwice) {
  const paid: Order[] = [];
  const checked: Order[] = [];
  const seen: CheckContext[] = [];
  const rule = { isOpen: true };
  const pay = nt.action("pay", {
    key: ["id"],
    check: async (order: Order, ctx) => {
      checked.push(order);
      seen.push(ctx);
      if (!rule.isOpen) throw new Error("the shop is closed");
      if (order.cents < 0) throw negative;
    },
    run: async (order: Order) => {
      paid.push(order);
      return `paid ${order.cents}`;
    },
  });
  const records = async () => (await nt.store.list({ limit: 10 })).items.map(({ record }) => record.state);
  return { pay, paid, checked, seen, rule, records };
}

eachStore("O4: check", (open) => {
  it("what it throws reaches the caller as it was, leaves no record, and the corrected call runs", async () => {
    const { nt, events } = open();
    const { pay, paid, records, seen } = shop(nt);
    const error = await pay(bad).catch((thrown: unknown) => thrown);
    expect(error).toBe(negative);
    expect(outcomeOf(error)).toMatchObject({ status: "failed", final: false });
    expect(await records()).toEqual([]);
    expect(events).toEqual([]);
    expect(await pay.attempt(bad)).toEqual({
      status: "failed",
      key: await pay.keyOf(bad),
      error: negative,
      final: false,
    });
    expect(await pay.status(bad)).toMatchObject({ status: "absent" });
    expect(await pay(good)).toBe("paid 500");
    expect(paid).toEqual([good]);
    expect(seen[0]).toMatchObject({ key: await pay.keyOf(good), tenant: "", scope: null, tx: undefined });
    expect(seen[0]?.signal.aborted).toBe(false);
  });

  it("a repeat is answered from the ledger, whatever the check would say by now", async () => {
    const bench = open();
    const { pay, checked, rule } = shop(bench.nt);
    await pay(good);
    rule.isOpen = false;
    expect(await pay(good)).toBe("paid 500");
    expect(await pay.attempt({ ...good, cents: 600 })).toMatchObject({ status: "conflict" });
    expect(checked).toHaveLength(1);
    const elsewhere = shop(bench.another());
    elsewhere.rule.isOpen = false;
    expect(await elsewhere.pay(good)).toBe("paid 500");
    expect(await elsewhere.pay.enqueue(good)).toMatchObject({ state: "confirmed", result: "paid 500" });
    expect(elsewhere.checked).toEqual([]);
  });

  it("what is in flight or in doubt is reported without it", async () => {
    const bench = open();
    const hold = gate();
    const order = { id: "A-2", cents: 1 };
    const define = (nt: Nevertwice, checked: string[], run: () => Promise<string>) =>
      nt.action("pay", { key: ["id"], check: ({ id }: Order) => checked.push(id), run });
    const first: string[] = [];
    const second: string[] = [];
    const one = define(bench.nt, first, async () => {
      await hold.opened;
      throw new Error("no answer");
    });
    const other = define(bench.another(), second, async () => "paid");
    const going = one.attempt(order);
    await expect.poll(async () => (await other.status(order)).status).toBe("in_flight");
    expect(await other.attempt(order, { wait: 0 })).toMatchObject({ status: "in_flight" });
    hold.open();
    expect(await going).toMatchObject({ status: "unknown" });
    expect(await other.attempt(order)).toMatchObject({ status: "unknown" });
    expect([first, second]).toEqual([["A-2"], []]);
  });

  it("it runs once per call, before the first claim, and not before each try inside of it", async () => {
    const { nt } = open();
    let [checks, runs] = [0, 0];
    const send = nt.action("send", {
      key: ["id"],
      retry: { attempts: 3, backoff: "1ms" },
      check: () => {
        checks += 1;
      },
      run: async (_order: Order) => {
        runs += 1;
        if (runs < 3) throw notSent(new Error("busy"));
        return runs;
      },
    });
    expect(await send(good)).toBe(3);
    expect([checks, runs]).toEqual([1, 3]);
  });

  it("calls of one process at the same time share one check and one run, also where it stops them", async () => {
    const { nt } = open();
    const { pay, paid, checked } = shop(nt);
    const stopped = await Promise.all([pay.attempt(bad), pay.attempt(bad)]);
    expect(stopped.map((outcome) => outcome.status === "failed" && outcome.error)).toEqual([negative, negative]);
    expect(await Promise.all([pay(good), pay(good), pay(good)])).toEqual(["paid 500", "paid 500", "paid 500"]);
    expect([checked.length, paid.length]).toEqual([2, 1]);
  });

  it("close() inside of it does not wait for the call that it belongs to; the call goes on", async () => {
    const { nt } = open();
    const send = nt.action("send", { key: ["id"], check: () => nt.close(), run: async (_order: Order) => "sent" });
    expect(await send(good)).toBe("sent");
    await nt.close();
  });

  it("after the schema: it gets the parsed input, and what does not fit does not reach it", async () => {
    const { nt } = open();
    const got: unknown[] = [];
    const pay = nt.action("pay", {
      input: z.object({ id: z.string(), cents: z.coerce.number() }),
      key: ["id"],
      check: (order) => got.push(order),
      run: async () => 1,
    });
    await expect(pay({ id: 7 } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await pay({ id: "A-1", cents: "5" } as never);
    expect(got).toEqual([{ id: "A-1", cents: 5 }]);
  });

  it("enqueue asks before anything is recorded; a worker does not ask again", async () => {
    const { nt } = open();
    const { pay, paid, records, checked, rule } = shop(nt);
    await expect(pay.enqueue(bad)).rejects.toBe(negative);
    await expect(queuedTool(pay, { scope: null })(bad, undefined)).rejects.toBe(negative);
    expect(await records()).toEqual([]);
    expect(await pay.enqueue(good)).toMatchObject({ created: true });
    expect(checked).toHaveLength(3);
    // Queued already: only its state is reported.
    expect(await pay.enqueue(good)).toMatchObject({ created: false, state: "pending" });
    expect(checked).toHaveLength(3);
    rule.isOpen = false;
    await nt.worker().drain();
    expect(paid).toEqual([good]);
    expect(checked).toHaveLength(3);
  });

  it("enqueueMany: one that it stops records none of its chunk; with an order too", async () => {
    const { nt } = open();
    const { pay, records } = shop(nt);
    await expect(pay.enqueueMany([{ id: "A-2", cents: 1 }, bad])).rejects.toBe(negative);
    await expect(pay.enqueueMany([{ id: "A-2", cents: 1 }, bad], { orderKey: "ada" })).rejects.toBe(negative);
    expect(await records()).toEqual([]);
    const made = await pay.enqueueMany([{ id: "A-2", cents: 1 }, good], { orderKey: "ada" });
    expect(made.map(({ created }) => created)).toEqual([true, true]);
  });

  it("each: what it stops is counted as failed, with its error, and the others are sent", async () => {
    const { nt } = open();
    const { pay, paid } = shop(nt);
    const report = await pay.each([bad, { id: "A-2", cents: 2 }]);
    expect(report).toMatchObject({ done: 2, sent: 1, failed: 1, failedInputs: [{ index: 0, why: negative }] });
    expect(paid).toEqual([{ id: "A-2", cents: 2 }]);
  });

  it("a dead letter of an order that it stops is not queued again", async () => {
    const { nt, record } = open();
    let isDown = true;
    let isOpen = true;
    const pay = nt.action("pay", {
      key: ["id"],
      check: () => {
        if (!isOpen) throw new Error("the shop is closed");
      },
      run: async ({ id }: Order) => {
        if (isDown) throw refused("down");
        return id;
      },
    });
    const { key } = await pay.enqueue(good, { orderKey: "ada" });
    await nt.worker().drain();
    isOpen = false;
    await expect(pay(good)).rejects.toThrow("the shop is closed");
    expect(await record(key)).toMatchObject({ state: "failed" });
    isOpen = true;
    isDown = false;
    expect(await pay(good)).toBe("A-1");
  });

  it("once, steps of a run, resend and queues have it too", async () => {
    const { nt } = open();
    const no = () => {
      throw negative;
    };
    let runs = 0;
    const run = async () => ++runs;
    await expect(nt.once("welcome", ["u1"], run, { check: no })).rejects.toBe(negative);
    await expect(nt.once("welcome", ["u1"], run, { check: 5 as never })).rejects.toThrow(/check must be a function/);
    expect(await nt.once("welcome", ["u1"], run, { check: ({ key }) => key })).toBe(1);
    const order = (check: () => unknown) => nt.run("order", "A-1", (steps) => steps.step("pay", run, { check }));
    await expect(order(no)).rejects.toBe(negative);
    expect(await order(() => {})).toBe(2);
    // The run is done, and its step with it: nothing is asked.
    expect(await order(no)).toBe(2);
    const { pay, rule } = shop(nt);
    await pay(good);
    rule.isOpen = false;
    await expect(pay.resend(good, { by: "ada", reason: "lost" })).rejects.toThrow("the shop is closed");
    expect(await pay.status(good, { version: 2 })).toMatchObject({ status: "absent" });
    const queue = nt.queue<{ id: string }>("tasks", { key: ["id"], check: no });
    await expect(queue.add({ id: "1" })).rejects.toBe(negative);
    expect(await queue.take()).toBeNull();
  });

  it("one that hangs is ended by the timeout: not done, its signal aborted, no record", async () => {
    const { nt } = open();
    let signal: AbortSignal | undefined;
    const send = nt.action("send", {
      timeout: "20ms",
      check: (_order: Order, ctx) => {
        signal = ctx.signal;
        return new Promise(() => {});
      },
      run: async (_order: Order) => "sent",
    });
    await expect(send(good)).rejects.toThrow("check took longer than 20ms");
    expect(signal?.aborted).toBe(true);
    expect(await send.status(good)).toMatchObject({ status: "absent" });
  });

  it("the words that run may throw work here: the caller gets the cause, and the time to come back", async () => {
    const { nt } = open();
    const errors = [refused(negative), notSent(negative, { retryAfter: "1h" })];
    const send = nt.action("send", {
      check: () => {
        throw errors.shift();
      },
      run: async (_order: Order) => "sent",
    });
    expect(await send.attempt(good)).toMatchObject({ status: "failed", error: negative });
    const early = await send.attempt(good);
    expect(early).toMatchObject({ status: "failed", error: negative, final: false });
    expect(early.status === "failed" && (early.retryAt ?? 0) > Date.now() + 3_000_000).toBe(true);
  });

  it("under a changed key: what was done under the old one needs no check, and what it stops leaves no alias", async () => {
    const bench = open();
    const run = async ({ cents }: Order) => `paid ${cents}`;
    await bench.nt.action("pay", { key: ["id"], run })(good);
    const nt = bench.another();
    let checks = 0;
    const pay = nt.action("pay", {
      key: (order: Order) => [order.id, "eur"],
      formerly: { key: ["id"] },
      check: () => {
        checks += 1;
        throw negative;
      },
      run,
    });
    expect(await pay(good)).toBe("paid 500");
    expect(checks).toBe(0);
    await expect(pay({ id: "A-9", cents: 1 })).rejects.toBe(negative);
    expect(checks).toBe(1);
    const { items } = await bench.store.list({ limit: 10 });
    expect(items.filter(({ record }) => record.state === "confirmed" && record.agent === null)).toHaveLength(1);
    expect(await pay.status({ id: "A-9", cents: 1 })).toMatchObject({ status: "absent" });
  });

  it("another tenant's intent is another one, and the check learns whose it is", async () => {
    const { nt } = open();
    const tenants: string[] = [];
    const send = nt.action("send", {
      key: ["id"],
      check: (_order: Order, { tenant }) => tenants.push(tenant),
      run: async (_order: Order) => "sent",
    });
    await send(good, { tenant: "acme" });
    await send(good, { tenant: "globex" });
    await send(good, { tenant: "acme" });
    expect(tenants).toEqual(["acme", "globex"]);
  });
});

describe("check and a store that is down", () => {
  it("an action that then runs unguarded asks first, once", async () => {
    const faults: Faults = {};
    const { nt } = openMemory({ wrap: (store) => faulty(store, faults) });
    let checks = 0;
    const send = nt.action("send", {
      key: ["id"],
      whenStoreDown: "run",
      check: ({ cents }: Order) => {
        checks += 1;
        if (cents < 0) throw negative;
      },
      run: async ({ cents }: Order) => cents,
    });
    faults.down = true;
    await expect(send(bad)).rejects.toBe(negative);
    expect(checks).toBe(1);
    expect(await send({ id: "A-2", cents: 2 })).toBe(2);
    expect(await send({ id: "A-2", cents: 2 })).toBe(2);
    expect(checks).toBe(2);
  });
});

it("what is no function is refused when the action is defined", () => {
  const { nt } = openMemory();
  expect(() => nt.action("send", { check: true as never, run: async () => 1 })).toThrow(/check must be a function/);
});
