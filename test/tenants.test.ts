/** Tenants that share a ledger: A presents B's exact input and B's key, and gets a miss. On every store. */
import { join } from "node:path";
import { nevertwice, type Store } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";

const LEDGERS: Readonly<Record<string, () => Promise<() => Store>>> = {
  memory: async () => {
    const store = memoryStore();
    return () => store;
  },
  sqlite: async () => {
    const path = join(temporaryFolder(), "ledger.db");
    return () => sqliteStore({ path });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    return () => postgresStore({ url, listen: false });
  },
  redis: async () => {
    const url = await flushableRedisDb();
    return () => redisStore({ url });
  },
};

describe.each(Object.entries(LEDGERS))("%s", (_, ledger) => {
  it("another tenant's input and key are a miss, and stay as they are", async () => {
    const open = await ledger();
    const of = (tenant: string) => {
      const nt = nevertwice({ store: open(), tenant, sweep: false });
      onTestFinished(() => nt.close());
      const runs: string[] = [];
      const send = nt.action("send", {
        key: ["id"],
        run: async ({ id }: { id: number }) => {
          runs.push(`${tenant} ${id}`);
          return `${tenant}'s secret`;
        },
      });
      return { nt, send, runs };
    };
    const [a, b] = [of("a"), of("b")];
    const theirs = await b.send.attempt({ id: 1 });
    expect(await a.send.status({ id: 1 })).toMatchObject({ status: "absent" });
    expect(await a.send.status({ key: theirs.key })).toEqual({ status: "absent", key: theirs.key });
    expect(await a.nt.status({ key: theirs.key })).toEqual({ status: "absent", key: theirs.key });
    const settle = a.nt.resolve({ key: theirs.key }, { as: "not-done", by: "a", reason: "mine now" });
    await expect(settle).rejects.toThrow();
    // It runs A's own, under a key of its own, and B's stands as it was.
    const own = await a.send.attempt({ id: 1 });
    expect(own).toMatchObject({ status: "done", replayed: false, result: "a's secret" });
    expect(own.key).not.toBe(theirs.key);
    expect(await b.send.attempt({ id: 1 })).toMatchObject({ status: "done", replayed: true, result: "b's secret" });
    expect([a.runs, b.runs]).toEqual([["a 1"], ["b 1"]]);
  });
});
