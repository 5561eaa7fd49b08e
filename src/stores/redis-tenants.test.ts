/** Tenants on one ledger: whatever one presents, another's records are not there for it. */
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../test/services/addresses.ts";
import { REDIS_CLIENTS } from "../../test/support/redis-clients.ts";
import { nevertwice } from "../nevertwice.ts";
import { redisStore } from "./redis.ts";

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
