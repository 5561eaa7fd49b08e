/** D6: what the functions of `migrate --functions` write is what the library reads, and the other way round. */
import { type Nevertwice, nevertwice, notSent, rejected } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger, keyLike } from "../../../../test/support/cli.ts";
import { gate, until } from "../../../../test/support/gate.ts";
import { connect, type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";
import { sampleRecord } from "../../../testing/index.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());
const ledgerWith = (flags: readonly string[] = [], env = {}) => sqlLedger({ cli, url: database.url }, flags, env);

function program(ledger: SqlLedger, options: Partial<Parameters<typeof nevertwice>[0]> = {}): Nevertwice {
  const nt = nevertwice({ store: ledger.store(), sweep: false, ...options });
  onTestFinished(() => nt.close());
  return nt;
}

interface Mail {
  readonly to: string;
  readonly body?: string;
}

function mailer(nt: Nevertwice, sent: Mail[] = []) {
  const mail = nt.action("mail", {
    key: ["to"],
    free: ["body"],
    run: async (input: Mail) => {
      sent.push(input);
      return { id: `m-${input.to}` };
    },
  });
  return { mail, sent };
}

describe("D6: enqueue", () => {
  it("D6: names of the ledger's own are refused, and a second success with another result is a warning", async () => {
    const ledger = await ledgerWith();
    for (const name of ["nevertwice.line", "run:x", "job-plan:x"]) {
      await expect(ledger.call(`SELECT @.claim('${name}', '[1]')`)).rejects.toThrow(/the ledger's own/);
      await expect(ledger.call(`SELECT @.enqueue('${name}', '[1]')`)).rejects.toThrow(/the ledger's own/);
    }
    await ledger.call("SELECT @.claim('a', '[1]')");
    await ledger.call(`SELECT @.settle_claim('a', '[1]', 'done', '{"id":1}')`);
    const client = await connect(database.url);
    const notices: string[] = [];
    client.on("notice", ({ message = "" }) => notices.push(message));
    const settle = (id: number) =>
      client.query(`SELECT ${ledger.schema}.settle_claim('a', '[1]', 'done', '{"id":${id}}') AS it`);
    await settle(1);
    expect(notices).toEqual([]);
    expect((await settle(2)).rows[0].it).toMatchObject({ status: "done", result: { id: 1 } });
    expect(notices).toEqual([expect.stringMatching(/^duplicate_detected: a: a second attempt/)]);
  });

  it("D6: notes of the ledger are no intents", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    await nt.once("welcome", [1], () => 1);
    await nt.once("welcome", [1], () => 1);
    const since = { key: keyLike("since1"), action: "job-since:digest", state: "confirmed" } as const;
    await nt.store.write([{ record: sampleRecord(since), expected: null }]);
    await nt.sweep();
    const { items } = await nt.store.list({ limit: 10 });
    const actions = items.map(({ record }) => record.action).sort();
    expect(actions).toEqual(["job-since:digest", "nevertwice.prevented", "welcome"]);
    expect(await ledger.rows("SELECT action FROM @.intents")).toEqual([{ action: "welcome" }]);
  });

  it("D6: a worker of the library runs what SQL enqueued, once, and a call finds the result", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const { mail, sent } = mailer(nt);
    const ask = () =>
      ledger.call(`SELECT @.enqueue('mail', '["ada"]', '{"to":"ada","body":"hi 😀"}', free => '{body}')`);
    const first = await ask();
    expect(first).toEqual({ key: expect.stringMatching(/^nt1_/), created: true, state: "pending" });
    expect(await ask()).toEqual({ ...first, created: false });
    expect(await mail.status({ to: "ada" })).toMatchObject({ status: "queued", key: first.key });
    expect(await mail.enqueue({ to: "ada", body: "hi 😀" })).toMatchObject({ created: false, key: first.key });
    await nt.worker().drain();
    expect(sent).toEqual([{ to: "ada", body: "hi 😀" }]);
    expect(await mail.attempt({ to: "ada", body: "reworded" })).toMatchObject({
      status: "done",
      replayed: true,
      differs: ["body"],
    });
    expect(await ask()).toEqual({ ...first, created: false, state: "confirmed", result: { id: "m-ada" } });
    expect(sent.length).toBe(1);
  });

  it("D6: what the library enqueued is a repeat in SQL, and another input is a conflict in both", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const order = nt.action("order", { key: (i: { id: number; amount: number }) => [i.id], run: async () => "ok" });
    const { key } = await order.enqueue({ id: 1, amount: 9.5 });
    expect(await ledger.call(`SELECT @.enqueue('order', '[1]', '{"amount":9.50,"id":1.0}')`)).toEqual({
      key,
      created: false,
      state: "pending",
    });
    const other = ledger.call(`SELECT @.enqueue('order', '[1]', '{"amount":10,"id":1}')`);
    await expect(other).rejects.toMatchObject({
      code: "NT012",
      detail: "KEY_CONFLICT",
      message: expect.stringMatching(/differs in: amount/),
    });
    await ledger.call(`SELECT @.enqueue('order', '[2]', '{"amount":1,"id":2}')`);
    expect(await order.attempt({ id: 2, amount: 2 })).toMatchObject({ status: "conflict", differs: ["amount"] });
    // Without `free` in SQL the single fields decide.
    const { mail } = mailer(nt);
    await ledger.call(`SELECT @.enqueue('mail', '["bob"]', '{"to":"bob","body":"one"}')`);
    expect(await mail.enqueue({ to: "bob", body: "two" })).toMatchObject({ created: false });
    await ledger.call(`SELECT @.enqueue('ping', '[1]')`);
    expect(await nt.once("ping", [1], () => "pong")).toBe("pong");
  });

  it("D6: rolls back with its transaction, and commits with it", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const { mail } = mailer(nt);
    for (const [end, status] of [
      ["ROLLBACK", "absent"],
      ["COMMIT", "queued"],
    ] as const) {
      await ledger.rows("BEGIN");
      await ledger.call(`SELECT @.enqueue('mail', '["ada"]', '{"to":"ada"}')`);
      await ledger.rows(end);
      expect(await mail.status({ to: "ada" })).toMatchObject({ status });
    }
  });

  it("D6: due times, deadlines, priority, keep, scope, version and tenant are as the library writes them", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const job = nt.action("job", { key: ["id"], keep: "2d", run: async (_: { id: number }) => 1 });
    const dueAt = new Date(Math.floor(Date.now() / 1000) * 1000 + 3_600_000);
    const expires = new Date(dueAt.getTime() + 60_000);
    const options = { dueAt, expires, priority: 3, scope: "run-7", version: 4, tenant: "acme" };
    const byLibrary = await job.enqueue({ id: 1 }, options);
    const bySql = await ledger.call(
      `SELECT @.enqueue('job', '[2]', '{"id":2}', due_at => $1, expires_at => $2, priority => 3, keep => '2 days', scope => 'run-7', version => 4, tenant => 'acme')`,
      [dueAt, expires],
    );
    const [one, two] = (await ledger.store().read([byLibrary.key, bySql.key])).map((stored) => stored?.record);
    const {
      key: _k,
      input: _i,
      fingerprint: _f,
      holder: _h,
      createdAt: _c,
      updatedAt: _u,
      ...rest
    } = one as NonNullable<typeof one>;
    expect(two).toMatchObject(rest);
    expect(two?.input).toEqual({ json: '{"id":2}' });
    const columns =
      "attention, attention_at, keep_ms, queued, attempt, fence, tries, lease_until, expires_at, state, fate";
    const rows = await ledger.rows(`SELECT ${columns} FROM @.records ORDER BY created_at`);
    expect(rows[0]).toEqual(rows[1]);
    // A high priority goes ahead of what became due before it.
    await ledger.call(`SELECT @.enqueue('job', '[3]', '{"id":3}')`);
    await ledger.call(`SELECT @.enqueue('job', '[4]', '{"id":4}', priority => 9)`);
    expect((await ledger.rows(`SELECT payload FROM @.take('{job}', 2)`)).map(({ payload }) => payload.id)).toEqual([
      4, 3,
    ]);
  });

  it("D6: forever unless keep says otherwise, and a repeat never shortens what is kept", async () => {
    const ledger = await ledgerWith();
    const enqueue = (keep: string | null) => ledger.call(`SELECT @.enqueue('a', '[1]', keep => $1::interval)`, [keep]);
    await enqueue("1 day");
    const kept = () => ledger.call("SELECT keep_ms::int FROM @.records");
    expect(await kept()).toBe(86_400_000);
    await enqueue(null);
    await enqueue("1 hour");
    expect(await kept()).toBe(86_400_000);
    await enqueue("2 days");
    expect(await kept()).toBe(2 * 86_400_000);
    await ledger.call(`SELECT @.enqueue('a', '[2]')`);
    expect(await ledger.call("SELECT count(*)::int FROM @.records WHERE keep_ms = -1")).toBe(1);
  });

  it("D6: a dead letter is queued anew; what was refused for good is not", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const trouble = { refuse: true };
    const act = nt.action("act", {
      key: ["id"],
      retry: { attempts: 1 },
      run: async ({ id }: { id: number; text?: string }) => {
        if (trouble.refuse) throw id === 1 ? notSent(new Error("down")) : rejected(new Error("no such address"));
        return "sent";
      },
    });
    await act.attempt({ id: 1, text: "x" });
    await act.attempt({ id: 2 });
    trouble.refuse = false;
    expect(await ledger.call(`SELECT @.enqueue('act', '[1]', '{"id":1,"text":"corrected"}')`)).toMatchObject({
      state: "pending",
    });
    expect(await ledger.call(`SELECT @.enqueue('act', '[2]', '{"id":2}')`)).toMatchObject({
      state: "failed",
      created: false,
    });
    expect((await nt.worker().drain()).done).toBe(1);
    expect(await act.attempt({ id: 1, text: "corrected" })).toMatchObject({ status: "done" });
  });

  it("D6: wrong options are refused with what to do", async () => {
    const ledger = await ledgerWith();
    const refused = (args: string, message: RegExp) =>
      expect(ledger.call(`SELECT @.enqueue('a', '[1]', ${args})`), args).rejects.toThrow(message);
    await refused("due_at => now(), delay => '1 s'", /say the same thing twice/);
    await refused("priority => 10", /from 0 to 9/);
    await refused("keep => '-1 day'", /keep: .* is not a duration/);
    await refused("delay => '0'", /delay: .* is not a duration/);
    await refused("due_at => 'infinity'", /take a moment/);
    await refused("payload => jsonb_build_object('x', repeat('x', 262144))", /262144 bytes/);
    await refused("payload => '{\"id\":12345678901234567890}'", /payload\.id: the number has more digits/);
    await refused("order_key => 'x'", /does not exist/);
    expect(await ledger.call("SELECT count(*)::int FROM @.records")).toBe(0);
  });
});

