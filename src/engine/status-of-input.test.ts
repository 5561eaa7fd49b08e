/** `status(input)`: what an attempt with this very input would be told, without running or counting anything. */
import { join } from "node:path";
import { nevertwice, notSent, rejected } from "nevertwice";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import { expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { type Bench, eachStore, openMemory, temporaryFolder } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  id: string;
  to: string;
  body?: string;
}

const ANA: Mail = { id: "1", to: "ana", body: "Hello" };
const REWORDED: Mail = { ...ANA, body: "Good day" };
const BOB: Mail = { id: "1", to: "bob" };
const [OLD_KEY, NEW_KEY] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64")) as [string, string];

function mailer(nt: Bench["nt"], how: (mail: Mail) => unknown = ({ to }) => `sent to ${to}`, more: object = {}) {
  let runs = 0;
  const send = nt.action("mail", {
    key: ["id"],
    free: ["body"],
    wait: 0,
    ...more,
    run: async (mail: Mail) => {
      runs += 1;
      return how(mail);
    },
  });
  return { send, runs: () => runs };
}

const fails = (error: unknown) => () => {
  throw error;
};

eachStore("status of another input than the record's", (open) => {
  it("in doubt: unknown with differs; of the same one, reworded or not, without", async () => {
    const { nt, events } = open();
    const { send, runs } = mailer(nt, fails(new Error("socket hang up")));
    const { key } = await send.attempt(ANA);
    const told = events.length;
    expect(await send.status(BOB)).toMatchObject({ status: "unknown", key, differs: ["to"] });
    for (const same of [ANA, REWORDED]) expect(await send.status(same)).not.toHaveProperty("differs");
    // By its key alone there is no input to compare.
    expect(await send.status({ key })).not.toHaveProperty("differs");
    expect(await nt.status({ key })).not.toHaveProperty("differs");
    expect(runs()).toBe(1);
    expect(events).toHaveLength(told);
  });

  it("done: a conflict, and of the same one its result with the free fields that differ", async () => {
    const { nt, events } = open();
    const { send, runs } = mailer(nt);
    const { key } = await send.attempt(ANA);
    const told = events.length;
    expect(await send.status(BOB)).toEqual({ status: "conflict", key, differs: ["to"] });
    expect(await send.status(REWORDED)).toMatchObject({ status: "done", result: "sent to ana", differs: ["body"] });
    expect(await send.status(ANA)).not.toHaveProperty("differs");
    expect(await send.status({ key })).toMatchObject({ status: "done", result: "sent to ana" });
    expect(runs()).toBe(1);
    expect(events).toHaveLength(told);
  });

  it("under way: a conflict; the same one is in flight", async () => {
    const { nt, another } = open();
    const slow = gate();
    const { send } = mailer(nt, () => slow.opened);
    const running = send.attempt(ANA);
    const { send: elsewhere } = mailer(another());
    await until(async () => (await elsewhere.status(ANA)).status === "in_flight");
    for (const asked of [send, elsewhere])
      expect(await asked.status(BOB)).toMatchObject({ status: "conflict", differs: ["to"] });
    slow.open();
    await running;
  });

  it("queued: a conflict; the same one is queued", async () => {
    const { nt } = open();
    const { send } = mailer(nt);
    await send.enqueue(ANA, { delay: "1h" });
    expect(await send.status(BOB)).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(await send.status(REWORDED)).toMatchObject({ status: "queued" });
  });

  it.each([
    ["for good", rejected(new Error("no")), true],
    ["for now", notSent(new Error("no")), false],
  ])("known not to have happened, %s: it failed, for every input", async (_, error, final) => {
    const { nt } = open();
    const { send, runs } = mailer(nt, fails(error), { retry: { attempts: 1 } });
    await send.attempt(ANA);
    for (const mail of [ANA, BOB]) expect(await send.status(mail)).toMatchObject({ status: "failed", final });
    expect(runs()).toBe(1);
  });

  it("past its keep: absent", async () => {
    const { nt, clock } = open();
    const { send } = mailer(nt, undefined, { keep: "1h" });
    const { key } = await send.attempt(ANA);
    clock.advance(3_700_000);
    expect(await send.status(BOB)).toEqual({ status: "absent", key });
  });

  it("is what an attempt says, wherever an attempt runs nothing", async () => {
    for (const how of [fails(new Error("socket hang up")), () => "sent"]) {
      const { nt } = open();
      const { send, runs } = mailer(nt, how);
      await send.attempt(ANA);
      for (const mail of [BOB, REWORDED]) expect(await send.status(mail)).toEqual(await send.attempt(mail));
      expect(runs()).toBe(1);
    }
  });
});

it("encrypt: compared under the key of the record; where that is not given, told without differs", async () => {
  const { nt, another } = openMemory({ encrypt: OLD_KEY });
  await mailer(nt, fails(new Error("socket hang up"))).send.attempt(ANA);
  const rotated = mailer(another({ encrypt: [NEW_KEY, OLD_KEY] })).send;
  expect(await rotated.status(BOB)).toMatchObject({ status: "unknown", differs: ["to"] });
  const without = mailer(another({ encrypt: NEW_KEY })).send;
  expect(await without.status(BOB)).not.toHaveProperty("differs");
});

it("formerly: a doubt under the former key, as the present definition compares", async () => {
  const { nt, another } = openMemory();
  await mailer(nt, fails(new Error("socket hang up"))).send.attempt(ANA);
  const key = ({ id }: Mail) => ["mail", id];
  const { send } = mailer(another(), undefined, { key, formerly: { key: ["id"] } });
  expect(await send.status(BOB)).toMatchObject({ status: "unknown", differs: ["to"] });
  expect(await send.status(REWORDED)).not.toHaveProperty("differs");
});

it("in the caller's transaction: as that sees it", async () => {
  const path = join(temporaryFolder(), "app.db");
  const db = new DatabaseSync(path) as SqliteHandle & InstanceType<typeof DatabaseSync>;
  const nt = nevertwice({ store: sqliteStore({ path }), sweep: false });
  onTestFinished(async () => {
    await nt.close();
    db.close();
  });
  const send = nt.action("mail", { key: ["id"], free: ["body"], run: async ({ to }: Mail, _ctx) => `sent to ${to}` });
  db.exec("BEGIN IMMEDIATE");
  await send.attempt(ANA, { tx: db });
  expect(await send.status(BOB, { tx: db })).toMatchObject({ status: "conflict", differs: ["to"] });
  expect(await send.status(REWORDED, { tx: db })).toMatchObject({ status: "done", differs: ["body"] });
  db.exec("ROLLBACK");
  expect(await send.status(BOB)).toMatchObject({ status: "absent" });
});
