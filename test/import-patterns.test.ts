/**
 * D8: tables, files and keys of known patterns, made by their own DDL in real servers, with rows in every status. They are
 * imported, and then the program runs with nevertwice: nothing is done twice, nothing is lost, doubts can be seen.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import type { Nevertwice } from "nevertwice";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase } from "./services/addresses.ts";
import { CliLedger } from "./support/cli.ts";
import { DatabaseSync } from "./support/database-sync.ts";

const S0_DEDUPE = `CREATE TABLE agent_action_dedupe (
  idempotency_key TEXT PRIMARY KEY, action_type TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), result JSONB)`;
const S0_STATES = `ALTER TABLE agent_action_dedupe ADD COLUMN state TEXT, ADD COLUMN provider_message_id TEXT`;
const S0_OUTBOX = `CREATE TABLE outbox (
  id BIGSERIAL PRIMARY KEY, idempotency_key TEXT UNIQUE NOT NULL, action_type TEXT NOT NULL, payload JSONB NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', attempts INT NOT NULL DEFAULT 0,
  next_attempt_at TIMESTAMPTZ NOT NULL DEFAULT now(), completed_at TIMESTAMPTZ)`;
const S1_ACTIONS = `CREATE TABLE agent_actions (
  id UUID PRIMARY KEY DEFAULT gen_random_uuid(), idempotency_key TEXT UNIQUE NOT NULL, action_type TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', result JSONB, created_at TIMESTAMPTZ NOT NULL DEFAULT now())`;
const S1_EVENTS = `CREATE TABLE stripe_events (
  event_id TEXT PRIMARY KEY, event_type TEXT NOT NULL, processed_at TIMESTAMPTZ NOT NULL DEFAULT now(), payload JSONB)`;
const S1_DRIP = `CREATE TABLE subscriber_automation (
  id UUID PRIMARY KEY DEFAULT gen_random_uuid(), subscriber_id TEXT UNIQUE NOT NULL,
  welcome_sent BOOLEAN NOT NULL DEFAULT false, welcome_sent_at TIMESTAMPTZ,
  social_proof_sent BOOLEAN NOT NULL DEFAULT false, social_proof_sent_at TIMESTAMPTZ,
  first_dollar_sent BOOLEAN NOT NULL DEFAULT false, first_dollar_sent_at TIMESTAMPTZ)`;
const S1_RUNS = `CREATE TABLE agent_runs (
  run_id UUID PRIMARY KEY DEFAULT gen_random_uuid(), agent_name TEXT NOT NULL, action_type TEXT NOT NULL,
  idempotency_key TEXT UNIQUE NOT NULL, status TEXT NOT NULL DEFAULT 'pending', result JSONB, error_detail TEXT,
  started_at TIMESTAMPTZ NOT NULL DEFAULT now(), completed_at TIMESTAMPTZ)`;
const S2_OUTBOX = `CREATE TABLE outbox (
  idempotency_key TEXT PRIMARY KEY, operation TEXT NOT NULL, payload JSONB NOT NULL, status TEXT NOT NULL,
  attempts INT NOT NULL DEFAULT 0, last_error TEXT, created_at TIMESTAMPTZ NOT NULL, completed_at TIMESTAMPTZ)`;

interface Bench {
  readonly cli: CliLedger;
  readonly url: string;
  sql(text: string): Promise<pg.QueryResult>;
  load(...flags: string[]): ReturnType<CliLedger["run"]>;
}

function cliLedger(): CliLedger {
  const cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
  onTestFinished(() => cli.close());
  return cli;
}

async function postgres(...statements: string[]): Promise<Bench> {
  const { url } = await freshDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  for (const statement of statements) await client.query(statement);
  const cli = cliLedger();
  const load = (...flags: string[]) =>
    cli.run(["import", "--from-env", "DATABASE_URL", ...flags], { env: { DATABASE_URL: url } });
  return { cli, url, sql: (text) => client.query(text), load };
}

/** Every call of the program, and every one that a worker makes. */
class Sent {
  readonly all: unknown[] = [];
  readonly send = (input: unknown): unknown => {
    this.all.push(input);
    return { message_id: `new-${this.all.length}` };
  };
}

interface Mail {
  readonly idempotency_key: string;
  readonly to?: string;
  readonly body?: string;
}

function mailer(nt: Nevertwice, sent: Sent, name = "send_email") {
  return nt.action(name, { key: ["idempotency_key"], run: (input: Mail) => sent.send(input) });
}