describe("D6: claim and settle", () => {
  it("D6: true for one, false for the rest, and the library's call gets the result", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const claim = (holder: string) => ledger.call(`SELECT @.claim('welcome', '["ada"]', holder => $1)`, [holder]);
    expect(await claim("one")).toBe(true);
    expect(await claim("two")).toBe(false);
    // The same attempt asks again, because the answer got lost.
    expect(await claim("one")).toBe(true);
    expect(await ledger.call(`SELECT @.status('welcome', '["ada"]')`)).toMatchObject({ status: "in_flight" });
    const done = await ledger.call(
      `SELECT @.settle_claim('welcome', '["ada"]', 'done', '{"id":"m-1"}', holder => 'one')`,
    );
    expect(done).toMatchObject({ status: "done", result: { id: "m-1" }, attempt: 1 });
    expect(await claim("one")).toBe(false);
    const runs: number[] = [];
    expect(await nt.once("welcome", ["ada"], () => runs.push(1))).toEqual({ id: "m-1" });
    expect(runs).toEqual([]);
    const { record } = (await ledger.store().read([done.key]))[0] as NonNullable<
      Awaited<ReturnType<ReturnType<SqlLedger["store"]>["read"]>>[0]
    >;
    expect(record).toMatchObject({
      state: "confirmed",
      attempt: 1,
      fence: 1,
      lease: null,
      expiresAt: null,
      history: [],
    });
  });

  it("D6: what the library has done, has under way or doubts is not claimed", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    await nt.once("a", [1], () => "first");
    expect(await ledger.call(`SELECT @.try_claim('a', '[1]')`)).toMatchObject({ status: "done", result: "first" });
    await expect(nt.once("a", [2], () => Promise.reject(new Error("timeout")))).rejects.toThrow();
    expect(await ledger.call(`SELECT @.try_claim('a', '[2]')`)).toMatchObject({
      status: "unknown",
      why: expect.any(String),
    });
    const [end, begun] = [gate(), gate()];
    const under = nt.once("a", [3], async () => {
      begun.open();
      await end.opened;
    });
    await begun.opened;
    expect(await ledger.call(`SELECT @.try_claim('a', '[3]')`)).toMatchObject({ status: "in_flight" });
    end.open();
    await under;
    expect(await ledger.call(`SELECT @.try_claim('a', '[3]', '{"x":1}')`)).toMatchObject({
      status: "conflict",
      differs: ["x"],
    });
    expect(await ledger.call(`SELECT @.status('a', '[9]')`)).toMatchObject({ status: "absent" });
  });

  it("D6: a claim in a transaction that rolls back is no claim", async () => {
    const ledger = await ledgerWith();
    await ledger.rows("BEGIN");
    expect(await ledger.call(`SELECT @.claim('a', '[1]')`)).toBe(true);
    await ledger.rows("ROLLBACK");
    expect(await ledger.call(`SELECT @.claim('a', '[1]')`)).toBe(true);
  });

  it("D6 G3: a holder that falls silent leaves a doubt, never a second claim", async () => {
    const ledger = await ledgerWith();
    expect(await ledger.call(`SELECT @.claim('a', '[1]', lease => '20 milliseconds', holder => 'dies')`)).toBe(true);
    await expect.poll(() => ledger.call(`SELECT @.status('a', '[1]') ->> 'status'`)).toBe("unknown");
    expect(await ledger.call(`SELECT @.claim('a', '[1]', holder => 'dies')`)).toBe(false);
    expect(await ledger.rows("SELECT state, status, why FROM @.intents")).toEqual([
      { state: "unknown", status: "unknown", why: expect.stringMatching(/lease ran out/) },
    ]);
    // Its success is welcome late; its failure is not.
    await expect(ledger.call(`SELECT @.settle_claim('a', '[1]', 'not-sent', holder => 'other')`)).rejects.toMatchObject(
      { code: "NT014" },
    );
    expect(await ledger.call(`SELECT @.settle_claim('a', '[1]', 'done', '1')`)).toMatchObject({ status: "done" });
    const history = (await ledger.store().list({ limit: 1 })).items[0]?.record.history ?? [];
    expect(history.map(({ event }) => event)).toEqual(["lapse", "late-success"]);
  });

  it("D6: failures are the attempt's own, and each outcome is the library's", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const claimed = async (part: number) =>
      ledger.call(`SELECT @.try_claim('a', $1::jsonb, '{"n":1}')`, [JSON.stringify([part])]);
    const settle = (
      { key, fence, holder }: { key: string; fence: number; holder: string },
      outcome: string,
      error = "smtp 421",
    ) =>
      ledger.call("SELECT @.settle($1, $2, fence => $3, holder => $4, error => $5)", [
        key,
        outcome,
        fence,
        holder,
        error,
      ]);
    const one = await claimed(1);
    await expect(ledger.call("SELECT @.settle($1, 'not-sent')", [one.key])).rejects.toThrow(/holder: it is needed/);
    await expect(settle({ ...one, holder: "x" }, "refused")).rejects.toMatchObject({ code: "NT014" });
    await expect(settle({ ...one, fence: 2 }, "refused")).rejects.toMatchObject({ code: "NT014" });
    await expect(settle(one, "cancelled")).rejects.toThrow(/outcome is 'cancelled'/);
    expect(await settle(one, "not-sent")).toMatchObject({
      status: "failed",
      final: false,
      error: { message: "smtp 421" },
    });
    // Told twice, it is the same answer.
    expect(await settle(one, "not-sent")).toMatchObject({ status: "failed", final: false });
    const again = await claimed(1);
    expect(again).toMatchObject({ status: "claimed", fence: 2, attempt: 2 });
    await expect(settle(one, "not-sent")).rejects.toMatchObject({ code: "NT014" });
    expect(await settle(again, "unknown")).toMatchObject({ status: "unknown" });
    expect(await settle(await claimed(2), "refused")).toMatchObject({ status: "failed", final: false });
    expect(await claimed(2)).toMatchObject({ status: "claimed", fence: 2 });
    expect(await settle(await claimed(3), "rejected")).toMatchObject({ status: "failed", final: true });
    expect(await claimed(3)).toMatchObject({ status: "failed", final: true });
    const act = nt.action("a", { key: () => [3], run: async (_: { n: number }) => 1 });
    expect(await act.status({ n: 1 })).toMatchObject({ status: "failed", final: true });
    const { items } = await ledger.store().list({ limit: 10 });
    expect(items.length).toBe(3);
    expect(items.every(({ record }) => record.history.every(({ at, attempt }) => at > 0 && attempt > 0))).toBe(true);
  });

  it("D6: heartbeats keep a lease, and a lost one is not kept", async () => {
    const ledger = await ledgerWith();
    const { key, holder, until } = await ledger.call(`SELECT @.try_claim('a', '[1]', lease => '1 minute')`);
    expect(await ledger.call("SELECT @.heartbeat($1, $2, lease => '1 hour')", [key, holder])).toBe(true);
    expect(await ledger.call(`SELECT (@.status('a', '[1]') ->> 'until')::float`)).toBeGreaterThan(until);
    expect(await ledger.call("SELECT @.heartbeat($1, 'other')", [key])).toBe(false);
    await ledger.call("SELECT @.settle($1, 'done')", [key]);
    expect(await ledger.call("SELECT @.heartbeat($1, $2)", [key, holder])).toBe(false);
    await expect(ledger.call("SELECT @.heartbeat($1, $2, tenant => 'acme')", [key, holder])).rejects.toThrow(
      /no record of the key/,
    );
  });

  it("D6: callers in SQL and in the library race for one intent, and one wins", async () => {
    const ledger = await ledgerWith();
    const clients = await Promise.all(Array.from({ length: 4 }, () => connect(database.url)));
    const programs = Array.from({ length: 3 }, () => program(ledger));
    for (let round = 0; round < 25; round += 1) {
      const effects: string[] = [];
      const bySql = clients.map(async (client) => {
        const { rows } = await client.query(`SELECT ${ledger.schema}.try_claim('race', $1::jsonb) AS it`, [
          `[${round}]`,
        ]);
        const { it } = rows[0];
        if (it.status !== "claimed") return;
        effects.push("sql");
        await client.query(`SELECT ${ledger.schema}.settle($1, 'done', '"done"', holder => $2)`, [it.key, it.holder]);
      });
      const byLibrary = programs.map((nt) => nt.once("race", [round], () => void effects.push("library")));
      await Promise.all([...bySql, ...byLibrary]);
      expect(effects.length).toBe(1);
    }
    expect(await ledger.call("SELECT count(*)::int FROM @.intents WHERE state = 'confirmed'")).toBe(25);
  });
});

