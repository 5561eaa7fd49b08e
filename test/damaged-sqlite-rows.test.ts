/** A SQLite row whose document is no JSON any more: it is passed over and reported, wherever it stands. */
import { join } from "node:path";
import { type EngineEvent, nevertwice } from "nevertwice";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "./support/database-sync.ts";
import { temporaryFolder } from "./support/each-store.ts";

const DAMAGES: Readonly<Record<string, (doc: string) => string | Uint8Array>> = {
  "a flipped brace": (doc) => `${doc.slice(0, -1)}|`,
  "a flipped quote": (doc) => doc.replace('"', "#"),
  truncated: (doc) => doc.slice(0, 20),
  empty: () => "",
  "a NUL inside": (doc) => `${doc.slice(0, 5)}\0${doc.slice(6)}`,
  "a blob": (doc) => Buffer.from(doc),
  "another value": () => "null",
};

interface Job {
  readonly id: string;
}

/** Three queued records of which the first is damaged, as a process opens them that was not there when it happened. */
async function afterDamage(damage: (doc: string) => string | Uint8Array) {
  const path = join(temporaryFolder(), "ledger.db");
  const open = () => nevertwice({ store: sqliteStore({ path }), sweep: false, onWarning: () => {} });
  const before = open();
  const job = before.action("job", { key: ["id"], run: async (_: Job) => {} });
  for (const id of ["bad", "b", "c"]) await job.enqueue({ id });
  const key = await job.keyOf({ id: "bad" });
  await before.close();
  const db = new DatabaseSync(path);
  const [row] = db.prepare("SELECT doc FROM nevertwice_records WHERE key = ?").all(key) as { doc: string }[];
  db.prepare("UPDATE nevertwice_records SET doc = ? WHERE key = ?").run(damage(row?.doc as string) as never, key);
  db.close();
  const nt = open();
  onTestFinished(() => nt.close());
  const damaged: string[] = [];
  nt.on((event: EngineEvent) => {
    if (event.type === "damaged") damaged.push(event.key);
  });
  return { nt, key, damaged, store: sqliteStore({ path }) };
}

describe.each(Object.entries(DAMAGES))("a pending row whose document is damaged: %s", (_, damage) => {
  it("a worker runs the others and reports it once", async () => {
    const { nt, key, damaged } = await afterDamage(damage);
    const ran: string[] = [];
    nt.action("job", { key: ["id"], run: async ({ id }: Job) => void ran.push(id) });
    const errors: unknown[] = [];
    const worker = nt.worker({ concurrency: 1 });
    worker.on((event) => {
      if (event.type === "error") errors.push(event);
    });
    await worker.drain();
    expect(ran.sort()).toEqual(["b", "c"]);
    expect(errors).toEqual([]);
    expect(damaged).toEqual([key]);
  });

  it("take() hands out the others, one at a time, and reports it once", async () => {
    const { nt, key, damaged } = await afterDamage(damage);
    const queue = nt.queue<{ id: unknown }>("job", { key: ["id"] });
    const taken: unknown[] = [];
    for (let task = await queue.take(); task !== null; task = await queue.take()) {
      taken.push((task.input as Job).id);
      await task.done(undefined);
    }
    expect(taken.sort()).toEqual(["b", "c"]);
    expect(damaged).toEqual([key]);
  });

  it("sweep, list and stats answer; list names it", async () => {
    const { nt, key, store } = await afterDamage(damage);
    await nt.sweep();
    const page = await store.list({ limit: 10, states: ["pending"] });
    expect(page).toMatchObject({ items: { length: 2 }, damaged: [{ key }] });
    expect(await store.stats()).toMatchObject({ total: 3, states: { pending: 3 } });
  });
});

it("stats count a row whose state is none that there is in the total alone", async () => {
  const path = join(temporaryFolder(), "ledger.db");
  const store = sqliteStore({ path });
  onTestFinished(() => store.close?.());
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  const job = nt.action("job", { key: ["id"], run: async (_: Job) => {} });
  for (const id of ["a", "b"]) await job.enqueue({ id });
  const db = new DatabaseSync(path);
  db.prepare("UPDATE nevertwice_records SET state = 'pendinh' WHERE key = ?").run(await job.keyOf({ id: "a" }));
  db.close();
  const { total, states, actions } = await store.stats();
  expect({ total, pending: states.pending, names: Object.keys(states).includes("pendinh") }).toEqual({
    total: 2,
    pending: 1,
    names: false,
  });
  expect(actions).toMatchObject([{ total: 2, states: { pending: 1 } }]);
});