describe("D8: s0-dedupe", () => {
  const ROWS = `INSERT INTO agent_action_dedupe (idempotency_key, action_type, result) VALUES
    ('sent', 'send_email', '{"message_id":"m-1"}'), ('claimed', 'send_email', NULL), ('null', 'send_email', 'null'),
    ('other', 'create_invoice', '{"id":"in_1"}')`;

  it("a result is done; without one it may have happened; the action is in its column", async () => {
    const { cli, load } = await postgres(S0_DEDUPE, ROWS);
    const first = await load("--as", "s0-dedupe", "--json");
    expect([first.code, first.err]).toEqual([0, ""]);
    expect(first.json).toMatchObject({ as: "s0-dedupe", rows: 4, states: { confirmed: 2, unknown: 2 } });
    const [nt, sent] = [cli.program(), new Sent()];
    const send = mailer(nt, sent);
    const mail = { to: "ana@example.com", body: "Hello" };
    const done = await send.attempt({ idempotency_key: "sent", ...mail });
    expect(done).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-1" } });
    for (const key of ["claimed", "null"])
      expect(await send.attempt({ idempotency_key: key, ...mail })).toMatchObject({
        status: "unknown",
        why: expect.stringMatching(/no result was recorded/),
      });
    expect(await nt.once("create_invoice", ["other"], () => "again")).toEqual({ id: "in_1" });
    expect(await send({ idempotency_key: "new", ...mail })).toEqual({ message_id: "new-1" });
    expect(sent.all.length).toBe(1);
    expect((await cli.run(["ls", "--doubt", "--json"])).json.records).toHaveLength(2);
    expect((await load("--as", "s0-dedupe", "--json")).json).toMatchObject({ imported: 0, known: 4 });
  });

  it("with phases: claimed and sent are not confirmed, unless the provider's id is there", async () => {
    const { cli, load, sql } = await postgres(S0_DEDUPE, S0_STATES);
    await sql(`INSERT INTO agent_action_dedupe (idempotency_key, action_type, state, provider_message_id) VALUES
      ('a', 'send_email', 'claimed', NULL), ('b', 'send_email', 'sent', NULL), ('c', 'send_email', 'sent', 'm-3'),
      ('d', 'send_email', 'confirmed', 'm-4')`);
    const dry = await load("--as", "s0-dedupe", "--dry-run");
    expect(dry.out).toMatch(/4 rows: 4 records would be imported/);
    expect(dry.out).toMatch(
      / {2}row \d: send_email \["a"\] \(text\): unknown, kept forever \(imported while it was claimed/,
    );
    expect(dry.out).toMatch(/ {2}row \d: send_email \["d"\] \(text\): confirmed, kept forever\n/);
    expect((await cli.program().store.stats()).total).toBe(0);
    expect((await load("--as", "s0-dedupe", "--json")).json).toMatchObject({ states: { confirmed: 2, unknown: 2 } });
    const sent = new Sent();
    const send = mailer(cli.program(), sent);
    expect(await send({ idempotency_key: "c" })).toEqual({ message_id: "m-3" });
    expect(await send({ idempotency_key: "d" })).toEqual({ message_id: "m-4" });
    expect(await send.attempt({ idempotency_key: "b" })).toMatchObject({ status: "unknown" });
    expect(sent.all).toEqual([]);
    // Confirmed by the old program after the first import: a late second one takes it over, and weakens nothing.
    await sql(
      "UPDATE agent_action_dedupe SET state = 'confirmed', provider_message_id = 'm-1' WHERE idempotency_key = 'a'",
    );
    await sql("UPDATE agent_action_dedupe SET state = 'claimed' WHERE idempotency_key = 'd'");
    expect((await load("--as", "s0-dedupe", "--json")).json).toMatchObject({ strengthened: 1, imported: 0, known: 3 });
    expect(await send({ idempotency_key: "a" })).toEqual({ message_id: "m-1" });
    expect(await send({ idempotency_key: "d" })).toEqual({ message_id: "m-4" });
  });

  it("a state that nobody explained is refused with how to map it, and nothing is imported", async () => {
    const { cli, load, sql } = await postgres(S0_DEDUPE, S0_STATES);
    await sql(`INSERT INTO agent_action_dedupe (idempotency_key, action_type, state) VALUES ('a', 'x', 'bounced')`);
    const { code, err } = await load("--as", "s0-dedupe");
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/agent_action_dedupe, row 1: the state "bounced" does not say.*--status "bounced=done"/),
    ]);
    expect((await cli.program().store.stats()).total).toBe(0);
    const mapped = await load("--as", "s0-dedupe", "--status", "bounced=failed", "--json");
    expect(mapped.json).toMatchObject({ states: { failed: 1 } });
    await sql("ALTER TABLE agent_action_dedupe ADD COLUMN delivery_status TEXT");
    const other = await load("--as", "s0-dedupe", "--status", "bounced=failed");
    expect([other.code, other.err]).toEqual([
      2,
      expect.stringMatching(/the column delivery_status looks like a status/),
    ]);
  });

  it("from SQLite, read-only, and from a CSV dump: the same records", async () => {
    const cli = cliLedger();
    const path = join(cli.folder, "app.db");
    const db = new DatabaseSync(path);
    db.exec(
      "CREATE TABLE agent_action_dedupe (idempotency_key TEXT PRIMARY KEY, action_type TEXT, created_at TEXT, result TEXT)",
    );
    db.exec(`INSERT INTO agent_action_dedupe VALUES
      ('sent', 'send_email', '2026-01-15T06:00:00Z', '{"message_id":"m-1"}'), ('claimed', 'send_email', '2026-01-15 06:00:00', NULL)`);
    const before = db.prepare("PRAGMA data_version").all();
    const { json } = await cli.run(["import", "--as", "s0-dedupe", "--from", "sqlite:app.db", "--json"]);
    expect(json).toMatchObject({ rows: 2, states: { confirmed: 1, unknown: 1 } });
    expect(db.prepare("PRAGMA data_version").all()).toEqual(before);
    db.close();
    writeFileSync(
      join(cli.folder, "dump.csv"),
      'idempotency_key,action_type,created_at,result\nsent,send_email,2026-01-15 06:00:00+00,"{""message_id"": ""m-1""}"\nclaimed,send_email,2026-01-15 06:00:00+00,\n4711,send_email,2026-01-15 06:00:00+00,{}\n',
    );
    const dump = await cli.run(["import", "--as", "s0-dedupe", "dump.csv", "--json"]);
    expect(dump.json).toMatchObject({ imported: 1, known: 2 });
    // The column is text, whatever it looks like.
    expect(await cli.program().once("send_email", ["4711"], () => "again")).toEqual({});
  });
});

