/** The rule for another input under the same key, through every way in: transactions, the service, outages, former keys, imports. */
import { join } from "node:path";
import { nevertwice, notSent, rejected } from "nevertwice";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "./support/database-sync.ts";
import { type Bench, eachStore, temporaryFolder } from "./support/each-store.ts";
import { until } from "./support/gate.ts";
import { operations } from "./support/served.ts";
import { type Faults, faulty } from "./support/store-faults.ts";

interface Mail {
  readonly id: string;
  readonly to: string;
}

const WRONG: Mail = { id: "1", to: "wrong" };
const RIGHT: Mail = { id: "1", to: "ana" };
const BY = { by: "ana", reason: "looked" };

function mailer(nt: Bench["nt"], says: (error: Error) => unknown, options: object = {}) {
  const sent: string[] = [];
  const send = nt.action("mail", {
    key: ["id"],
    wait: 0,
    ...options,
    run: async ({ to }: Mail) => {
      if (to === "wrong") throw says(new Error("invalid email"));
      sent.push(to);
      return to;
    },
  });
  return { send, sent };
}

describe("in the caller's transaction", () => {
  function shop() {
    const path = join(temporaryFolder(), "app.db");
    const db = new DatabaseSync(path);
    const store = sqliteStore({ path });
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(async () => {
      await nt.close();
      db.close();
    });
    const inTx = async <T>(work: () => Promise<T>): Promise<T> => {
      db.exec("BEGIN IMMEDIATE");
      try {
        return await work();
      } finally {
        db.exec("COMMIT");
      }
    };
    return { nt, db, inTx };
  }

  it("a refusal for good is corrected; its own input gets the stored refusal", async () => {
    const { nt, db, inTx } = shop();
    const { send, sent } = mailer(nt, rejected);
    await send.attempt(WRONG);
    expect(await inTx(() => send.attempt(WRONG, { tx: db }))).toMatchObject({ status: "failed", final: true });
    expect(await inTx(() => send(RIGHT, { tx: db }))).toBe("ana");
    expect(await inTx(() => send.attempt({ ...RIGHT, to: "bob" }, { tx: db }))).toMatchObject({ status: "conflict" });
    expect(sent).toEqual(["ana"]);
  });

  it("queued work is a conflict, due or not; a doubt is told of, also by enqueue", async () => {
    const { nt, db, inTx } = shop();
    const { send, sent } = mailer(nt, (error) => error);
    await send.enqueue({ id: "2", to: "carl" });
    const other = { id: "2", to: "dora" };
    expect(await inTx(() => send.attempt(other, { tx: db }))).toMatchObject({ status: "conflict", differs: ["to"] });
    await expect(inTx(() => send.enqueue(other, { tx: db }))).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    await send.attempt(WRONG);
    expect(await inTx(() => send.attempt(RIGHT, { tx: db }))).toMatchObject({ status: "unknown", differs: ["to"] });
    await expect(inTx(() => send.enqueue(RIGHT, { tx: db }))).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
      outcome: { differs: ["to"] },
    });
    await send.resolve(WRONG, { as: "not-done", ...BY });
    expect(await inTx(() => send.enqueue(RIGHT, { tx: db }))).toMatchObject({ state: "pending" });
    await nt.worker().tick();
    expect(sent.sort()).toEqual(["ana", "carl"]);
  });
});

eachStore("through the service", (open) => {
  const start = () => {
    const bench = open();
    return { ...bench, ...operations(bench.store, {}) };
  };
  const claim = (to: string) => ({ action: "mail", parts: ["1"], input: { id: "1", to } });

  it("a claim with a corrected input after rejected; the same input gets the stored refusal", async () => {
    const { ask } = start();
    const { token } = await ask("claim", claim("wrong"));
    await ask("settle", { token, as: "rejected", error: { message: "invalid email" } });
    expect(await ask("claim", claim("wrong"))).toMatchObject({ status: "failed", final: true });
    expect(await ask("claim", claim("ana"))).toMatchObject({ status: "claimed", attempt: 2, fence: 2 });
    expect(await ask("claim", claim("wrong"))).toMatchObject({ status: "conflict", differs: ["to"] });
  });

  it("a doubt: unknown with differs, for a claim and for an enqueue", async () => {
    const { ask } = start();
    const { token, key } = await ask("claim", claim("wrong"));
    await ask("settle", { token, as: "unknown" });
    expect(await ask("claim", claim("ana"))).toMatchObject({ status: "unknown", differs: ["to"] });
    expect(await ask("enqueue", claim("ana"))).toMatchObject({ status: "unknown", differs: ["to"] });
    await ask("resolve", { key, as: "not-done", ...BY });
    expect(await ask("enqueue", claim("ana"))).toMatchObject({ status: "queued" });
    expect(await ask("enqueue", claim("wrong"))).toMatchObject({ status: "conflict" });
  });

  it("an attempt that reports no result has none; a resolution without one did not keep it", async () => {
    const { ask, nt } = start();
    const { token } = await ask("claim", { action: "send", parts: ["a"] });
    expect(await ask("settle", { token, as: "done" })).not.toHaveProperty("resultOmitted");
    expect(await nt.once("send", ["a"], () => "again")).toBeUndefined();
    const other = await ask("claim", { action: "send", parts: ["b"] });
    await ask("settle", { token: other.token, as: "unknown" });
    expect(await ask("resolve", { key: other.key, as: "done", ...BY })).toMatchObject({
      status: "done",
      resultOmitted: expect.any(String),
    });
    await expect(nt.once("send", ["b"], () => "again")).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
  });
});

