/** One record that cannot be read stops nobody else: no call, no loop, no batch. Its own intent is refused, never run. */
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { type EngineEvent, type Nevertwice, type NevertwiceOptions, nevertwice, type Store } from "nevertwice";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { isDamagedRecord } from "../src/core/damaged-record.ts";
import { keyHex } from "../src/stores/postgres/sql/key.ts";
import { Names } from "../src/stores/redis/buckets.ts";
import { freshDatabase, freshPrefix, redisUrl } from "./services/addresses.ts";
import { DatabaseSync } from "./support/database-sync.ts";
import { eachStore, temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

interface Ledger {
  readonly store: Store;
  /** Changes the stored bytes of a record, as a bad sector or another program would. */
  damage(key: string): Promise<void> | void;
}

const credentials = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};

const KINDS: Readonly<Record<string, () => Promise<Ledger> | Ledger>> = {
  sqlite: () => {
    const path = join(temporaryFolder(), "ledger.db");
    const damage = (key: string) => {
      const db = new DatabaseSync(path);
      db.prepare("UPDATE nevertwice_records SET sum = sum + 1 WHERE key = ?").run(key);
      db.close();
    };
    return { store: sqliteStore({ path }), damage };
  },
  file: () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    const damage = (key: string) => {
      const lines = readFileSync(path, "utf8").split("\n");
      const last = lines.findLastIndex((line) => line.includes(`"key":"${key}"`));
      lines[last] = (lines[last] as string).replace('"fingerprint":', '"fingErprint":');
      writeFileSync(path, lines.join("\n"));
    };
    return { store: fileStore({ path }), damage };
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const damage = (key: string) =>
      server.alter(`agents/records/${key}`, (body) => body.replace('"attempt":', '"atTempt":'));
    return { store: s3Store({ url: server.url, endpoint: server.endpoint, credentials }), damage };
  },
  redis: () => {
    const prefix = freshPrefix().replace(/:$/, "");
    const client = new Redis(redisUrl());
    onTestFinished(() => void client.disconnect());
    const damage = async (key: string) => {
      const name = new Names(prefix).record(key);
      await client.set(name, `${await client.get(name)}`.replace('"a":', '"A":'));
    };
    return { store: redisStore({ client, prefix }), damage };
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    const schema = `t_${randomBytes(6).toString("hex")}`;
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    onTestFinished(() => pool.end());
    const damage = async (key: string) => {
      await pool.query(`UPDATE ${schema}.records SET doc = 'x' WHERE encode(key, 'hex') = $1`, [keyHex(key)]);
    };
    return { store: postgresStore({ pool, schema, listen: false }), damage };
  },
};

interface Seen {
  readonly nt: Nevertwice;
  readonly events: EngineEvent[];
  readonly warnings: string[];
}

/** As another process would have it, with a memory of its own. */
function on(store: Store, options: Omit<NevertwiceOptions, "store"> = {}): Seen {
  const warnings: string[] = [];
  const onWarning = ({ code }: { code: string }) => warnings.push(code);
  const nt = nevertwice({ sweep: false, onWarning, ...options, store });
  onTestFinished(() => nt.close());
  const events: EngineEvent[] = [];
  nt.on((event) => events.push(event));
  return { nt, events, warnings };
}

interface Mail {
  id: number;
}

const IDS = Array.from({ length: 40 }, (_, id) => ({ id }));
const BAD = 7;

