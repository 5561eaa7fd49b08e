/** K10: intents with two keys, where they meet other features. */
import { type ActionOptions, email, type NevertwiceOptions, type nevertwice } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { aliasTarget } from "../core/key/formerly.ts";
import { PREVENTED_ACTION } from "../core/prevented.ts";
import type { Store } from "../core/store.ts";

interface Mail {
  readonly lead: string;
  readonly to: string;
}

const OLD = { key: ["to", "lead"] } as const;
const NEW = { key: { lead: true, to: email }, formerly: { key: ["to", "lead"] } } as const;
const ALONE = { key: { lead: true, to: email } } as const;
const plain: Mail = { lead: "l1", to: "ann@example.com" };

type Options = Partial<ActionOptions<Mail, string>>;

/** What is no alias and no note: the records of intents. */
async function intents(store: Store) {
  const { items } = await store.list({ limit: 100 });
  return items
    .map(({ record }) => record)
    .filter((one) => !one.action.startsWith("nevertwice.") && aliasTarget(one, store.now()) === null);
}

async function aliases(store: Store) {
  const { items } = await store.list({ limit: 100 });
  return items.map(({ record }) => record).filter((one) => aliasTarget(one, store.now()) !== null);
}

eachStore("K10: formerly beside other features", (open) => {
  function fleet(options: Omit<NevertwiceOptions, "store"> = {}) {
    const faults: Faults = {};
    const bench = open({ ...options, wrap: (store) => faulty(store, faults) });
    const sent: string[] = [];
    const define = (nt: ReturnType<typeof nevertwice>, given: Options, name = "send") =>
      nt.action<Mail, string>(name, {
        run: async (_, ctx) => {
          sent.push(ctx.key);
          return `m${sent.length}`;
        },
        ...given,
      });
    const process = (given: Options, name?: string) => define(bench.another(options), given, name);
    const down = (given: Options) => define(bench.nt, { ...given, whenStoreDown: "run" });
    return { ...bench, faults, sent, define, process, down };
  }

  it("an alias is no result: a process without formerly that mostly repeats gets the first one's", async () => {
    const { process, sent } = fleet();
    await process(NEW)(plain);
    const later = process(ALONE);
    await later({ ...plain, lead: "l0" });
    for (let i = 0; i < 30; i += 1) await later({ ...plain, lead: "l0" }, { scope: `s${i}` });
    for (let i = 0; i < 30; i += 1) await process(ALONE)({ ...plain, lead: "l0" }, { scope: `s${i}` });
    const repeating = process(ALONE);
    for (let i = 0; i < 30; i += 1) await repeating({ ...plain, lead: "l0" }, { scope: `s${i}` });
    const before = sent.length;
    expect(await repeating(plain)).toBe("m1");
    expect(sent).toHaveLength(before);
  });

  it("O15: run while the store was down: one effect in this process, under any spelling, and one record afterwards", async () => {
    const { down, faults, sent, nt, store, process } = fleet();
    const send = down(NEW);
    faults.down = true;
    expect(await send(plain)).toBe("m1");
    expect(await send.attempt(plain)).toMatchObject({ replayed: true, result: "m1" });
    expect(await send({ ...plain, to: "Ann@Example.com" })).toBe("m1");
    faults.down = false;
    await until(async () => (await intents(store)).some(({ state }) => state === "confirmed"), "the record");
    expect(await intents(store)).toMatchObject([{ state: "confirmed", history: [{ event: "ran-unguarded" }] }]);
    expect(await send(plain)).toBe("m1");
    expect(await process(OLD)(plain)).toBe("m1");
    expect(await process(ALONE)(plain)).toBe("m1");
    // The provider saw the key that old processes use.
    expect(sent).toEqual([await process(OLD).keyOf(plain)]);
    await nt.close();
  });

  it("O15: the store goes down between the look and the claim: not run again by the next call", async () => {
    const { down, faults, sent } = fleet();
    const send = down(NEW);
    await send({ ...plain, lead: "l0" });
    // The look and the aliases are written; the claim is not.
    faults.beforeWrite = (puts) => {
      if (puts.some(({ record }) => record.state === "sent" || record.state === "claimed")) {
        faults.down = true;
        throw new Error("connection to the store lost");
      }
    };
    expect(await send(plain)).toBe("m2");
    expect(await send(plain)).toBe("m2");
    expect(sent).toHaveLength(2);
  });

  it("O15: done under the former key by an old process, and run again while down: the duplicate is reported", async () => {
    const { down, faults, process, store, events, sent } = fleet();
    const send = down(NEW);
    await process(OLD)(plain);
    faults.down = true;
    await send(plain);
    faults.down = false;
    await until(() => kinds(events).includes("duplicate_detected"), "the duplicate");
    expect(sent).toHaveLength(2);
    expect(await intents(store)).toHaveLength(1);
    expect(await send(plain)).toBe("m1");
  });

  it("O15: an alias of a record that never ran: what was run while down is written there", async () => {
    const { down, faults, process, store, events, sent } = fleet();
    const fails = async () => Promise.reject(Object.assign(new Error("down"), { code: "ECONNREFUSED" }));
    await process({ ...NEW, run: fails, retry: { attempts: 1 } }).attempt(plain);
    const send = down(ALONE);
    faults.down = true;
    expect(await send(plain)).toBe("m1");
    faults.down = false;
    await until(async () => (await intents(store)).every(({ state }) => state === "confirmed"), "the record");
    expect(await process(OLD)(plain)).toBe("m1");
    expect(await send(plain)).toBe("m1");
    expect(kinds(events)).not.toContain("duplicate_detected");
    expect(sent).toHaveLength(1);
  });

  it("O15: an enqueue and a status by the former key after the outage tell the ledger first", async () => {
    const { down, faults, sent, nt } = fleet();
    const send = down(NEW);
    faults.down = true;
    const { key } = await send.attempt(plain);
    faults.down = false;
    expect(await nt.status({ key })).toMatchObject({ status: "done", result: "m1" });
    expect(await send.enqueue(plain)).toMatchObject({ created: false, state: "confirmed" });
    await nt.worker().drain();
    expect(sent).toHaveLength(1);
  });

  it("queued under the new key by somebody who knows no former key: a worker looks under the old one before it runs", async () => {
    const { process, another, define, sent, store } = fleet();
    await process(ALONE).enqueue(plain);
    await process(OLD)(plain);
    const nt = another();
    const now = define(nt, NEW);
    const drained = await nt.worker().drain();
    expect(drained).toMatchObject({ done: 1, failed: 0 });
    expect(sent).toHaveLength(1);
    expect(await intents(store)).toHaveLength(1);
    expect(await process(ALONE)(plain)).toBe("m1");
    expect(await now(plain)).toBe("m1");
  });

  it("queued under both keys: run once, also by two workers at once and under a former name", async () => {
    const { process, another, define, sent, store } = fleet();
    for (let round = 0; round < 10; round += 1) {
      const intent = { ...plain, lead: `q${round}` };
      await process(OLD, "send_v1").enqueue(intent, round % 2 === 0 ? {} : { orderKey: "a" });
      await process(ALONE).enqueue(intent, round % 2 === 0 ? {} : { orderKey: "a" });
    }
    const nts = [another(), another()];
    for (const nt of nts) define(nt, { ...ALONE, formerly: { name: "send_v1", key: ["to", "lead"] } });
    await Promise.all(nts.map((nt) => nt.worker().drain()));
    await nts[0]?.worker().drain();
    expect(sent).toHaveLength(10);
    const left = await intents(store);
    expect(left.filter(({ state }) => state === "confirmed")).toHaveLength(10);
    expect(left).toHaveLength(10);
  });

  it("queued under the new key while the old one is in doubt, or of another input: not run", async () => {
    const { process, another, define, sent, store } = fleet();
    await process({ ...OLD, run: async () => Promise.reject(new Error("no answer")) }).attempt(plain);
    await process(ALONE).enqueue(plain);
    await process({ key: ["lead"] }, "other")({ lead: "l2", to: "bob@example.com" });
    await process({ key: ["to", "lead"] }, "other").enqueue({ lead: "l2", to: "ann@example.com" });
    const nt = another();
    define(nt, NEW);
    define(nt, { key: ["to", "lead"], formerly: { key: ["lead"] } }, "other");
    await nt.worker().drain();
    expect(sent).toHaveLength(1);
    const left = await intents(store);
    expect(left.map(({ state }) => state).sort()).toEqual(["confirmed", "failed", "pending", "unknown"]);
    expect(left.find(({ state }) => state === "failed")?.error).toMatchObject({ code: "KEY_CONFLICT" });
  });

  it("an alias goes with its record: also where a worker, a person or nobody settled it", async () => {
    const { process, another, define, store, clock } = fleet();
    const nt = another();
    const now = define(nt, { ...NEW, keep: "1d" });
    const ends = async () => (await aliases(store)).map(({ expiresAt }) => expiresAt !== null);
    await now.enqueue(plain);
    await nt.worker().drain();
    const lost = { ...plain, lead: "l2" };
    await process({ ...NEW, keep: "1d", run: async () => Promise.reject(new Error("no answer")) }).attempt(lost);
    const { key } = await now.attempt(lost);
    await nt.resolve({ key }, { as: "done", result: "m", by: "kim", reason: "seen" });
    expect(await ends()).toEqual([false, false]);
    await nt.sweep();
    expect(await ends()).toEqual([true, true]);
    clock.advance(86_400_000 + 1_000);
    await nt.sweep();
    // What was prevented meanwhile is counted in a note of its own.
    const { items } = await store.list({ limit: 10 });
    expect(items.filter(({ record }) => record.action !== PREVENTED_ACTION)).toEqual([]);
  });

  it("an alias is kept while its record is: as long as it is in doubt, and longer where a repeat asks for that", async () => {
    const { process, another, define, store, clock } = fleet();
    await process({ ...NEW, keep: "1d", run: async () => Promise.reject(new Error("no answer")) }).attempt(plain);
    const nt = another();
    const now = define(nt, { ...NEW, keep: "1d" });
    clock.advance(40 * 86_400_000);
    await nt.sweep();
    expect(await aliases(store)).toHaveLength(1);
    const next = { ...plain, lead: "l2" };
    await now(next);
    await until(async () => (await aliases(store)).some(({ expiresAt }) => expiresAt !== null), "the end of the alias");
    await process({ ...NEW, keep: "1d" }).enqueue(next, { expires: "10d" });
    await nt.sweep();
    clock.advance(3 * 86_400_000);
    await nt.sweep();
    expect(await process({ ...ALONE, keep: "1d" }).attempt(next)).toMatchObject({ replayed: true });
  });

  it("an enqueue that finds an alias answers with the record, and leaves the alias as it is", async () => {
    const { process, store } = fleet();
    await process({ ...NEW, keep: "1d" })(plain);
    await until(async () => (await aliases(store)).some(({ expiresAt }) => expiresAt !== null), "the end of the alias");
    const [before] = await aliases(store);
    expect(await process({ ...ALONE, keep: "30d" }).enqueue(plain)).toMatchObject({ created: false, result: "m1" });
    expect((await aliases(store))[0]?.expiresAt).toBe(before?.expiresAt);
  });

  it("a provider's id leads to one intent, under the key of its record", async () => {
    const { process, another, define, store } = fleet();
    const nt = another();
    const now = define(nt, { ...NEW, run: async () => "msg_1", resultId: (id: string) => id });
    const { key } = await now.attempt(plain);
    await process(ALONE).attempt(plain);
    expect(await aliases(store)).toHaveLength(1);
    expect(await nt.find({ providerId: "msg_1" })).toMatchObject([
      { key, action: "send", outcome: { result: "msg_1" } },
    ]);
  });

  it("encrypt: records of an earlier key of the sealer are repeats under the new key of the intent", async () => {
    const [first, second] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    const { another, define, sent } = fleet();
    await define(another({ encrypt: first }), OLD)(plain);
    const rotated = define(another({ encrypt: [second, first] }), NEW);
    expect(await rotated(plain)).toBe("m1");
    expect(await rotated.attempt({ ...plain, lead: "l2" })).toMatchObject({ status: "done", replayed: false });
    expect(await define(another({ encrypt: [second, first] }), ALONE)(plain)).toBe("m1");
    const again = define(another({ encrypt: [first, second] }), OLD);
    expect(await again({ ...plain, lead: "l2" })).toBe("m2");
    expect(sent).toHaveLength(2);
  });

  it("runs and sequences have no former keys, and are as they were beside an action that has", async () => {
    const { nt, sent, define } = fleet();
    const now = define(nt, NEW);
    const run = () => nt.run("flow", "r1", async (flow) => flow.step("mail", () => now(plain)));
    expect(await run()).toBe("m1");
    expect(await run()).toBe("m1");
    expect(sent).toHaveLength(1);
  });
});
