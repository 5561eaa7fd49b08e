import { join } from "node:path";
import { isNevertwiceError, nevertwice } from "nevertwice";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, openMemory, openSqlite, temporaryFolder } from "../../test/support/each-store.ts";

interface Mail {
  to: string;
  body?: string;
}

const MINUTE = 60_000;

async function refusal(call: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!isNevertwiceError(error)) throw new Error(`expected a NevertwiceError, got ${String(error)}`);
  return { code: error.code, message: error.message };
}

eachStore("enqueue", (open) => {
  const mailing = () => {
    const bench = open();
    let runs = 0;
    const send = bench.nt.action("mail", {
      key: ["to"],
      free: ["body"],
      run: async ({ to }: Mail) => {
        runs += 1;
        return { mailed: to };
      },
    });
    return { ...bench, send, runs: () => runs };
  };

  it("B2 ten enqueues, one record; the first is told that it was created, the others the state it is in", async () => {
    const { send, store, runs } = mailing();
    const answers = await Promise.all(Array.from({ length: 10 }, () => send.enqueue({ to: "ada" })));
    expect(answers.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(answers.map(({ key, state }) => `${key} ${state}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ state: "pending" });
    expect((await store.list({ limit: 10 })).items).toHaveLength(1);
    expect(runs()).toBe(0);
  });

  it("B4 enqueue returns at once and runs nothing; the outcome is queued", async () => {
    const { send, runs } = mailing();
    await send.enqueue({ to: "ada" });
    expect(await send.status({ to: "ada" })).toMatchObject({ status: "queued" });
    expect(runs()).toBe(0);
  });

  it("the caller of what is done already gets its result", async () => {
    const { send } = mailing();
    await send({ to: "ada" });
    expect(await send.enqueue({ to: "ada" })).toMatchObject({
      created: false,
      state: "confirmed",
      result: { mailed: "ada" },
    });
  });

  it("keeps the input as given, before parsing", async () => {
    const { nt, record } = open();
    const send = nt.action("mail", { input: z.object({ to: z.string().trim().toLowerCase() }), run: async () => 1 });
    const { key } = await send.enqueue({ to: " ADA " });
    expect(await send.keyOf({ to: "ada" })).toBe(key);
    expect((await record(key)).input).toEqual({ json: '{"to":" ADA "}' });
  });

  it("F2 another input under the same key is a conflict, and the record stays what it was", async () => {
    const { nt, record } = open();
    const pay = nt.action("pay", {
      key: ["id"],
      keep: "forever",
      run: async (i: { id: number; cents: number }) => i.cents,
    });
    const { key } = await pay.enqueue({ id: 1, cents: 100 });
    const before = await record(key);
    const { code, message } = await refusal(pay.enqueue({ id: 1, cents: 200 }));
    expect(code).toBe("KEY_CONFLICT");
    expect(message).toContain("differs in: cents");
    expect(await record(key)).toEqual(before);
  });

  it("dueAt, delay, expires and priority are kept with the record", async () => {
    const { send, record, clock } = mailing();
    const { now } = clock.instant();
    const later = await record((await send.enqueue({ to: "a" }, { delay: "5m", expires: "10m", priority: 3 })).key);
    expect(later.dueAt).toBeGreaterThanOrEqual(now + 5 * MINUTE);
    expect(later.terms).toEqual({ notAfter: (later.dueAt ?? 0) + 10 * MINUTE, priority: 3 });
    const on = new Date(now + MINUTE);
    const dated = await record(
      (await send.enqueue({ to: "b" }, { dueAt: on, expires: new Date(now + 2 * MINUTE) })).key,
    );
    expect(dated).toMatchObject({ dueAt: on.getTime(), terms: { notAfter: now + 2 * MINUTE } });
    expect((await record((await send.enqueue({ to: "c" })).key)).terms).toBeNull();
  });

  it("orderKey: each names the one before it in its line, and lines do not meet", async () => {
    const { send, record } = mailing();
    const names = ["a", "b", "c", "d"];
    for (const to of names) await send.enqueue({ to }, { orderKey: to === "c" ? "other" : "acct-1" });
    const [a, b, c, d] = await Promise.all(names.map(async (to) => record(await send.keyOf({ to }))));
    expect(a?.terms?.after).toBeUndefined();
    expect(b?.terms?.after).toBe(a?.key);
    expect(c?.terms?.after).toBeUndefined();
    expect(d?.terms?.after).toBe(b?.key);
    expect(a?.terms?.line).toBe(d?.terms?.line);
  });

  it("orderKey: thirty at once make one line, without a fork", async () => {
    const { send, record } = mailing();
    const names = Array.from({ length: 30 }, (_, i) => `n${i}`);
    await Promise.all(names.map((to) => send.enqueue({ to }, { orderKey: "acct-1" })));
    const records = await Promise.all(names.map(async (to) => record(await send.keyOf({ to }))));
    const afters = records.map(({ terms }) => terms?.after ?? "first");
    expect(new Set(afters).size).toBe(30);
  });

  it("enqueueMany: results in the order of the inputs, repeats among them included", async () => {
    const { send, store } = mailing();
    async function* inputs() {
      for (let i = 0; i < 1_200; i += 1) yield { to: `n${i % 1_000}` };
    }
    const answers = await send.enqueueMany(inputs());
    expect(answers).toHaveLength(1_200);
    expect(answers.filter(({ created }) => created)).toHaveLength(1_000);
    expect(answers[1_100]?.key).toBe(answers[100]?.key);
    expect((await store.stats()).states.pending).toBe(1_000);
  });

  it("a direct call runs what is queued and due; a repeat of the enqueue then says so", async () => {
    const { send, runs } = mailing();
    await send.enqueue({ to: "ada" });
    expect(await send({ to: "ada" })).toEqual({ mailed: "ada" });
    expect(await send.enqueue({ to: "ada" })).toMatchObject({ created: false, state: "confirmed" });
    expect(runs()).toBe(1);
  });

  it("says what is wrong with its options", async () => {
    const { send } = mailing();
    const wrong = async (options: object) => (await refusal(send.enqueue({ to: "ada" }, options))).message;
    expect(await wrong({ prio: 1 })).toContain('no option "prio"');
    expect(await wrong({ priority: 10 })).toContain("from 0 to 9");
    expect(await wrong({ delay: "1m", dueAt: new Date() })).toContain("Give one of them");
    expect(await wrong({ dueAt: new Date("x") })).toContain("not a moment");
    expect(await wrong({ orderKey: " " })).toContain("not blank");
    expect(await wrong({ expires: "soon" })).toContain("not a duration");
  });

  it("refuses an input that a worker would not read as it was", async () => {
    const { nt } = open();
    const plain = nt.action("plain", { key: ["id"], run: async (_: { id: number; more?: unknown }) => 1 });
    const { code, message } = await refusal(plain.enqueue({ id: 1, more: { at: new Date(0) } }));
    expect(code).toBe("INVALID_INPUT");
    expect(message).toContain("input.more.at is a Date");
    const large = nt.action("large", { key: ["id"], run: async (_: { id: number; text: string }) => 1 });
    expect((await refusal(large.enqueue({ id: 1, text: "x".repeat(300_000) }))).message).toContain("larger than");
    const dated = nt.action("dated", {
      input: z.object({ at: z.coerce.date() }),
      key: (i) => [i.at.toISOString()],
      run: async () => 1,
    });
    expect(await dated.enqueue({ at: new Date(0) })).toMatchObject({ created: true });
  });

  it("emits enqueued, with whether it is new", async () => {
    const { send, events } = mailing();
    await send.enqueue({ to: "ada" });
    await send.enqueue({ to: "ada" });
    expect(events.filter(({ type }) => type === "enqueued")).toMatchObject([{ action: "mail", created: true }]);
  });
});

describe("enqueue in the caller's own SQLite transaction", () => {
  function shop() {
    const path = join(temporaryFolder(), "app.db");
    const db = new DatabaseSync(path) as SqliteHandle & InstanceType<typeof DatabaseSync>;
    db.exec("PRAGMA journal_mode = WAL; CREATE TABLE orders (id INTEGER)");
    const nt = nevertwice({ store: sqliteStore({ path }), sweep: false });
    onTestFinished(async () => {
      await nt.close();
      db.close();
    });
    const send = nt.action("confirm_order", { key: ["id"], run: async ({ id }: { id: number }) => id });
    const orders = () => db.prepare("SELECT id FROM orders").all().length;
    return { db, nt, send, orders };
  }

  it("B1 commit: rows and intents are there together", async () => {
    const { db, send, nt, orders } = shop();
    db.exec("BEGIN IMMEDIATE");
    db.prepare("INSERT INTO orders (id) VALUES (?)").run(1);
    expect(await send.enqueue({ id: 1 }, { tx: db })).toMatchObject({ created: true, state: "pending" });
    await send.enqueueMany([{ id: 2 }, { id: 3 }, { id: 2 }], { tx: db, orderKey: "o" });
    db.exec("COMMIT");
    expect(orders()).toBe(1);
    expect((await nt.store.stats()).states.pending).toBe(3);
  });

  it("F35 rollback: no row, no intent", async () => {
    const { db, send, nt, orders } = shop();
    await send.enqueue({ id: 9 });
    db.exec("BEGIN IMMEDIATE");
    db.prepare("INSERT INTO orders (id) VALUES (?)").run(1);
    await send.enqueue({ id: 1 }, { tx: db });
    await send.enqueueMany([{ id: 2 }, { id: 3 }], { tx: db });
    db.exec("ROLLBACK");
    expect(orders()).toBe(0);
    expect((await nt.store.stats()).total).toBe(1);
    expect(await send.status({ id: 1 })).toMatchObject({ status: "absent" });
  });
});

it("a store without transactions says so", async () => {
  const { nt } = openMemory();
  const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => 1 });
  expect((await refusal(send.enqueue({ to: "ada" }, { tx: {} }))).message).toContain("no transactions to share");
});

it("encrypt seals a queued input too", async () => {
  const { nt, record } = openSqlite({ encrypt: Buffer.alloc(32, 7).toString("base64") });
  const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => 1 });
  const { key } = await send.enqueue({ to: "ada" });
  expect(JSON.stringify((await record(key)).input)).not.toContain("ada");
});