describe.each(Object.entries(KINDS))("%s", (_name, open) => {
  it("calls for other keys go on, in one batch with it; its own is refused and not run; the breaker stays shut", async () => {
    const { store, damage } = await open();
    const first = on(store).nt.action("send", { key: ["id"], run: async ({ id }: Mail) => id });
    await Promise.all(IDS.map((mail) => first(mail)));
    const bad = await first.keyOf({ id: BAD });
    await damage(bad);
    const { nt, events, warnings } = on(store);
    let ran = 0;
    const run = async ({ id }: Mail) => {
      ran += 1;
      return id;
    };
    const send = nt.action("send", { key: ["id"], run });
    for (let round = 0; round < 8; round += 1) {
      const outcomes = await Promise.allSettled(IDS.map((mail) => send.attempt(mail)));
      for (const [id, outcome] of outcomes.entries()) {
        if (id !== BAD) expect(outcome).toMatchObject({ value: { status: "done", replayed: true, result: id } });
        else {
          expect(outcome).toMatchObject({ reason: { code: "STORE_UNAVAILABLE", key: bad, message: /is damaged/ } });
          expect(isDamagedRecord((outcome as PromiseRejectedResult).reason)).toBe(true);
        }
      }
    }
    await expect(send.status({ id: BAD })).rejects.toMatchObject({ key: bad });
    expect(ran).toBe(0);
    expect(events.filter(({ type }) => type === "store_down")).toEqual([]);
    expect(events.filter(({ type }) => type === "damaged")).toEqual([
      { type: "damaged", key: bad, message: expect.stringMatching(/is damaged/) },
    ]);
    expect(warnings.filter((code) => code === "DAMAGED_RECORD")).toHaveLength(1);
    const open_ = on(store).nt.action("send", { key: ["id"], whenStoreDown: "run", doubt: "retry", run });
    await expect(open_.attempt({ id: BAD })).rejects.toMatchObject({ key: bad });
    expect(ran).toBe(0);
  });

  it("a worker runs the rest of the queue, and each, retryAll and list pass over it", async () => {
    const { store, damage } = await open();
    const { nt, events } = on(store);
    const ran: number[] = [];
    const send = nt.action("send", {
      key: ["id"],
      run: async ({ id }: Mail) => {
        ran.push(id);
        return id;
      },
    });
    await send.enqueueMany(IDS.slice(0, 12));
    const bad = await send.keyOf({ id: BAD });
    await damage(bad);
    const worker = nt.worker({ concurrency: 3 });
    await worker.drain();
    expect(ran.sort((a, b) => a - b)).toEqual(IDS.slice(0, 12).flatMap(({ id }) => (id === BAD ? [] : [id])));
    expect(events.filter(({ type }) => type === "damaged")).toHaveLength(1);
    const again = on(store).nt.action("send", { key: ["id"], run: async ({ id }: Mail) => id });
    const report = await again.each(IDS.slice(0, 14));
    expect(report).toMatchObject({ replayed: 11, sent: 2, failed: 1, complete: true });
    expect(report.failedInputs).toMatchObject([{ index: BAD, why: { key: bad } }]);
    const page = await store.list({ limit: 100 });
    expect(page).toMatchObject({ items: { length: 13 }, damaged: [{ key: bad }] });
    expect(await on(store).nt.retryAll({}, { by: "me", reason: "test" })).toMatchObject({ retried: [] });
  });

  it("a sweep settles the other doubts and counts it; retryAll brings back the other dead letters", async () => {
    const { store, damage } = await open();
    const doubtful = on(store).nt.action("send", {
      key: ["id"],
      run: async ({ id }: Mail): Promise<number> => {
        if (id < 6) throw new Error("who knows");
        throw Object.assign(new Error("bad request"), { status: 400 });
      },
    });
    await Promise.all(IDS.slice(0, 10).map((mail) => doubtful.attempt(mail)));
    await damage(await doubtful.keyOf({ id: 3 }));
    const { nt } = on(store);
    const probed: number[] = [];
    nt.action("send", {
      key: ["id"],
      doubt: {
        quietFor: 0,
        probe: async ({ id }: Mail) => {
          probed.push(id);
          return { as: "done", result: id };
        },
      },
      run: async ({ id }: Mail) => id,
    });
    expect(await nt.sweep()).toMatchObject({ settled: 5, damaged: 1 });
    expect(probed.sort()).toEqual([0, 1, 2, 4, 5]);
    await damage(await doubtful.keyOf({ id: 8 }));
    const { retried } = await nt.retryAll({ action: "send" }, { by: "me", reason: "test" });
    expect(retried).toHaveLength(3);
  });

  it("the note of a limit: reported, its destination is not let through, the others are", async () => {
    const { store, damage } = await open();
    const define = (nt: Nevertwice, ran: number[]) =>
      nt.action("send", {
        key: ["id"],
        limit: { by: ({ id }: Mail) => (id < 100 ? "a" : "b"), concurrency: 1 },
        run: async ({ id }: Mail) => void ran.push(id),
      });
    const before = on(store);
    const first = define(before.nt, []);
    await first.enqueue({ id: 1 });
    await before.nt.worker().drain();
    const [note] = (await store.list({ limit: 10, action: "nevertwice.limit" })).items;
    const key = note?.record.key as string;
    await damage(key);
    const { nt, events, warnings } = on(store);
    const ran: number[] = [];
    const send = define(nt, ran);
    for (const id of [2, 102, 103]) await send.enqueue({ id });
    const worker = nt.worker({ concurrency: 1 });
    await expect
      .poll(
        () =>
          worker.tick().then(
            () => ran.length,
            () => ran.length,
          ),
        { timeout: 10_000 },
      )
      .toBe(2);
    expect(ran.sort()).toEqual([102, 103]);
    expect(events.filter(({ type }) => type === "damaged")).toMatchObject([{ key }]);
    expect(warnings).toContain("DAMAGED_RECORD");
  });

  it("the note of an order: reported to whoever enqueues, whether it is read or swapped", async () => {
    const { store, damage } = await open();
    const define = (nt: Nevertwice) => nt.action("send", { key: ["id"], run: async (_: Mail) => {} });
    // One remembers the note as it left it, and meets the damage when it swaps; the other has to read it.
    const knowing = on(store);
    const first = define(knowing.nt);
    await first.enqueue({ id: 1 }, { orderKey: "o" });
    await define(on(store).nt).enqueue({ id: 3 }, { orderKey: "o" });
    const [note] = (await store.list({ limit: 10, action: "nevertwice.line" })).items;
    const key = note?.record.key as string;
    await damage(key);
    const reading = on(store);
    for (const [{ events, warnings }, send] of [[knowing, first] as const, [reading, define(reading.nt)] as const]) {
      const enqueued = await send.enqueue({ id: 2 }, { orderKey: "o" }).catch((error: unknown) => error);
      expect(enqueued).toMatchObject({ key });
      expect(events.filter(({ type }) => type === "damaged")).toMatchObject([{ key }]);
      expect(warnings).toContain("DAMAGED_RECORD");
    }
  });

  it("set aside, its bytes are kept and its key is free", async () => {
    const { store, damage } = await open();
    const send = on(store).nt.action("send", { key: ["id"], run: async ({ id }: Mail) => id });
    await Promise.all(IDS.slice(0, 3).map((mail) => send(mail)));
    const bad = await send.keyOf({ id: 1 });
    await damage(bad);
    await expect(store.quarantine?.(await send.keyOf({ id: 0 }))).rejects.toMatchObject({ code: "CONFIG" });
    expect(await store.quarantine?.(bad)).toMatchObject({ key: bad, keptIn: expect.stringContaining("quarantine") });
    expect(await store.list({ limit: 10 })).not.toHaveProperty("damaged");
    const fresh = on(store).nt.action("send", { key: ["id"], run: async ({ id }: Mail) => `${id} again` });
    expect(await Promise.all(IDS.slice(0, 3).map((mail) => fresh(mail)))).toEqual([0, "1 again", 2]);
  });
});