describe("D6: take", () => {
  it("D6: hands out due work once, oldest first, to workers in SQL and the library's", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const { mail, sent } = mailer(nt);
    for (let i = 0; i < 20; i += 1) await mail.enqueue({ to: `u${i}` });
    const clients = await Promise.all([connect(database.url), connect(database.url)]);
    const taken: string[] = [];
    const bySql = clients.map(async (client) => {
      for (let looks = 0; looks < 5; looks += 1) {
        const { rows } = await client.query(`SELECT * FROM ${ledger.schema}.take('{mail}', 2)`);
        for (const { key, fence, holder, payload } of rows) {
          taken.push(payload.to);
          await client.query(`SELECT ${ledger.schema}.settle($1, 'done', '1', holder => $2, fence => $3)`, [
            key,
            holder,
            fence,
          ]);
        }
      }
    });
    await until(() => taken.length > 0, "the first batch");
    await Promise.all([...bySql, nt.worker().drain()]);
    await nt.worker().drain();
    expect([...taken, ...sent.map(({ to }) => to)].sort()).toEqual(
      Array.from({ length: 20 }, (_, i) => `u${i}`).sort(),
    );
    expect(taken.length).toBeGreaterThan(0);
    expect(await ledger.rows(`SELECT * FROM @.take('{mail}', 10)`)).toEqual([]);
  });

  it("D6: hands back with a pause, gives up after three days, and never sends what is past its deadline", async () => {
    const ledger = await ledgerWith();
    await ledger.call(`SELECT @.enqueue('a', '[1]', '{"n":1}')`);
    const [job] = await ledger.rows(`SELECT * FROM @.take('{a}')`);
    expect(job).toMatchObject({
      action: "a",
      payload: { n: 1 },
      attempt: 1,
      tries: 1,
      fence: 1,
      version: "1",
      tenant: "",
    });
    const back = await ledger.call("SELECT @.settle($1, 'not-sent', holder => $2, error => 'refused connection')", [
      job.key,
      job.holder,
    ]);
    expect(back).toMatchObject({ status: "queued", dueAt: expect.any(Number) });
    expect(back.givesUpAt).toBeGreaterThan(Date.now() + 2 * 86_400_000);
    expect(await ledger.rows(`SELECT * FROM @.take('{a}')`)).toEqual([]);
    await ledger.rows("UPDATE @.records SET attention_at = 0, doc = replace(doc, $1, '1')", [String(back.givesUpAt)]);
    const [late] = await ledger.rows(`SELECT * FROM @.take('{a}')`);
    expect(late).toMatchObject({ attempt: 2, tries: 2, fence: 2 });
    expect(await ledger.call("SELECT @.settle($1, 'not-sent', holder => $2)", [late.key, late.holder])).toMatchObject({
      status: "failed",
      final: false,
    });
    await ledger.call(`SELECT @.enqueue('a', '[2]', expires_at => now() - interval '1 second')`);
    expect(await ledger.rows(`SELECT * FROM @.take('{a}')`)).toEqual([]);
    expect(await ledger.call(`SELECT @.status('a', '[2]')`)).toMatchObject({
      status: "failed",
      error: { code: "EXPIRED" },
    });
  });

  it("D6: marked by hand, work that was not begun is taken again, and what was sent is a doubt", async () => {
    const ledger = await ledgerWith();
    await ledger.call(`SELECT @.enqueue('a', '[1]')`);
    const take = (lease: string) => ledger.rows(`SELECT * FROM @.take('{a}', 1, $1::interval, 'manual')`, [lease]);
    const [dies] = await take("10 milliseconds");
    await expect.poll(() => ledger.call(`SELECT @.status('a', '[1]') ->> 'status'`)).toBe("queued");
    expect(await ledger.call("SELECT @.sent($1, $2)", [dies.key, dies.holder])).toBe(false);
    const [lives] = await take("1 minute");
    expect(lives).toMatchObject({ key: dies.key, attempt: 2, fence: 2 });
    await expect(
      ledger.call("SELECT @.settle($1, 'unknown', holder => $2)", [lives.key, lives.holder]),
    ).rejects.toThrow(/there is no doubt/);
    expect(await ledger.call("SELECT @.sent($1, $2, lease => '10 milliseconds')", [lives.key, lives.holder])).toBe(
      true,
    );
    await expect.poll(() => ledger.call(`SELECT @.status('a', '[1]') ->> 'status'`)).toBe("unknown");
    expect(await take("1 minute")).toEqual([]);
  });

  it("D6: leaves what belongs to an order, or is sealed, to the library; one damaged row stops nobody", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const { mail, sent } = mailer(nt);
    await mail.enqueue({ to: "ordered" }, { orderKey: "x" });
    const sealing = program(ledger, { encrypt: Buffer.alloc(32, 7) });
    const secretMail = sealing.action("secret", { key: ["to"], run: async (_: Mail) => 1 });
    await secretMail.enqueue({ to: "sealed" });
    await ledger.call(`SELECT @.enqueue('mail', '["damaged"]', '{"to":"damaged"}', priority => 9)`);
    await ledger.rows(`UPDATE @.records SET doc = '["line":' WHERE input LIKE '%damaged%'`);
    await ledger.call(`SELECT @.enqueue('lines', '[1]', '{"line":"a field of this name"}')`);
    const taken = await ledger.rows(`SELECT * FROM @.take('{mail,secret,lines}', 10)`);
    expect(taken.map(({ action }) => action)).toEqual(["lines"]);
    expect(await ledger.call(`SELECT @.try_claim('mail', '["ordered"]', '{"to":"ordered"}')`)).toMatchObject({
      status: "queued",
    });
    await expect(ledger.call(`SELECT @.try_claim('secret', '["sealed"]', '{"to":"sealed"}')`)).rejects.toThrow(
      /with encrypt/,
    );
    await nt.worker({ actions: [mail] }).drain();
    expect(sent.map(({ to }) => to)).toContain("ordered");
  });

  it("D6: refuses what it cannot mean", async () => {
    const ledger = await ledgerWith();
    const refused = (args: string, message: RegExp) =>
      expect(ledger.rows(`SELECT * FROM @.take(${args})`), args).rejects.toThrow(message);
    await refused("NULL", /name the actions/);
    await refused("'{}'", /name the actions/);
    await refused("'{a}', 0", /most takes 1 to 1000/);
    await refused("'{a}', 1, '-1 s'", /lease: .* is not a duration/);
    await refused("'{a}', 1, mark => 'later'", /mark/);
  });
});