describe("D8: s0-outbox", () => {
  const ROWS = `INSERT INTO outbox (idempotency_key, action_type, payload, status, attempts, next_attempt_at, completed_at) VALUES
    ('sent', 'send_email', '{"to":"a@x","body":"1"}', 'sent', 1, now(), now()),
    ('due', 'send_email', '{"to":"b@x","body":"2"}', 'pending', 0, now() - interval '5 days', NULL),
    ('tried', 'send_email', '{"to":"c@x","body":"3"}', 'pending', 2, now(), NULL),
    ('later', 'send_email', '{"to":"d@x","body":"4"}', 'pending', 0, now() + interval '1 hour', NULL)`;

  it("pending rows are queued with their payload, and a worker sends each once", async () => {
    const { cli, load, sql } = await postgres(S0_OUTBOX, ROWS);
    const first = await load("--as", "s0-outbox");
    expect([first.code, first.err]).toEqual([0, ""]);
    expect(first.out).toMatch(/4 rows: 4 records imported \(1 confirmed, 3 pending\)/);
    expect(first.out).toMatch(/tried before \(attempts above 0\): 1\. .*--status pending=unknown/);
    expect(first.out).toMatch(/3 records wait for a worker\. Stop your old worker/);
    const [nt, sent] = [cli.program(), new Sent()];
    const send = mailer(nt, sent);
    // The agent asks for the same mail again, by a call and by the outbox, with a reworded body.
    expect(await send.enqueue({ idempotency_key: "due", to: "b@x", body: "reworded" })).toMatchObject({
      created: false,
    });
    expect(await send.attempt({ idempotency_key: "sent", to: "a@x" })).toMatchObject({ replayed: true });
    await nt.worker().drain();
    await nt.worker().drain();
    expect(sent.all).toHaveLength(2);
    expect(sent.all).toEqual(
      expect.arrayContaining([
        { to: "b@x", body: "2", idempotency_key: "due" },
        { to: "c@x", body: "3", idempotency_key: "tried" },
      ]),
    );
    expect(await send.status({ idempotency_key: "later" })).toMatchObject({ status: "queued" });
    // The old worker was not stopped, and has sent one that is queued here for later.
    await sql("UPDATE outbox SET status = 'sent', completed_at = now() WHERE idempotency_key = 'later'");
    const late = await load("--as", "s0-outbox", "--json");
    expect(late).toMatchObject({ code: 0, json: { imported: 0, strengthened: 1, known: 3 } });
    expect(await send.status({ idempotency_key: "later" })).toMatchObject({ status: "done" });
    await nt.worker().drain();
    expect(sent.all).toHaveLength(2);
  });

  it("a status of a worker of one's own is in doubt, and what failed keeps its payload for a retry", async () => {
    const { cli, load, sql } = await postgres(S0_OUTBOX);
    await sql(`INSERT INTO outbox (idempotency_key, action_type, payload, status) VALUES
      ('p', 'send_email', '{"to":"a@x"}', 'processing'), ('f', 'send_email', '{"to":"b@x"}', 'failed')`);
    expect((await load("--as", "s0-outbox", "--json")).json).toMatchObject({ states: { unknown: 1, failed: 1 } });
    const [nt, sent] = [cli.program(), new Sent()];
    const send = mailer(nt, sent);
    await nt.worker().drain();
    expect(sent.all).toEqual([]);
    for (const [verb, key] of [
      ["retry", "f"],
      ["resolve", "p"],
    ] as const) {
      const id = await send.keyOf({ idempotency_key: key });
      const flags = verb === "resolve" ? ["--not-done"] : [];
      expect((await cli.run([verb, id, ...flags, "--reason", "asked"])).code).toBe(0);
    }
    await nt.worker().drain();
    expect(sent.all).toHaveLength(2);
    expect(sent.all).toEqual(
      expect.arrayContaining([
        { to: "a@x", idempotency_key: "p" },
        { to: "b@x", idempotency_key: "f" },
      ]),
    );
  });

  it("sealed, with a secret and a tenant; --status pending=unknown; from a CSV dump", async () => {
    const cli = cliLedger();
    const env = { KEY: Buffer.alloc(32, 7).toString("base64") };
    const header = "id,idempotency_key,action_type,payload,status,attempts,next_attempt_at,completed_at";
    const row = (key: string) => `1,${key},send_email,"{""to"": ""${key}@x""}",pending,0,2026-01-15 06:00:00+00,`;
    writeFileSync(join(cli.folder, "a.csv"), `${header}\n${row("a")}\n`);
    writeFileSync(join(cli.folder, "b.csv"), `${header}\n${row("b")}\n`);
    const flags = ["--as", "s0-outbox", "--encrypt-env", "KEY", "--tenant", "acme", "--json"];
    expect((await cli.run(["import", "a.csv", ...flags], { env })).json).toMatchObject({ states: { pending: 1 } });
    const doubt = await cli.run(["import", "b.csv", ...flags, "--status", "pending=unknown"], { env });
    expect(doubt.json).toMatchObject({ states: { unknown: 1 } });
    const [nt, sent] = [cli.program({ tenant: "acme", encrypt: env.KEY }), new Sent()];
    mailer(nt, sent);
    expect(JSON.stringify((await nt.store.list({ limit: 9 })).items)).not.toMatch(/a@x/);
    await nt.worker().drain();
    expect(sent.all).toEqual([{ to: "a@x", idempotency_key: "a" }]);
  });

  it.each([
    ["a payload that is none", `'[1]'`, /the payload is not a JSON object, and a worker needs it/],
    ["another key inside the payload", `'{"idempotency_key":"b"}'`, /its payload has another idempotency_key \("b"\)/],
    [
      "a number that would change",
      `'{"id":12345678901234567890}'`,
      /12345678901234567890, which JavaScript cannot hold/,
    ],
  ])("refuses %s, and imports nothing", async (_, payload, message) => {
    const { cli, load, sql } = await postgres(S0_OUTBOX);
    await sql(
      `INSERT INTO outbox (idempotency_key, action_type, payload) VALUES ('ok', 'x', '{}'), ('a', 'x', ${payload})`,
    );
    const { code, err } = await load("--as", "s0-outbox");
    expect([code, err]).toEqual([1, expect.stringMatching(message)]);
    expect((await cli.program().store.stats()).total).toBe(0);
  });
});

