/**
 * D8: a mailer that guarded itself by a dedupe table and an outbox, at the moment of its author's worst night. Its own tables
 * are imported, and it goes on with nevertwice: the same agent loop, with retries, overlapping schedulers, people who click
 * twice, and a worker that dies. Its provider is the only one who counts.
 */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Nevertwice, nevertwice } from "nevertwice";
import pg from "pg";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { CliLedger } from "../support/cli.ts";

const SCHEMA = `
  CREATE TABLE agent_action_dedupe (
    idempotency_key TEXT PRIMARY KEY, action_type TEXT NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    result JSONB, state TEXT NOT NULL DEFAULT 'claimed', provider_message_id TEXT);
  CREATE TABLE outbox (
    id BIGSERIAL PRIMARY KEY, idempotency_key TEXT UNIQUE NOT NULL, action_type TEXT NOT NULL, payload JSONB NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending', attempts INT NOT NULL DEFAULT 0,
    next_attempt_at TIMESTAMPTZ NOT NULL DEFAULT now(), completed_at TIMESTAMPTZ);
  CREATE INDEX ON outbox (status, next_attempt_at) WHERE status = 'pending'`;

/** As the mailer has always made its keys. */
function mailKey(lead: string, template: string, day: string): string {
  return createHash("sha256").update(`${lead}:${template}:${day}`).digest("hex").slice(0, 32);
}

interface Mail {
  readonly idempotency_key: string;
  readonly to: string;
  readonly subject: string;
  readonly body: string;
}

const mailTo = (lead: string, body = "Are you still interested?"): Mail => ({
  idempotency_key: mailKey(lead, "followup_v2", "2025-01-15"),
  to: `${lead}@example.com`,
  subject: "Following up",
  body,
});

/** Counts what reaches a mailbox. */
class Provider {
  readonly delivered: string[] = [];
  send({ to }: Mail): { message_id: string } {
    this.delivered.push(to);
    return { message_id: `msg-${this.delivered.length}` };
  }
  to(lead: string): number {
    return this.delivered.filter((to) => to === `${lead}@example.com`).length;
  }
}

/** What the old program did, by its own statements. */
class OldMailer {
  readonly db: pg.Client;
  readonly provider: Provider;

  constructor(db: pg.Client, provider: Provider) {
    this.db = db;
    this.provider = provider;
  }

  async claim(lead: string): Promise<void> {
    const { idempotency_key } = mailTo(lead);
    await this.db.query("INSERT INTO agent_action_dedupe (idempotency_key, action_type) VALUES ($1, 'send_email')", [
      idempotency_key,
    ]);
  }

  async confirm(lead: string): Promise<void> {
    const { message_id } = this.provider.send(mailTo(lead));
    await this.db.query(
      "UPDATE agent_action_dedupe SET state = 'confirmed', provider_message_id = $2 WHERE idempotency_key = $1",
      [mailTo(lead).idempotency_key, message_id],
    );
  }

  async queue(lead: string): Promise<void> {
    const { idempotency_key, ...payload } = mailTo(lead);
    await this.db.query(
      "INSERT INTO outbox (idempotency_key, action_type, payload) VALUES ($1, 'send_email', $2) ON CONFLICT (idempotency_key) DO NOTHING",
      [idempotency_key, JSON.stringify(payload)],
    );
  }

  async drainOne(lead: string): Promise<void> {
    this.provider.send(mailTo(lead));
    await this.db.query("UPDATE outbox SET status = 'sent', completed_at = now() WHERE idempotency_key = $1", [
      mailTo(lead).idempotency_key,
    ]);
  }
}

let cli: CliLedger;
let provider: Provider;
let old: OldMailer;
let url: string;

beforeEach(async () => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
  onTestFinished(() => cli.close());
  ({ url } = await freshDatabase());
  const db = new pg.Client({ connectionString: url });
  await db.connect();
  onTestFinished(() => db.end());
  await db.query(SCHEMA);
  provider = new Provider();
  old = new OldMailer(db, provider);
});