eachStore("a record whose input does not open", (open) => {
  const key = (byte: number) => Buffer.alloc(32, byte).toString("base64");

  it("is passed over by every sweep: the others are settled, and what is over is removed", async () => {
    const { another, store } = open({ encrypt: key(1) });
    const lost = another({ encrypt: key(1) });
    const rest = another({ encrypt: key(2) });
    const define = (nt: Nevertwice) =>
      nt.action("send", {
        key: ["id"],
        run: async (_: Mail): Promise<void> => {
          throw new Error("who knows");
        },
      });
    await define(lost).attempt({ id: 0 });
    const other = define(rest);
    for (const id of [1, 2, 3]) await other.attempt({ id });
    await rest.once("short", ["x"], () => 1, { keep: "1ms" });
    await new Promise((over) => setTimeout(over, 5));
    const sweeper = another({ encrypt: key(2) });
    sweeper.action("send", { key: ["id"], doubt: "retry", run: async ({ id }: Mail) => id });
    expect(await sweeper.sweep()).toMatchObject({ settled: 3, removed: 1, damaged: 1 });
    expect((await store.stats()).states).toMatchObject({ confirmed: 3, unknown: 1 });
    // Settled by name, it is out of the way.
    const [doubt] = (await store.list({ limit: 10, states: ["unknown"] })).items;
    await sweeper.resolve({ key: doubt?.record.key as string }, { as: "done", by: "me", reason: "seen" });
    expect(await sweeper.sweep()).toMatchObject({ settled: 0, damaged: 0 });
  });
});

eachStore("code of the user's that throws for one record", (open) => {
  const boom = () => {
    throw new Error("boom");
  };
  const throwing: Readonly<Record<string, (id: number) => object>> = {
    "a probe": () => ({
      doubt: { quietFor: 0, probe: ({ id }: Mail) => (id === 0 ? boom() : { as: "done", result: id }) },
    }),
    "a key function": () => ({ doubt: "retry", key: ({ id }: Mail) => (id === 0 ? boom() : [id]) }),
    "a schema": () => ({
      doubt: "retry",
      input: {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: (value: unknown) => ((value as Mail).id === 0 ? boom() : { value }),
        },
      },
    }),
    "a classify": () => ({
      doubt: "retry",
      classify: boom,
      run: async ({ id }: Mail) => (id === 0 ? boom() : id),
    }),
  };

  it.each(Object.keys(throwing))("%s: the sweep settles the others", async (what) => {
    const { another } = open();
    const first = another().action("send", {
      key: ["id"],
      run: async (_: Mail): Promise<number> => {
        throw new Error("who knows");
      },
    });
    for (const id of [0, 1, 2]) await first.attempt({ id });
    const sweeper = another();
    const options = { key: ["id"], run: async ({ id }: Mail) => id, ...throwing[what]?.(0) };
    sweeper.action("send", options as never);
    expect(await sweeper.sweep()).toMatchObject({ settled: 2 });
  });
});
