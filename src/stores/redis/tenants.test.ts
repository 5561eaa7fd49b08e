/** Tenants on one ledger: whatever one presents, another's records are not there for it. */
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { REDIS_CLIENTS } from "../../../test/support/redis-clients.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { bucketOf, Names } from "./buckets.ts";
import { redisStore } from "./index.ts";
import { aboutOf, scoreOf } from "./members.ts";

const url = await flushableRedisDb();

describe.each(Object.entries(REDIS_CLIENTS))("tenants (%s)", (_, connect) => {
  async function tenants() {
    const { client, end } = await connect(url);
    onTestFinished(() => void end());
    const store = redisStore({ client, prefix: freshPrefix().slice(0, -1), allowUnsafe: true });
    onTestFinished(() => store.close());
    const effects: string[] = [];
    const as = (tenant: string) => {
      const nt = nevertwice({ store, tenant, sweep: false });
      const charge = nt.action("charge", {
        key: ["order"],
        run: async ({ order, amount }: { order: string; amount: number }) => {
          effects.push(`${tenant} ${order}`);
          return `${tenant} paid ${amount}`;
        },
      });
      return { nt, charge };
    };
    return { acme: as("acme"), beta: as("beta"), effects, store };
  }

  it("the exact input and key parts of another tenant are a miss", async () => {
    const { acme, beta, effects } = await tenants();
    const input = { order: "o-1", amount: 5 };
    const theirs = await beta.charge.attempt(input);
    expect(theirs).toMatchObject({ status: "done", result: "beta paid 5" });

    expect(await acme.charge.status(input)).toMatchObject({ status: "absent" });
    expect(await acme.charge(input), "runs on its own").toBe("acme paid 5");
    expect(effects).toEqual(["beta o-1", "acme o-1"]);
    const mine = await acme.charge.attempt(input);
    expect(mine).toMatchObject({ status: "done", replayed: true, result: "acme paid 5" });
    expect(mine.key).not.toBe(theirs.key);
  });

  it("lists and work in a queue are a tenant's own", async () => {
    const { acme, beta, store } = await tenants();
    await beta.charge({ order: "o-3", amount: 5 });
    await acme.charge({ order: "o-4", amount: 5 });
    const { items } = await store.list({ limit: 10, tenant: "acme" });
    expect(items.map(({ record }) => record.tenant)).toEqual(["acme"]);
    const query = { holder: "w", limit: 10, leaseMs: 1_000, to: "claimed" } as const;
    const queued = { ...items[0]?.record, key: "nt1_queued", tenant: "beta", state: "pending", queued: true, dueAt: 1 };
    await store.write([{ record: queued as (typeof items)[number]["record"], expected: null }]);
    expect(await store.lease({ ...query, tenant: "acme" })).toEqual([]);
    expect(await store.lease({ ...query, tenant: "beta" })).toHaveLength(1);
  });
});

it("a tenant's due work is found behind more due work of another than one script looks at, and so is an action's", async () => {
  const redis = new Redis(url);
  onTestFinished(() => void redis.disconnect());
  const prefix = freshPrefix().slice(0, -1);
  const store = redisStore({ url, prefix, allowUnsafe: true });
  onTestFinished(() => store.close());
  const names = new Names(prefix);
  const own = sampleRecord({ key: "nt1_own", tenant: "acme", action: "mail", queued: true, dueAt: 5_000 });
  await store.write([{ record: own, expected: null }]);
  // Entries of the index alone: what is handed out is read, what is passed over is not.
  const others = Array.from({ length: 25_000 }, (_, index) => {
    const record = { ...own, key: `nt1_${index}`, tenant: "busy", action: index % 2 ? "sms" : "call" };
    return [String(scoreOf("q", 1_000 + (index % 7))), `q${record.key}${aboutOf(record)}`];
  });
  const index = names.index(bucketOf(own.key));
  for (let from = 0; from < others.length; from += 1_000)
    await redis.zadd(index, ...others.slice(from, from + 1_000).flat());
  const query = { holder: "w", limit: 5, leaseMs: 60_000, to: "claimed" } as const;
  expect(await store.lease({ ...query, tenant: "nobody" })).toEqual([]);
  expect(await store.lease({ ...query, tenant: "acme", actions: ["sms"] })).toEqual([]);
  const leased = await store.lease({ ...query, tenant: "acme", actions: ["mail"] });
  expect(leased.map(({ record }) => record.key)).toEqual(["nt1_own"]);
  expect(await store.lease({ ...query, tenant: "acme" }), "it is leased now").toEqual([]);
});