describe("D6: waking and sweeping", () => {
  it("D6: an idle worker of the library is woken by an enqueue in SQL, for its tenant too", async () => {
    const ledger = await ledgerWith();
    for (const tenant of ["", "acme"]) {
      const nt = program(ledger, tenant === "" ? {} : { tenant });
      const ran: string[] = [];
      nt.action("bell", { key: ["id"], run: async ({ id }: { id: string }) => ran.push(id) });
      const worker = nt.worker({ poll: "1h" });
      await worker.start();
      // Until the worker listens, nobody can wake it: what is enqueued then would wait for its next look, in an hour.
      let calls = 0;
      await expect
        .poll(
          async () => {
            const id = `${tenant}-${++calls}`;
            await ledger.call(
              `SELECT @.enqueue('bell', jsonb_build_array($1::text), jsonb_build_object('id', $1::text), tenant => $2)`,
              [id, tenant],
            );
            return ran.length;
          },
          { timeout: 20_000 },
        )
        .toBeGreaterThan(0);
      await worker.stop();
    }
  });

  it("D6 G4: sweep() makes silent holders visible and removes what is past its keep, as pg_cron would call it", async () => {
    const ledger = await ledgerWith();
    await ledger.call(`SELECT @.try_claim('silent', '[1]', lease => '5 milliseconds')`);
    await ledger.call(`SELECT @.try_claim('silent', '[2]', lease => '5 milliseconds')`);
    await ledger.rows(
      "UPDATE @.records SET created_at = created_at - 300000, attention = 'leased', attention_at = 0 WHERE key = (SELECT key FROM @.records LIMIT 1)",
    );
    const { key } = await ledger.call(`SELECT @.try_claim('short', '[1]', keep => '5 milliseconds')`);
    await ledger.call("SELECT @.settle($1, 'done')", [key]);
    const seen = { unknown: 0, removed: 0 };
    await expect
      .poll(async () => {
        const { unknown, removed } = await ledger.call("SELECT @.sweep()");
        seen.unknown += unknown;
        seen.removed += removed;
        return seen;
      })
      .toEqual({ unknown: 2, removed: 1 });
    const doubts = await ledger.store().list({ limit: 10, states: ["unknown"] });
    expect(doubts.items.map(({ record }) => record.history.at(-1)?.event)).toEqual(["lapse", "lapse"]);
    // Past its keep the intent may happen again, with a fence that goes on.
    expect(await ledger.call(`SELECT @.try_claim('short', '[1]')`)).toMatchObject({ status: "claimed", attempt: 1 });
    await expect(ledger.call("SELECT @.sweep(0)")).rejects.toThrow(/most takes/);
  });

  it("D6: a record past its keep that no sweep has removed yet begins anew", async () => {
    const ledger = await ledgerWith();
    const { key } = await ledger.call(`SELECT @.try_claim('short', '[1]', '{"n":1}', keep => '1 hour')`);
    await ledger.call("SELECT @.settle($1, 'done', '7')", [key]);
    await ledger.rows("UPDATE @.records SET expires_at = 1");
    expect(await ledger.call(`SELECT @.status('short', '[1]')`)).toMatchObject({ status: "absent" });
    expect(await ledger.rows("SELECT * FROM @.intents")).toEqual([]);
    expect(await ledger.call(`SELECT @.try_claim('short', '[1]', '{"n":2}')`)).toMatchObject({
      status: "claimed",
      attempt: 1,
      fence: 2,
    });
    await ledger.rows("UPDATE @.records SET state = 'confirmed', lease_until = NULL, expires_at = 1");
    expect(await ledger.call(`SELECT @.enqueue('short', '[1]', '{"n":3}')`)).toMatchObject({
      created: true,
      state: "pending",
    });
    const [stored] = await ledger.store().read([key]);
    expect(stored?.record).toMatchObject({
      state: "pending",
      fence: 2,
      attempt: 0,
      result: null,
      keepMs: null,
      input: { json: '{"n":3}' },
    });
  });
});

