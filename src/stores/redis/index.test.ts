/** The conformance suite, waking and handing out on real servers, through each of the four clients. */
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { until } from "../../../test/support/gate.ts";
import { type ConnectClient, type OpenedClient, REDIS_CLIENTS } from "../../../test/support/redis-clients.ts";
import type { LedgerRecord } from "../../core/record.ts";
import type { Store } from "../../core/store.ts";
import { transition } from "../../core/transition.ts";
import { type ConformanceLedger, sampleRecord, storeConformance } from "../../testing/index.ts";
import { Names } from "./buckets.ts";
import { redisStore } from "./index.ts";

const url = await flushableRedisDb();

for (const [name, connect] of Object.entries(REDIS_CLIENTS)) {
  storeConformance({
    name: `redis (${name})`,
    runner: { describe, it },
    offers: ["reopen", "corrupt"],
    open: () => open(connect),
  });
  describe(`redis (${name})`, () => moreOn(connect));
}

async function open(connect: ConnectClient): Promise<ConformanceLedger & { reopen(): Promise<Store> }> {
  const prefix = freshPrefix().replace(/:$/, "");
  const names = new Names(prefix);
  const opened: OpenedClient[] = [];
  const connection = async () => {
    const one = await connect(url);
    opened.push(one);
    return one;
  };
  const first = await connection();
  const store: Store = redisStore({ client: first.client, prefix });
  return {
    store,
    reopen: async () => redisStore({ client: (await connection()).client, prefix }),
    corrupt: async (key) => {
      const row = (await first.get(names.record(key))) ?? "";
      await first.set(names.record(key), row.replace("acme", "acne"));
    },
    dispose: async () => {
      await store.close();
      for (const one of opened) await one.end();
    },
  };
}

async function opened(connect: ConnectClient) {
  const ledger = await open(connect);
  onTestFinished(() => ledger.dispose());
  const other = await ledger.reopen();
  onTestFinished(() => other.close());
  return { store: ledger.store, other };
}

function moreOn(connect: ConnectClient): void {
  it("wakes who waits for a record when another process settles it, and nobody else", async () => {
    const { store, other } = await opened(connect);
    const sent = sampleRecord({ key: "nt1_waited", state: "sent", fence: 1, holder: "h" });
    const [put] = await store.write([{ record: sent, expected: null }]);
    let woken = 0;
    let disturbed = 0;
    onTestFinished(other.watch?.("nt1_waited", () => (woken += 1)) ?? (() => {}));
    onTestFinished(other.watch?.("nt1_other", () => (disturbed += 1)) ?? (() => {}));
    let version = put?.ok ? put.version : 0;
    // Subscribing takes a moment, and a hint that comes before it is lost: settle until one arrives.
    await until(async () => {
      for (const state of ["confirmed", "sent"] as const) {
        const [next] = await store.write([{ record: { ...sent, state }, expected: version }]);
        if (next?.ok) version = next.version;
      }
      await new Promise((done) => setTimeout(done, 20));
      return woken > 0;
    }, "the hint");
    expect(disturbed).toBe(0);
  });

  it("stops waking", async () => {
    const { store } = await opened(connect);
    const stop = store.watch?.("nt1_x", () => expect.unreachable());
    stop?.();
    stop?.();
    await store.write([{ record: sampleRecord({ key: "nt1_x", state: "sent" }), expected: null }]);
  });

  it("hands out exactly what core's claim makes of a record, field by field", async () => {
    const { store } = await opened(connect);
    await store.read(["nt1_none"]);
    const { now, epoch } = store.instant?.() ?? { now: 0, epoch: "" };
    for (const to of ["claimed", "sent"] as const) {
      const befores = leasables(now, epoch).map((record) => ({ ...record, key: `${record.key}_${to}` }));
      await store.write(befores.map((record) => ({ record, expected: null })));
      const query = { holder: `worker-${to}`, limit: 10, leaseMs: 30_000, to };
      const leased = await store.lease(query);
      expect(leased).toHaveLength(befores.length);
      for (const { record } of leased) {
        const before = befores.find(({ key }) => key === record.key) as LedgerRecord;
        const at = { now: record.updatedAt, steady: record.updatedAt, epoch };
        const claim = { type: "claim", to, holder: query.holder, leaseMs: query.leaseMs, newRound: false } as const;
        expect(transition(before, claim, at)).toEqual({ ok: true, record });
      }
      expect(await store.lease(query)).toEqual([]);
    }
  });

  it("hands out a record again whose worker's short lease ran out", async () => {
    const { store, other } = await opened(connect);
    const record = sampleRecord({ key: "nt1_short", queued: true, dueAt: 1 });
    await store.write([{ record, expected: null }]);
    const query = { holder: "one", limit: 1, leaseMs: 300, to: "claimed" } as const;
    expect(await store.lease(query)).toHaveLength(1);
    expect(await other.lease({ ...query, holder: "two" })).toEqual([]);
    await until(async () => (await other.lease({ ...query, holder: "two" })).length === 1, "the lease's end");
    expect((await store.read(["nt1_short"]))[0]?.record).toMatchObject({ fence: 2, attempt: 2, holder: "two" });
  });

  it("lets a settled record go by its TTL, and a doubt never; a sweep takes the traces", async () => {
    const { store } = await opened(connect);
    const expiresAt = store.now() + 400;
    const of = (key: string, state: LedgerRecord["state"]) => sampleRecord({ key, state, expiresAt });
    const kept = (["pending", "claimed", "sent", "unknown"] as const).map((state) => of(`nt1_${state}`, state));
    const going = [of("nt1_confirmed", "confirmed"), of("nt1_failed", "failed")];
    await store.write([...kept, ...going].map((record) => ({ record, expected: null })));
    expect((await store.read(going.map(({ key }) => key))).every((row) => row !== null)).toBe(true);
    await until(async () => (await store.read(["nt1_confirmed"]))[0] === null, "the TTL");
    expect(await store.read(going.map(({ key }) => key))).toEqual([null, null]);
    expect((await store.list({ limit: 10 })).items).toHaveLength(kept.length);
    expect(await store.stats()).toMatchObject({ total: kept.length, states: { confirmed: 0, failed: 0 } });
    expect(await store.sweep({ limit: 10 })).toBe(going.length);
    expect(await store.sweep({ limit: 10, thorough: true })).toBe(0);
  });
}

/** Everything a worker may be handed, with fields set that a claim has to clear or keep. */
function leasables(now: number, epoch: string): LedgerRecord[] {
  const common = { queued: true, attempt: 3, fence: 4, tries: 2, holder: "earlier", tenant: "acme", scope: "run-1" };
  const error = { name: "Error", message: "before" };
  const history = [{ at: 1, event: "not-sent", from: "sent", to: "pending", attempt: 3 }] as const;
  return [
    sampleRecord({ key: "nt1_due", ...common, dueAt: now - 1_000, error, history, input: { json: "[1]" }, why: "why" }),
    sampleRecord({ key: "nt1_undated", ...common, dueAt: null }),
    sampleRecord({
      key: "nt1_resent",
      ...common,
      dueAt: now - 1_000,
      firstSentAt: 5,
      lastSentAt: 6,
      firstSentMark: { at: 7.5, epoch: "other" },
      doubted: true,
    }),
    sampleRecord({ key: "nt1_lapsed", ...common, state: "claimed", lease: { until: now - 1, epoch } }),
    sampleRecord({ key: "nt1_moved", ...common, state: "claimed", lease: { until: now + 60_000, epoch: "other" } }),
  ];
}