describe("D8: s2-outbox", () => {
  it("completed is done, pending is queued, failed can be brought back", async () => {
    const { cli, load, sql } = await postgres(S2_OUTBOX);
    await sql(`INSERT INTO outbox (idempotency_key, operation, payload, status, last_error, created_at, completed_at) VALUES
      ('idem_v1_a', 'stripe_charge', '{"invoice_id":"inv_1","amount_jpy":2480}', 'completed', NULL, now(), now()),
      ('idem_v1_b', 'stripe_charge', '{"invoice_id":"inv_2","amount_jpy":980}', 'pending', NULL, now(), NULL),
      ('idem_v1_c', 'stripe_charge', '{"invoice_id":"inv_3","amount_jpy":5}', 'failed', 'card_declined', now(), NULL)`);
    expect((await load("--as", "s2-outbox", "--json")).json).toMatchObject({
      states: { confirmed: 1, pending: 1, failed: 1 },
      check: { repeats: 1, queued: 1, failed: 1, unguarded: 0 },
    });
    const charged: string[] = [];
    const nt = cli.program();
    const charge = nt.action("stripe_charge", {
      key: ["idempotency_key"],
      run: (input: { idempotency_key: string; invoice_id: string; amount_jpy: number }) => {
        charged.push(`${input.invoice_id} ${input.amount_jpy} ${input.idempotency_key}`);
        return { id: `ch_${charged.length}` };
      },
    });
    const input = { idempotency_key: "idem_v1_a", invoice_id: "inv_1", amount_jpy: 2480 };
    expect(await charge.attempt(input)).toMatchObject({ status: "done", replayed: true });
    await nt.worker().drain();
    expect(charged).toEqual(["inv_2 980 idem_v1_b"]);
    const failed = await charge.status({ ...input, idempotency_key: "idem_v1_c" });
    expect(failed).toMatchObject({ status: "failed", error: { message: "card_declined" }, final: false });
  });

  it("with --actions: the program's own key and schema; a payload that its worker could not run is refused", async () => {
    const { cli, load, sql } = await postgres(S2_OUTBOX);
    await sql(`INSERT INTO outbox (idempotency_key, operation, payload, status, created_at) VALUES
      ('k1', 'charge', '{"invoice_id":"inv_1","amount_jpy":2480}', 'completed', now()),
      ('k2', 'charge', '{"invoice_id":"inv_2","amount_jpy":980}', 'pending', now())`);
    const from = (what: string) => JSON.stringify(import.meta.resolve(what));
    const program = `import { nevertwice } from ${from("nevertwice")};
       import { z } from ${from("zod")};
       const nt = nevertwice({ sweep: false, store: ${JSON.stringify(`sqlite:${cli.path}`)}, secret: "0123456789abcdef" });
       export const charge = nt.action("charge", {
         input: z.object({ invoice_id: z.string(), amount_jpy: z.number() }), key: ["invoice_id"], run: () => "ran" });`;
    // A module that was loaded once is not loaded again by its name, and the command closes its nevertwice().
    for (const name of ["first.mjs", "program.mjs", "second.mjs"]) writeFileSync(join(cli.folder, name), program);
    const { json, err } = await load("--as", "s2-outbox", "--actions", "./first.mjs", "--json");
    expect([err, json?.states]).toEqual(["", { confirmed: 1, pending: 1 }]);
    const { charge } = await import(join(cli.folder, "program.mjs"));
    const owner = charge[Symbol.for("nevertwice.owner")] as Nevertwice;
    expect(await charge.attempt({ invoice_id: "inv_1", amount_jpy: 2480 })).toMatchObject({ replayed: true });
    await owner.worker().drain();
    expect(await charge.status({ invoice_id: "inv_2", amount_jpy: 980 })).toMatchObject({
      status: "done",
      result: "ran",
    });
    await owner.close();
    await sql(
      `INSERT INTO outbox (idempotency_key, operation, payload, status, created_at) VALUES ('k3', 'charge', '{"invoice_id":"inv_3"}', 'pending', now())`,
    );
    const refused = await load("--as", "s2-outbox", "--actions", "./second.mjs");
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/row 3: charge: the input does not fit its schema at: amount_jpy/),
    ]);
  });

  it("with --actions: rows that have only the old key are refused where the action's key is several fields", async () => {
    const { cli, load, sql } = await postgres(S0_DEDUPE);
    await sql(`INSERT INTO agent_action_dedupe VALUES ('k1', 'send', now(), '{}')`);
    const from = JSON.stringify(import.meta.resolve("nevertwice"));
    const module = (key: string, name: string) =>
      writeFileSync(
        join(cli.folder, name),
        `import { nevertwice } from ${from};
         const nt = nevertwice({ sweep: false, store: ${JSON.stringify(`sqlite:${cli.path}`)} });
         export const send = nt.action("send", { key: ${key}, run: () => "ran" });`,
      );
    module('["lead", "template"]', "fields.mjs");
    module("(i) => [i.lead + i.template]", "function.mjs");
    const { code, err } = await load("--as", "s0-dedupe", "--actions", "./fields.mjs");
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/the key of send is 2 fields.*key: \(input\) => \[oldKey\(input\)\]/),
    ]);
    expect((await load("--as", "s0-dedupe", "--actions", "./function.mjs", "--json")).json).toMatchObject({
      imported: 1,
    });
  });
});

