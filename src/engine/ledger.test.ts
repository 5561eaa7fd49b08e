import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../test/support/each-store.ts";
import { type Faults, faulty, firstInto } from "../../test/support/store-faults.ts";
import { configError, NevertwiceError } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import type { LedgerEvent } from "../core/transition.ts";
import { memoryStore } from "../stores/memory.ts";
import { sqliteStore } from "../stores/sqlite/index.ts";
import { systemClock } from "./clock.ts";
import { type EngineEvent, Events } from "./events.ts";
import { Ledger } from "./ledger.ts";

const intent = (key: string) => ({
  key,
  tenant: "",
  action: "send",
  version: 1,
  scope: null,
  fingerprint: { guarded: "g", free: null, fields: {} },
  input: null,
  keepMs: null,
});
const claim = (key: string, holder: string): LedgerEvent => ({
  type: "claim",
  intent: intent(key),
  to: "sent",
  holder,
  leaseMs: 60_000,
  newRound: true,
});
const confirm = (holder: string): LedgerEvent => ({ type: "confirm", hold: { fence: 1, holder }, result: null });
const beat = (holder: string): LedgerEvent => ({ type: "heartbeat", hold: { fence: 1, holder }, leaseMs: 90_000 });

function open(faults: Faults = {}) {
  const data = memoryStore();
  const writes: number[] = [];
  const counted = {
    ...faults,
    beforeWrite: async (puts: Parameters<NonNullable<Faults["beforeWrite"]>>[0]) => {
      writes.push(puts.length);
      await faults.beforeWrite?.(puts);
    },
  };
  const heard: EngineEvent[] = [];
  const events = new Events();
  events.on((event) => heard.push(event));
  const clock = { ...systemClock, after: (_ms: number, run: () => void) => systemClock.after(0, run) };
  const ledger = new Ledger({ store: faulty(data, counted), clock, events, random: () => 0 });
  return { ledger, data, faults: counted, heard, writes };
}

describe("F20: the write was committed and its reply lost", () => {
  it("a claim is recognised as ours by the holder id", async () => {
    const { ledger, data } = open({ loseReply: firstInto("sent") });
    expect(await ledger.apply(null, claim("k", "me"))).toMatchObject({ ok: true, stored: { record: { fence: 1 } } });
    expect((await data.read(["k"]))[0]?.record).toMatchObject({ holder: "me", fence: 1, attempt: 1 });
  });

  it("a confirm is recognised, and so is a heartbeat", async () => {
    const { ledger, data, faults } = open();
    const claimed = await ledger.apply(null, claim("k", "me"));
    faults.loseReply = firstInto("sent");
    const beaten = await ledger.apply(claimed.stored, beat("me"));
    expect(beaten.ok).toBe(true);
    faults.loseReply = firstInto("confirmed");
    expect(await ledger.apply(beaten.stored, confirm("me"))).toMatchObject({ ok: true });
    expect((await data.read(["k"]))[0]?.record).toMatchObject({ state: "confirmed", fence: 1 });
  });

  it.each([
    ["replaced", (store: Store, write: Store["write"]) => Object.assign(store, { write })],
    [
      "wrapped",
      (store: Store, write: Store["write"]) =>
        new Proxy(store, {
          get: (target, name) => {
            const member = name === "write" ? write : Reflect.get(target, name, target);
            return typeof member === "function" ? member.bind(target) : member;
          },
        }),
    ],
  ])("a write that was %s sees everything, also from a store that answers at once", async (_, over) => {
    const own = sqliteStore({ path: join(temporaryFolder(), "ledger.db") });
    onTestFinished(() => own.close());
    const write = own.write.bind(own);
    let lost = 0;
    const store = over(own, async (puts) => {
      const results = await write(puts);
      lost += 1;
      if (lost % 2 === 1) throw new NevertwiceError("STORE_UNAVAILABLE", "the reply was lost");
      return results;
    });
    const ledger = new Ledger({ store, clock: systemClock, events: new Events(), random: () => 0 });
    const claimed = await ledger.apply(null, claim("k", "me"), true);
    expect(await ledger.apply(claimed.stored, confirm("me"), true)).toMatchObject({ ok: true });
    expect(lost).toBe(4);
    expect(await own.read(["k"])).toMatchObject([{ record: { state: "confirmed", fence: 1 } }]);
  });

  it("another holder's claim in the same place is not taken for ours", async () => {
    const { ledger, data } = open();
    const [theirs] = [await ledger.apply(null, claim("k", "them"))];
    expect(theirs.ok).toBe(true);
    expect(await ledger.apply(null, claim("k", "me"))).toMatchObject({
      ok: false,
      refusal: "leased",
      stored: { record: { holder: "them" } },
    });
    expect((await data.read(["k"]))[0]?.record).toMatchObject({ holder: "them", fence: 1 });
  });

  it("a batch whose reply was lost is recognised row by row", async () => {
    let lost = 0;
    const { ledger } = open({ loseReply: () => ++lost === 1 });
    const applied = await Promise.all(["a", "b", "c"].map((key) => ledger.apply(null, claim(key, `h-${key}`))));
    expect(applied.map((one) => one.ok && one.stored.record.fence)).toEqual([1, 1, 1]);
  });
});