describe("D6: the view intents", () => {
  it("D6: shows what a person asks for, whoever wrote it", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    await nt.once("sent_by_program", ["x"], () => ({ id: 7 }));
    await ledger.call(
      `SELECT @.enqueue('queued_by_sql', '["y"]', '{"to":"y"}', delay => '1 hour', scope => 'run-1', version => 2)`,
    );
    const rows = await ledger.rows("SELECT * FROM @.intents ORDER BY created_at");
    expect(rows[0]).toMatchObject({
      agent: null,
      action: "sent_by_program",
      state: "confirmed",
      status: "done",
      attempts: 1,
      result: { id: 7 },
      created_at: expect.any(Date),
      sent_at: expect.any(Date),
      settled_at: expect.any(Date),
      error: null,
    });
    expect(rows[1]).toMatchObject({
      action: "queued_by_sql",
      state: "pending",
      status: "queued",
      attempts: 0,
      payload: { to: "y" },
      due_at: expect.any(Date),
      sent_at: null,
      settled_at: null,
      scope: "run-1",
      version: "2",
    });
    expect(rows.map(({ key }) => key)).toEqual(
      (await ledger.store().list({ limit: 5, order: "oldest" })).items.map(({ record }) => record.key),
    );
    // What jsonb cannot hold, was left out or is sealed shows nothing, and stops nobody.
    await nt.once("odd", [1], () => "\0");
    await nt.once("large", [1], () => "x".repeat(2_000_000));
    expect(await ledger.rows("SELECT action, result FROM @.intents WHERE action IN ('odd', 'large')")).toEqual([
      { action: "odd", result: null },
      { action: "large", result: null },
    ]);
    expect(await ledger.call(`SELECT @.status('large', '[1]')`)).toMatchObject({
      status: "done",
      result: null,
      resultOmitted: expect.stringMatching(/larger than/),
    });
  });
});