describe("D8: outbox rows that contradict", () => {
  const HEAD = "idempotency_key,operation,payload,status,attempts,created_at,completed_at";
  const row = (key: string, payload: object, more = "pending,0,2026-01-02T00:00:00Z,") =>
    `${key},send,"${JSON.stringify(payload).replaceAll('"', '""')}",${more}`;
  async function load(...rows: string[]) {
    const cli = cliLedger();
    writeFileSync(join(cli.folder, "outbox.csv"), [HEAD, ...rows, ""].join("\n"));
    return { cli, said: await cli.run(["import", "outbox.csv", "--as", "s2-outbox"]) };
  }

  it("two pending rows with one key and different payloads are refused; equal ones are one", async () => {
    const { cli, said } = await load(row("k", { to: "a" }), row("k", { to: "b" }));
    expect([said.code, said.err]).toEqual([1, expect.stringMatching(/different payloads: line 2 and line 3/)]);
    expect((await cli.program().store.stats()).total).toBe(0);
    expect((await load(row("k", { to: "a", n: 1 }), row("k", { n: 1, to: "a" }))).said.code).toBe(0);
  });

  it("a pending row with a time of its end is in doubt, not queued", async () => {
    const { cli, said } = await load(row("k", { to: "a" }, "pending,1,2026-01-02T00:00:00Z,2026-01-02T00:00:05Z"));
    expect(said.code).toBe(0);
    const { items } = await cli.program().store.list({ limit: 9, action: "send" });
    expect(items.map(({ record }) => [record.state, record.why])).toEqual([
      ["unknown", expect.stringContaining("with a time in completed_at: the row contradicts itself")],
    ]);
  });

  it("attempts that are no count, and __proto__ in a payload, are refused with the reason", async () => {
    const { said } = await load(row("k", { to: "a" }, "pending,x,2026-01-02T00:00:00Z,"));
    expect([said.code, said.err]).toEqual([1, expect.stringMatching(/the attempts "x" is not a count/)]);
    const bad = await load('k,send,"{""__proto__"":{}}",pending,0,2026-01-02T00:00:00Z,');
    expect([bad.said.code, bad.said.err]).toEqual([1, expect.stringMatching(/a member named "__proto__"/)]);
  });
});

describe("D8: s1-actions and s1-runs", () => {
  it("s1-actions: pending is claimed and may have happened; completed is done; failed may be tried again", async () => {
    const { cli, load, sql } = await postgres(S1_ACTIONS);
    await sql(`INSERT INTO agent_actions (idempotency_key, action_type, status, result) VALUES
      ('stripe_charge_ch_1', 'charge', 'completed', '{"id":"ch_1"}'), ('email_send_7_welcome', 'mail', 'pending', NULL),
      ('email_send_8_welcome', 'mail', 'failed', NULL)`);
    expect((await load("--as", "s1-actions", "--json")).json).toMatchObject({
      states: { confirmed: 1, unknown: 1, failed: 1 },
    });
    const nt = cli.program();
    expect(await nt.once("charge", ["stripe_charge_ch_1"], () => "again")).toEqual({ id: "ch_1" });
    await expect(nt.once("mail", ["email_send_7_welcome"], () => "again")).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
    });
    expect(await nt.once("mail", ["email_send_8_welcome"], () => "ran")).toBe("ran");
    // Whose code never wrote another status than pending, and takes a row for done, says so.
    const other = await postgres(S1_ACTIONS);
    await other.sql(`INSERT INTO agent_actions (idempotency_key, action_type) VALUES ('a', 'mail')`);
    const done = await other.load("--as", "s1-actions", "--status", "pending=done", "--json");
    expect(done.json).toMatchObject({ states: { confirmed: 1 } });
  });

  it("s1-runs: a workflow goes on after the steps that were completed", async () => {
    const { cli, load, sql } = await postgres(S1_RUNS);
    await sql(`INSERT INTO agent_runs (agent_name, action_type, idempotency_key, status, result, error_detail) VALUES
      ('leads', 'source', 'source_7', 'completed', '{"lead":7}', NULL), ('leads', 'enrich', 'enrich_7', 'failed', NULL, 'timeout'),
      ('leads', 'send', 'send_8', 'pending', NULL, NULL)`);
    expect((await load("--as", "s1-runs", "--json")).json).toMatchObject({
      states: { confirmed: 1, failed: 1, unknown: 1 },
    });
    const nt = cli.program();
    const ran: string[] = [];
    const step = (action: string, id: string) => nt.once(action, [id], () => void ran.push(id));
    expect(await step("source", "source_7")).toEqual({ lead: 7 });
    await step("enrich", "enrich_7");
    await step("send", "send_7");
    await expect(step("send", "send_8")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(ran).toEqual(["enrich_7", "send_7"]);
    const { items } = await nt.store.list({ states: ["unknown"], limit: 9 });
    expect(items.map(({ record }) => record.agent)).toEqual(["leads"]);
  });
});

describe("D8: s1-events", () => {
  it("processed events are records of the action webhook, keyed by source and event id", async () => {
    const { cli, load, sql } = await postgres(S1_EVENTS);
    await sql(
      `INSERT INTO stripe_events (event_id, event_type, payload) VALUES ('evt_1', 'checkout.session.completed', '{"id":"cs_1"}')`,
    );
    expect((await load("--as", "s1-events", "--json")).json).toMatchObject({ states: { confirmed: 1 } });
    const fulfilled: string[] = [];
    const nt = cli.program();
    const handle = nt.action("webhook", {
      key: (event: { source: string; id: string; payload: object }) => [event.source, event.id],
      run: (event) => void fulfilled.push(event.id),
    });
    await handle({ source: "stripe", id: "evt_1", payload: { id: "cs_1" } });
    await handle({ source: "stripe", id: "evt_2", payload: { id: "cs_2" } });
    await handle({ source: "github", id: "evt_1", payload: {} });
    expect(fulfilled).toEqual(["evt_2", "evt_1"]);
    expect((await load("--as", "s1-events", "--source", "shopify", "--json")).json).toMatchObject({ imported: 1 });
  });
});