eachStore("while the store is down, and after", (open) => {
  it("the same rule from memory, and the corrected run is what the ledger hears of", async () => {
    const faults: Faults = {};
    const { nt, store } = open({ wrap: (inner) => faulty(inner, faults) });
    const { send, sent } = mailer(nt, rejected, { whenStoreDown: "run" });
    faults.down = true;
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    expect(await send.attempt(WRONG)).toMatchObject({ status: "failed", final: true });
    expect(await send(RIGHT)).toBe("ana");
    expect(await send.attempt({ ...RIGHT, to: "bob" })).toMatchObject({ status: "conflict", differs: ["to"] });
    faults.down = false;
    const key = await send.keyOf(RIGHT);
    await until(async () => (await store.read([key]))[0]?.record.state === "confirmed");
    expect(await send.attempt(WRONG)).toMatchObject({ status: "conflict" });
    expect(sent).toEqual(["ana"]);
  });

  it.each(["hold", "retry"])("a doubt is not sent again with another input: %s", async (doubt) => {
    const faults: Faults = {};
    const { nt } = open({ wrap: (inner) => faulty(inner, faults) });
    const { send, sent } = mailer(nt, (error) => error, { whenStoreDown: "run", doubt });
    faults.down = true;
    expect(await send.attempt(WRONG)).toMatchObject({ status: "unknown" });
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "unknown", differs: ["to"] });
    expect(sent).toEqual([]);
  });

  it("what the ledger knows not to have happened is replaced by what was run meanwhile, without a conflict event", async () => {
    const faults: Faults = {};
    const { nt, another, store, events } = open({ wrap: (inner) => faulty(inner, faults) });
    await mailer(another(), rejected).send.attempt(WRONG);
    const { send } = mailer(nt, rejected, { whenStoreDown: "run" });
    faults.down = true;
    expect(await send(RIGHT)).toBe("ana");
    faults.down = false;
    const key = await send.keyOf(RIGHT);
    await until(async () => (await store.read([key]))[0]?.record.state === "confirmed");
    expect(events.map(({ type }) => type)).not.toContain("conflict");
    expect(await send.attempt(RIGHT)).toMatchObject({ status: "done", replayed: true });
  });
});

eachStore("queued under another key of the same intent", (open) => {
  it("a worker waits for a doubt with another input, and runs once it is settled as not done", async () => {
    const { nt, another, clock } = open();
    const old = mailer(nt, (error) => error);
    await old.send.attempt(WRONG);
    const now = another();
    const { send, sent } = mailer(now, (error) => error);
    // Enqueued by a program that does not know the former key.
    const renamed = now.action("post", { key: ["id"], run: async ({ to }: Mail) => void sent.push(to) });
    await renamed.enqueue(RIGHT);
    const third = another();
    third.action("post", {
      key: ["id"],
      formerly: { name: "mail", key: ["id"] },
      run: async ({ to }: Mail) => void sent.push(to),
    });
    const worker = third.worker({ actions: ["post"] });
    await worker.tick();
    expect(await renamed.status(RIGHT)).toMatchObject({ status: "queued" });
    expect(sent).toEqual([]);
    await send.resolve(WRONG, { as: "not-done", ...BY });
    await until(async () => {
      clock.advance(31_000);
      await worker.tick();
      return sent.length > 0;
    });
    expect(sent).toEqual(["ana"]);
  });
});

eachStore("retries that are still to come", (open) => {
  it("a call of another process that waits between its tries finds the corrected one done, and stops", async () => {
    const { nt, another } = open();
    const { send, sent } = mailer(nt, notSent, { retry: { attempts: 5, backoff: "200ms", max: "200ms" }, wait: "10s" });
    const trying = send.attempt(WRONG);
    const other = mailer(another(), notSent);
    await until(async () => (await other.send.attempt(RIGHT)).status === "done");
    expect(await trying).toMatchObject({ status: "conflict", differs: ["to"] });
    expect([...sent, ...other.sent]).toEqual(["ana"]);
  });
});