/** The mailer with nevertwice, its ledger beside its tables. */
function mailer() {
  const nt: Nevertwice = nevertwice({ store: url, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  const send = nt.action("send_email", {
    key: ["idempotency_key"],
    free: ["body"],
    run: (mail: Mail) => provider.send(mail),
  });
  return { nt, send };
}

const imports = (as: string, ...flags: string[]) =>
  cli.run(["import", "--as", as, "--from-env", "DATABASE_URL", "--store", url, ...flags, "--json"], {
    env: { DATABASE_URL: url },
  });

describe("D8, S0: the mailer moves in at 3 AM", () => {
  it("what was sent is not sent again, what was pending is sent once, and what nobody knows is shown", async () => {
    // Sent and confirmed; claimed by a worker that died; sent by the outbox; waiting in it.
    await old.claim("sent");
    await old.confirm("sent");
    await old.claim("died");
    await old.queue("drained");
    await old.drainOne("drained");
    await old.queue("waiting");

    expect((await imports("s0-dedupe")).json).toMatchObject({
      states: { confirmed: 1, unknown: 1 },
      check: { unguarded: 0 },
    });
    expect((await imports("s0-outbox")).json).toMatchObject({
      states: { confirmed: 1, pending: 1 },
      check: { unguarded: 0 },
    });

    const [one, two] = [mailer(), mailer()];
    // The model's loop calls again after a timeout, with another wording; two schedulers overlap; somebody clicks.
    const leads = ["sent", "died", "drained", "waiting", "fresh"];
    const storm = [one, two, one].flatMap(({ send }, i) =>
      leads.map((lead) => send.attempt(mailTo(lead, `wording ${i}`))),
    );
    const queued = leads.filter((lead) => lead !== "died").map((lead) => two.send.enqueue(mailTo(lead)));
    await Promise.all([...storm, ...queued]);
    await Promise.all([one.nt.worker().drain(), two.nt.worker().drain()]);
    await one.nt.worker().drain();

    for (const lead of ["sent", "drained", "waiting", "fresh"]) expect([lead, provider.to(lead)]).toEqual([lead, 1]);
    expect(provider.to("died")).toBe(0);
    expect(await one.send(mailTo("sent"))).toEqual({ message_id: "msg-1" });

    // The one doubt is visible, with its reason, and a person settles it: then it is sent, once.
    const listed = await cli.run(["ls", "--doubt", "--store", url, "--json"]);
    expect(listed.json.records).toMatchObject([
      { action: "send_email", why: expect.stringMatching(/while it was claimed/) },
    ]);
    const { key } = listed.json.records[0];
    const resolved = ["resolve", key, "--not-done", "--reason", "not in the provider's log", "--store", url];
    expect((await cli.run(resolved)).code).toBe(0);
    await Promise.all([one.send(mailTo("died")), two.send(mailTo("died"))]);
    expect(provider.to("died")).toBe(1);
  });

  it("the old worker was not stopped: a late second import keeps what it sent from going out again", async () => {
    for (const lead of ["a", "b", "c"]) await old.queue(lead);
    expect((await imports("s0-outbox")).json).toMatchObject({ states: { pending: 3 } });
    await old.drainOne("a");
    await old.claim("d");
    expect((await imports("s0-outbox")).json).toMatchObject({ imported: 0, strengthened: 1, known: 2 });
    expect((await imports("s0-dedupe")).json).toMatchObject({ states: { unknown: 1 } });
    const { nt, send } = mailer();
    await nt.worker().drain();
    await old.confirm("d");
    expect((await imports("s0-dedupe")).json).toMatchObject({ strengthened: 1 });
    expect(await send.attempt(mailTo("d"))).toMatchObject({ status: "done", replayed: true });
    // Once more, with everything done: nothing changes, and nothing is made worse by the rows that still say pending.
    expect((await imports("s0-outbox")).json).toMatchObject({ imported: 0, strengthened: 0, doubted: 0, known: 3 });
    await nt.worker().drain();
    expect(provider.delivered.sort()).toEqual(["a", "b", "c", "d"].map((lead) => `${lead}@example.com`));
  });

  it("the same mail in both tables is one intent: done wins, in either order", async () => {
    await old.claim("both");
    await old.confirm("both");
    await old.queue("both");
    expect((await imports("s0-outbox")).json).toMatchObject({ states: { pending: 1 } });
    expect((await imports("s0-dedupe")).json).toMatchObject({ strengthened: 1 });
    // Claimed in one table and queued in the other: it may have been sent, so no worker sends it.
    await old.queue("half");
    await imports("s0-outbox");
    await old.claim("half");
    expect((await imports("s0-dedupe")).json).toMatchObject({ doubted: 1 });
    await mailer().nt.worker().drain();
    expect([provider.to("both"), provider.to("half")]).toEqual([1, 0]);
  });
});