describe("D8: s1-drip", () => {
  const ROWS = `INSERT INTO subscriber_automation
    (subscriber_id, welcome_sent, welcome_sent_at, social_proof_sent, social_proof_sent_at, first_dollar_sent, first_dollar_sent_at) VALUES
    ('new', false, NULL, false, NULL, false, NULL),
    ('one', true, now() - interval '3 days', false, NULL, false, NULL),
    ('gap', true, now(), false, NULL, true, now()),
    ('all', true, now(), true, now(), true, now())`;
  const STEPS = ["welcome", { step: "social_proof", after: "2d" }, { step: "first_dollar", after: "3d" }] as const;

  it("sent steps are not sent again; a subscriber goes on with the next, in its time", async () => {
    const { cli, load } = await postgres(S1_DRIP, ROWS);
    const { out, code } = await load("--as", "s1-drip", "--sequence", "onboarding");
    expect(code).toBe(0);
    expect(out).toMatch(/^4 rows: 6 records imported \(6 confirmed\)\./);
    expect(out).toMatch(/Steps that are still ahead: 5\. Call sequence\.start/);
    expect(out).toMatch(/come before one that was: 1\. A sequence goes forward only/);
    const nt = cli.program();
    const sent: string[] = [];
    const drip = nt.sequence<undefined>("onboarding", STEPS, {
      run: ({ subject, step }) => void sent.push(`${subject} ${step}`),
    });
    for (const subscriber of ["new", "one", "gap", "all"]) await drip.start(subscriber, undefined);
    await nt.worker().drain();
    expect(sent.sort()).toEqual(["new welcome", "one social_proof"]);
    expect((await drip.status("gap")).state).toBe("done");
    expect((await drip.status("all")).state).toBe("done");
    const again = await load("--as", "s1-drip", "--sequence", "onboarding", "--json");
    expect(again.json).toMatchObject({ imported: 0, strengthened: 0 });
  });

  it("from SQLite, with 0 and 1; --steps names the columns; a flag that is false with a time is in doubt", async () => {
    const cli = cliLedger();
    const db = new DatabaseSync(join(cli.folder, "app.db"));
    db.exec(`CREATE TABLE subscriber_automation (subscriber_id INTEGER, hello_done INTEGER, hello_done_at TEXT, proof_done INTEGER);
      INSERT INTO subscriber_automation VALUES (7, 1, '2026-01-15', 0), (8, 0, '2026-01-15', 0)`);
    db.close();
    const flags = ["--as", "s1-drip", "--from", "sqlite:app.db", "--sequence", "s"];
    const missing = await cli.run(["import", ...flags, "--steps", "hello"]);
    expect([missing.code, missing.err]).toEqual([2, expect.stringMatching(/there is no column hello_sent/)]);
    const steps = ["--steps", "hello_done=hello,proof_done=proof"];
    const { json, err } = await cli.run(["import", ...flags, ...steps, "--json"]);
    expect([err, json?.states]).toEqual(["", { confirmed: 1, unknown: 1 }]);
    const nt = cli.program();
    const sent: string[] = [];
    const drip = nt.sequence<undefined>("s", ["hello", "proof"], {
      run: ({ subject, step }) => void sent.push(subject + step),
    });
    await drip.start("7", undefined);
    await drip.start("8", undefined);
    await nt.worker().drain();
    expect(sent).toEqual(["7proof"]);
    expect((await drip.status("8")).state).toBe("held");
  });

  it("a table without a sequence's name, and a flag that is none, are refused", async () => {
    const { load, sql } = await postgres(S1_DRIP, ROWS);
    const { code, err } = await load("--as", "s1-drip");
    expect([code, err]).toEqual([2, expect.stringMatching(/--as s1-drip needs --sequence <name>/)]);
    // Taken for an ordinary table, every subscriber would count as done.
    const plain = await load("--table", "subscriber_automation", "--action", "x", "--key", "subscriber_id");
    expect([plain.code, plain.err]).toEqual([2, expect.stringMatching(/the column welcome_sent looks like a status/)]);
    await sql(
      "ALTER TABLE subscriber_automation ALTER welcome_sent DROP NOT NULL; UPDATE subscriber_automation SET welcome_sent = NULL",
    );
    const empty = await load("--as", "s1-drip", "--sequence", "s");
    expect([empty.code, empty.err]).toEqual([1, expect.stringMatching(/the welcome_sent is empty/)]);
  });
});

