/** `nt.forget` on every store: what is left in the store itself, and that the key is free. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { DatabaseSync } from "./support/database-sync.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

interface Opened {
  readonly store: () => Store;
  /** What a person with the store's own tools reads of all rows, in all its columns. */
  readonly raw?: () => Promise<string>;
}

const STORES: Readonly<Record<string, () => Promise<Opened>>> = {
  memory: async () => {
    const store = memoryStore();
    return { store: () => store };
  },
  sqlite: async () => {
    const path = join(temporaryFolder(), "ledger.db");
    const raw = async () => {
      const db = new DatabaseSync(path);
      try {
        return JSON.stringify(db.prepare("SELECT * FROM nevertwice_records").all(), (_, value) =>
          value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : value,
        );
      } finally {
        db.close();
      }
    };
    return { store: () => sqliteStore({ path }), raw };
  },
  file: async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return { store: () => fileStore({ path }) };
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    const raw = async () => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const { rows } = await client.query("SELECT r::text AS row FROM nevertwice.records r");
      await client.end();
      return JSON.stringify(rows);
    };
    return { store: () => postgresStore({ url, listen: false }), raw };
  },
  redis: async () => {
    const [url, prefix] = [await flushableRedisDb(), freshPrefix().slice(0, -1)];
    return { store: () => redisStore({ url, prefix }), raw: () => everyValue(url, prefix) };
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    return { store: () => s3Store({ url: server.url, endpoint: server.endpoint, credentials }) };
  },
};

async function everyValue(url: string, prefix: string): Promise<string> {
  const client = new Redis(url);
  onTestFinished(() => client.disconnect());
  const keys = await client.keys(`${prefix}:*`);
  const strings = [];
  for (const key of keys) {
    const type = await client.type(key);
    strings.push(
      type === "string" ? await client.get(key) : type === "zset" ? await client.zrange(key, "0", "-1") : key,
    );
  }
  return JSON.stringify(strings);
}

const PERSONAL = /lovelace|analytical engine/;

it.each(Object.entries(STORES))(
  "%s: a forgotten record holds nothing, guards nothing, and goes with the sweep",
  async (_, open) => {
    const { store: connect, raw } = await open();
    const store = connect();
    const sent: string[] = [];
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const send = nt.action("send", {
      key: ["id"],
      doubt: { resendWithin: "1h" },
      keep: "forever",
      run: async ({ id, to }: { id: string; to: string }) => {
        sent.push(id);
        return { id: `msg-${id}`, about: "the analytical engine", to };
      },
    });
    const input = { id: "1", to: "ada@lovelace.example" };
    await send(input);
    const key = await send.keyOf(input);
    if (raw !== undefined) expect(await raw()).toMatch(PERSONAL);

    await nt.forget({ key }, { by: "kim", reason: "erasure" });
    expect(await send.status(input)).toEqual({ status: "absent", key });
    expect(JSON.stringify([await store.read([key]), await store.list({ limit: 10 })])).not.toMatch(PERSONAL);
    expect(await nt.find({ providerId: "msg-1" })).toEqual([]);
    if (raw !== undefined) expect(await raw()).not.toMatch(PERSONAL);

    await send(input);
    expect(sent).toEqual(["1", "1"]);
    await nt.forget({ key }, { by: "kim", reason: "once more" });
    while ((await store.sweep({ limit: 100, thorough: true })) > 0);
    expect(await store.read([key])).toEqual([null]);
    // Who forgot it is known still.
    expect(await nt.forget({ key }, { by: "bob", reason: "too" })).toMatchObject({
      by: "kim",
      reason: "once more",
      records: 0,
    });
    expect((await store.stats()).total).toBe(1);
  },
);

it("file: what was forgotten is out of the file once it has been rewritten", async () => {
  const path = join(temporaryFolder(), "ledger.jsonl");
  const nt = nevertwice({ store: fileStore({ path, compactAfterLines: 20 }), sweep: false });
  onTestFinished(() => nt.close());
  const send = nt.action("send", { key: ["id"], run: async ({ to }: { id: number; to: string }) => to });
  await send({ id: 1, to: "ada@lovelace.example" });
  await nt.forget({ key: await send.keyOf({ id: 1, to: "" }) }, { by: "kim", reason: "erasure" });
  // As the documentation says: a line per change, until then.
  expect(readFileSync(path, "utf8")).toMatch(PERSONAL);
  for (let id = 2; id < 80; id += 1) await send({ id, to: "bob" });
  await expect.poll(() => readFileSync(path, "utf8"), { timeout: 10_000 }).not.toMatch(PERSONAL);
});