describe("Ledger", () => {
  it("an event is carried out on the record as it stands, however often others got in between", async () => {
    const { ledger } = open();
    const first = await ledger.apply(null, claim("k", "me"));
    let stale = first.stored;
    for (let i = 0; i < 5; i += 1) await ledger.apply(first.stored, beat("me"));
    stale = first.stored;
    expect(await ledger.apply(stale, confirm("me"))).toMatchObject({ ok: true });
  });

  it("an event source may step back from a record that is not its own", async () => {
    const { ledger } = open();
    await ledger.apply(null, claim("k", "them"));
    const applied = await ledger.apply(null, (current) => (current === null ? claim("k", "me") : null));
    expect(applied).toMatchObject({ ok: false, stored: { record: { holder: "them" } } });
  });

  it("a batch that fails for one row is split; its neighbours are written", async () => {
    const { ledger, data } = open({
      beforeWrite: (puts) => {
        if (puts.some((put) => put.record.key === "bad")) throw new Error("this row cannot be written");
      },
    });
    const ends = await Promise.allSettled(["a", "bad", "c"].map((key) => ledger.apply(null, claim(key, "me"))));
    expect(ends.map((end) => end.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(ends[1]).toMatchObject({ reason: { code: "STORE_UNAVAILABLE" } });
    expect((await data.read(["a", "bad", "c"])).map((row) => row !== null)).toEqual([true, false, true]);
  });

  it("O10: a failure of the whole store is not split, and repeated ones open the breaker", async () => {
    const { ledger, heard, writes } = open({
      beforeWrite: () => {
        throw new NevertwiceError("STORE_UNAVAILABLE", "the disk is gone.");
      },
    });
    const all = () => Promise.allSettled(["a", "b", "c"].map((key) => ledger.apply(null, claim(key, "me"))));
    await all();
    // The batch once, and then no more than it takes to open the breaker: halves would have been written at once.
    expect(writes[0]).toBe(3);
    expect(writes.length).toBeLessThanOrEqual(5);
    await all();
    const tries = writes.length;
    expect(heard.map((event) => event.type)).toEqual(["store_down"]);
    await all();
    expect(writes).toHaveLength(tries);
    await expect(ledger.read("a")).rejects.toThrow(/given a pause/);
  });

  it("an error about settings is passed on as it is and opens nothing", async () => {
    const { ledger, heard } = open({
      beforeWrite: () => {
        throw configError("no write access");
      },
    });
    for (let i = 0; i < 10; i += 1)
      await expect(ledger.apply(null, claim("k", "me"))).rejects.toMatchObject({ code: "CONFIG" });
    expect(heard).toEqual([]);
  });

  it("the ledger's clock is the store's", () => {
    const { ledger, data } = open();
    expect(ledger.instant().epoch).toBe(data.instant?.().epoch);
  });
});

it("what the store admitted is asked about again after a minute: its server's settings may have changed", async () => {
  let refusal: string | null = null;
  let asked = 0;
  let now = 0;
  const store: Store = Object.assign(memoryStore(), {
    refuses: async () => {
      asked += 1;
      return refusal;
    },
  });
  const ledger = new Ledger({
    store,
    clock: { ...systemClock, monotonic: () => now },
    events: new Events(),
    random: () => 0,
  });
  await ledger.admits("hold");
  refusal = "it evicts";
  expect(ledger.admits("hold")).toBeNull();
  now += 60_000;
  await expect(ledger.admits("hold")).rejects.toThrow(/does not take this action: it evicts/);
  refusal = null;
  await ledger.admits("hold");
  expect(ledger.admits("hold")).toBeNull();
  expect(asked).toBe(3);
});