describe("D8: s4-ledger", () => {
  it("lines with key, ts and status: in_progress may have happened, no status is done", async () => {
    const cli = cliLedger();
    const lines = [
      { key: "a", ts: 1781827200.5, slug: "first-form" },
      { key: "b", ts: 1781827200, status: "in_progress", started: 1781827200 },
      { key: "b", ts: 1781827300, status: "done", slug: "second-form" },
      { key: "c", ts: 1781827200, status: "in_progress", started: 1781827200 },
      { key: "d", ts: 1781827200, status: "in_progress", started: 1781827200 },
      { key: "d", ts: 1781827300, status: "failed", error: "502 from the model" },
    ];
    writeFileSync(join(cli.folder, "action-ledger.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const line = ["import", "--as", "s4-ledger", "action-ledger.jsonl"];
    expect((await cli.run(line)).err).toMatch(/--as s4-ledger needs --action <name>/);
    const { json } = await cli.run([...line, "--action", "publish_blog_post", "--json"]);
    expect(json).toMatchObject({ rows: 6, states: { confirmed: 2, unknown: 1, failed: 1 } });
    const nt = cli.program();
    const published: string[] = [];
    const publish = (key: string) => nt.once("publish_blog_post", [key], () => void published.push(key));
    expect(await publish("a")).toEqual({ slug: "first-form" });
    expect(await publish("b")).toEqual({ slug: "second-form" });
    await expect(publish("c")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await publish("d");
    expect(published).toEqual(["d"]);
  });
});

describe("D8: redis-set-nx", () => {
  async function redis() {
    const url = await flushableRedisDb();
    const client = new Redis(url);
    onTestFinished(() => client.disconnect());
    const cli = cliLedger();
    const load = (...flags: string[]) =>
      cli.run(["import", "--as", "redis-set-nx", "--from", url, "--action", "send_email", ...flags]);
    return { client, cli, load, url };
  }

  it("lock and result: a result is done, a lock alone may have happened; both for as long as they have left", async () => {
    const { client, cli, load } = await redis();
    await client.set("email:lock:a", "claimed", "EX", 604_800, "NX");
    await client.set("email:result:a", "<1@example.com>", "EX", 604_800);
    await client.set("email:lock:b", "claimed", "EX", 300, "NX");
    await client.set("email:result:c", "<3@example.com>");
    await client.set("other:lock:d", "claimed");
    const keys = await client.keys("*");
    const dry = await load("--match", "email:*", "--dry-run");
    expect(dry.out).toMatch(
      /send_email \["b"\] \(text\): unknown, kept for (5m|\d+s) \(imported while its key was claimed/,
    );
    const { json, err } = await load("--match", "email:*", "--json");
    expect([err, json?.states]).toEqual(["", { confirmed: 2, unknown: 1 }]);
    expect((await client.keys("*")).sort()).toEqual(keys.sort());
    const nt = cli.program();
    const send = nt.action("send_email", { key: (i: { id: string }) => [i.id], run: (): unknown => "again" });
    expect(await send({ id: "a" })).toBe("<1@example.com>");
    expect(await send.attempt({ id: "b" })).toMatchObject({ status: "unknown" });
    expect(await send({ id: "c" })).toBe("<3@example.com>");
    expect(await send({ id: "d" })).toBe("again");
    const recordOf = async (id: string) => (await nt.store.read([await send.keyOf({ id })]))[0]?.record;
    const week = Date.now() + 604_800_000;
    expect(Math.abs(((await recordOf("a"))?.expiresAt ?? 0) - week)).toBeLessThan(120_000);
    expect((await recordOf("c"))?.expiresAt).toBeNull();
    expect((await load("--match", "email:*", "--json")).json).toMatchObject({ imported: 0, known: 3 });
    // The lock alone names its result too; and the sender has finished meanwhile.
    await client.set("email:result:b", "<2@example.com>");
    expect((await load("--match", "email:lock:*", "--json")).json).toMatchObject({ strengthened: 1 });
    expect(await send({ id: "b" })).toBe("<2@example.com>");
  });

  it("a cached result and an inflight lock", async () => {
    const { client, cli, load } = await redis();
    await client.set("idem:k1", '{"status":"sent","id":7}', "EX", 86_400);
    await client.set("idem:k2:inflight", "1", "EX", 300, "NX");
    expect((await load("--match", "idem:*", "--json")).json).toMatchObject({ states: { confirmed: 1, unknown: 1 } });
    const nt = cli.program();
    expect(await nt.once("send_email", ["k1"], () => "again")).toEqual({ status: "sent", id: 7 });
    await expect(nt.once("send_email", ["k2"], () => "again")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
  });

  it("a status in the JSON of a value is read: only what it calls done is done", async () => {
    const { client, cli, load } = await redis();
    const values = {
      pending: '{"status":"pending"}',
      running: '{"status":"in_progress","id":4}',
      failed: '{"state":"failed","error":"card declined"}',
      open: '{"completed":false}',
      torn: '{"status":"completed","failed":true}',
      empty: "",
      done: '{"status":"completed","failed":false,"id":7}',
      plain: '{"id":8}',
    };
    for (const [key, value] of Object.entries(values)) await client.set(`idem:${key}`, value, "EX", 86_400);
    await client.set("email:result:none", "");
    expect((await load("--match", "email:*", "--status", "x=done", "--json")).json).toMatchObject({
      states: { unknown: 1 },
    });
    const { json, err } = await load("--match", "idem:*", "--json");
    expect([err, json?.states]).toEqual(["", { confirmed: 2, unknown: 5, failed: 1 }]);
    const nt = cli.program();
    expect(await nt.once("send_email", ["done"], () => "again")).toMatchObject({ id: 7 });
    await expect(nt.once("send_email", ["open"], () => "again")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await client.set("http:a", '{"status":200}');
    const refused = await load("--match", "http:*");
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/the status 200 in the value of http:a.*--status "200=done"/),
    ]);
    expect((await load("--match", "http:*", "--status", "200=done", "--json")).json).toMatchObject({
      states: { confirmed: 1 },
    });
  });

  it("a bare mark does not say whether it happened: refused until somebody says so", async () => {
    const { client, cli, load } = await redis();
    for (let i = 0; i < 1_200; i += 1) client.set(`dedupe:${i}`, "1", "EX", 86_400);
    await client.set("dedupe:claimed", "claimed");
    const refused = await load("--match", "dedupe:*");
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/the value "1" of dedupe:.*--status "1=unknown"/),
    ]);
    expect((await cli.program().store.stats()).total).toBe(0);
    const { json } = await load("--match", "dedupe:*", "--status", "1=done", "--json");
    expect(json).toMatchObject({ rows: 1_201, states: { confirmed: 1_200, unknown: 1 }, check: { unguarded: 0 } });
    await client.set("token:a", "5f0c-lock-token");
    expect((await load("--match", "token:*")).code).toBe(1);
    expect((await load("--match", "token:*", "--status", "*=unknown", "--json")).json).toMatchObject({
      states: { unknown: 1 },
    });
  });

  it.each([
    [["--match", "*"], /a prefix and one star/],
    [[], /--match is missing/],
    [["--match", "email:result:*"], /has only what was finished.*--match 'email:\*'/],
    [["--match", "email:*", "--table", "x"], /--table is for a database with tables/],
  ])("refuses %j", async (flags, message) => {
    const { load } = await redis();
    const { code, err } = await load(...flags);
    expect([code, err]).toEqual([2, expect.stringMatching(message)]);
  });

  it("a key that is no string is refused with its name", async () => {
    const { client, load } = await redis();
    await client.hset("email:lock:h", "a", "b");
    const { code, err } = await load("--match", "email:*");
    expect([code, err]).toEqual([1, expect.stringMatching(/the key email:lock:h is a hash/)]);
  });
});

describe("D8: --from", () => {
  it("an empty table with other columns, and bytes in a key, are refused; an error names the key of its row", async () => {
    const cli = cliLedger();
    const db = new DatabaseSync(join(cli.folder, "app.db"));
    onTestFinished(() => db.close());
    const load = (...flags: string[]) => cli.run(["import", "--from", "sqlite:app.db", ...flags]);
    db.exec("CREATE TABLE agent_actions (id INTEGER, idempotency_key, action_type TEXT, created_at TEXT)");
    const empty = await load("--as", "s1-actions");
    expect([empty.code, empty.err]).toEqual([2, expect.stringContaining("agent_actions has no column status")]);
    db.exec("ALTER TABLE agent_actions ADD COLUMN status TEXT");
    db.exec("INSERT INTO agent_actions VALUES (1, x'00ff', 'send', '2026-01-01T00:00:00Z', 'completed')");
    const bytes = await load("--as", "s1-actions");
    expect([bytes.code, bytes.err]).toEqual([1, expect.stringMatching(/the column idempotency_key .* has bytes/)]);
    db.exec("UPDATE agent_actions SET idempotency_key = 'order-7', status = 'odd'");
    const odd = await load("--as", "s1-actions");
    expect([odd.code, odd.err]).toEqual([
      1,
      expect.stringMatching(
        /row 1: .*It is the row with idempotency_key "order-7", counted in the order of created_at/,
      ),
    ]);
  });

  it("a table of any form, by the flags of a file; numbers as drivers give them", async () => {
    const { cli, load, sql } = await postgres(
      "CREATE TABLE sends (lead_id BIGINT, seq INT, status TEXT, sent_at TIMESTAMPTZ, message_id TEXT)",
    );
    await sql(
      "INSERT INTO sends SELECT i, i, 'sent', '2026-01-15 08:00:00+02', 'm-' || i FROM generate_series(1, 2500) i",
    );
    const flags = ["--table", "sends", "--action", "send", "--fields", "lead_id,seq"];
    expect((await load(...flags, "--json")).json).toMatchObject({
      rows: 2_500,
      imported: 2_500,
      check: { unguarded: 0 },
    });
    const nt = cli.program();
    const send = nt.action("send", {
      key: ["lead_id", "seq"],
      run: (_: { lead_id: string; seq: number; body: string }): unknown => "again",
    });
    const outcome = await send.attempt({ lead_id: "2500", seq: 2_500, body: "Hello" });
    expect(outcome).toMatchObject({
      replayed: true,
      result: { message_id: "m-2500" },
      at: Date.parse("2026-01-15T06:00:00Z"),
    });
  });

  it("is read-only and in one snapshot: the table's own writers are not held up", async () => {
    const { load, sql } = await postgres(S1_ACTIONS);
    await sql(`INSERT INTO agent_actions (idempotency_key, action_type, status) VALUES ('a', 'mail', 'completed')`);
    await sql("BEGIN");
    await sql(`UPDATE agent_actions SET status = 'failed'`);
    expect((await load("--as", "s1-actions", "--json")).json).toMatchObject({ states: { confirmed: 1 } });
    await sql("ROLLBACK");
  });

  it.each([
    [
      ["--as", "s0-dedupe"],
      2,
      /--from has no table agent_action_dedupe\. The tables are: sends\. Name it with --table/,
    ],
    [["--table", "sends"], 2, /import needs --action <name>/],
    [["--action", "x"], 2, /--from needs --table <name>/],
    [
      ["--as", "s0-dedupe", "--table", "sends"],
      2,
      /the table sends has no column idempotency_key, which is needed\. The columns are: id/,
    ],
    [["--as", "s0-dedup", "--table", "sends"], 2, /Did you mean s0-dedupe/],
    [["--as", "s0-dedupe", "--fields", "a"], 2, /--fields and --as do not go together/],
    [["--as", "s0-dedupe", "--sequence", "a"], 2, /--sequence is for --as s1-drip/],
    [["--as", "s0-dedupe", "file.csv"], 2, /a file or --from a database, one of the two/],
  ])("%j", async (flags, expected, message) => {
    const { load, sql } = await postgres("CREATE TABLE sends (id INT)");
    await sql("INSERT INTO sends VALUES (1)");
    const { code, err } = await load(...flags);
    expect([code, err]).toEqual([expected, expect.stringMatching(message)]);
  });

  it("an address that does not answer, and one that is none; no password is shown", async () => {
    const cli = cliLedger();
    const run = (from: string) => cli.run(["import", "--as", "s0-dedupe", "--from", from]);
    const gone = await run("postgres://ana:hunter2@127.0.0.1:9/app");
    expect([gone.code, gone.err]).toEqual([
      1,
      expect.stringMatching(/--from could not be read: .*ECONNREFUSED.*Nothing was imported/),
    ]);
    expect(gone.err).not.toContain("hunter2");
    const other = await run("mysql://ana:hunter2@localhost/app");
    expect([other.code, other.err]).toEqual([2, expect.stringMatching(/it takes postgres:\/\//)]);
    expect(other.err).not.toContain("hunter2");
    expect((await run("sqlite:none.db")).err).toMatch(/there is no file .*none\.db/);
    const env = await cli.run(["import", "--as", "s0-dedupe", "--from-env", "NOPE"]);
    expect([env.code, env.err]).toEqual([2, expect.stringMatching(/--from-env NOPE: that variable is not set/)]);
  });
});
