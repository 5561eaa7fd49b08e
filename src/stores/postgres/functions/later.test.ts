/** What records got after the SQL functions were first made: retries with an end, failures without one, and changed keys. */
import { type Nevertwice, nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { connect, type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());
const ledgerWith = (flags: readonly string[] = []) => sqlLedger({ cli, url: database.url }, flags);
const DAY_MS = 86_400_000;

function program(ledger: SqlLedger): Nevertwice {
  const nt = nevertwice({ store: ledger.store(), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

async function take(ledger: SqlLedger) {
  await ledger.rows(
    `UPDATE @.records SET rev = rev + 1, attention_at = 0, fate = '{"dueAt":1}' WHERE state = 'pending'`,
  );
  const [job] = await ledger.rows("SELECT * FROM @.take('{a}')");
  return job;
}

const notSent = "SELECT @.settle($1, 'not-sent', holder => $2, error => 'refused', retry_after => $3::interval)";

describe("B6 D6: retries of taken work", () => {
  it("B6 D6: about a minute times the tries, three days from the first failed try, and then a truthful message", async () => {
    const ledger = await ledgerWith();
    await ledger.call(`SELECT @.enqueue('a', '[1]')`);
    const first = await take(ledger);
    const asked = Date.now();
    const back = await ledger.call(notSent, [first.key, first.holder, null]);
    expect(back).toMatchObject({ status: "queued", dueAt: expect.any(Number), givesUpAt: expect.any(Number) });
    expect(back.dueAt - asked).toBeGreaterThanOrEqual(30_000);
    expect(back.givesUpAt - back.dueAt).toBeGreaterThan(3 * DAY_MS - 61_000);
    // The library reads the same.
    const act = program(ledger).action("a", { key: () => [1], run: async (_: { n: number }) => 1 });
    expect(await act.status({ key: first.key })).toMatchObject({
      status: "queued",
      dueAt: back.dueAt,
      givesUpAt: back.givesUpAt,
    });
    // The end stays where the first failure put it, and a provider's own word is a floor.
    const second = await take(ledger);
    const later = await ledger.call(notSent, [second.key, second.holder, "1 day"]);
    expect(later.givesUpAt).toBe(back.givesUpAt);
    expect(later.dueAt).toBeGreaterThan(Date.now() + DAY_MS - 60_000);
    const third = await take(ledger);
    expect(await ledger.call(notSent, [third.key, third.holder, "4 days"])).toMatchObject({
      status: "failed",
      final: false,
      error: {
        message: expect.stringMatching(
          /^refused \(given up: the next try was asked for not before \d{4}-.*Z, and its tries end at .*Z\)$/,
        ),
      },
    });
  });

  it("B6 D6: given up when its time is over, and a claim or an enqueue begins with all of it", async () => {
    const ledger = await ledgerWith();
    await ledger.call(`SELECT @.enqueue('a', '[1]')`);
    const first = await take(ledger);
    const { givesUpAt } = await ledger.call(notSent, [first.key, first.holder, null]);
    await ledger.rows(`UPDATE @.records SET doc = replace(doc, $1, '1')`, [String(givesUpAt)]);
    const last = await take(ledger);
    expect(await ledger.call(notSent, [last.key, last.holder, null])).toMatchObject({
      status: "failed",
      final: false,
      error: { message: "refused (given up after 3d of tries, at attempt 2)" },
    });
    const terms = async () => (await ledger.store().read([first.key]))[0]?.record.terms;
    expect(await terms()).toEqual({ givesUpAt: 1 });
    const { holder } = await ledger.call(`SELECT @.try_claim('a', '[1]')`);
    expect(await terms()).toBeNull();
    await ledger.call("SELECT @.settle_claim('a', '[1]', 'refused', holder => $1)", [holder]);
    await ledger.call(`SELECT @.enqueue('a', '[1]')`);
    const again = await take(ledger);
    expect((await ledger.call(notSent, [again.key, again.holder, null])).givesUpAt).toBeGreaterThan(Date.now());
  });

  it("B6 D6: a deadline replaces the three days, and a direct claim has the pauses of a direct call", async () => {
    const ledger = await ledgerWith();
    const deadline = Date.now() + 3_600_000;
    await ledger.call(`SELECT @.enqueue('a', '[1]', expires_at => $1)`, [new Date(deadline)]);
    const job = await take(ledger);
    const back = await ledger.call(notSent, [job.key, job.holder, "2 hours"]);
    expect(back).toEqual({ status: "queued", key: job.key, dueAt: deadline });
    const { key, holder } = await ledger.call(`SELECT @.try_claim('b', '[1]')`);
    const failed = await ledger.call(notSent, [key, holder, null]);
    expect(failed).toMatchObject({ status: "failed", final: false, retryAt: expect.any(Number) });
    expect(failed.retryAt).toBeLessThanOrEqual(Date.now() + 1_000);
    // Nobody waits for it in the database: the next claim may have it at once.
    expect(await ledger.call(`SELECT @.claim('b', '[1]')`)).toBe(true);
  });
});

describe("D6: a deadline that is later than the record is kept", () => {
  it("D6: what is done, or waits, is known until then, however short its keep is", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    const job = nt.action("job", { key: ["id"], keep: "1h", run: async (_: { id: number }) => 1 });
    await job({ id: 1 });
    await job.enqueue({ id: 2 }, { delay: "1h" });
    const [settledAt] = await ledger.rows("SELECT settled_at FROM @.intents WHERE status = 'done'");
    const deadline = new Date(Date.now() + 30 * DAY_MS);
    for (const id of [1, 2])
      await ledger.call(
        "SELECT @.enqueue('job', jsonb_build_array($1::int), jsonb_build_object('id', $1::int), expires_at => $2)",
        [id, deadline],
      );
    const [done, queued] = await ledger.rows("SELECT * FROM @.intents ORDER BY created_at");
    expect(done).toMatchObject({ status: "done", expires_at: deadline, ...settledAt });
    expect(queued).toMatchObject({ status: "queued", expires_at: null });
    const [stored] = await ledger.store().read([queued.key]);
    expect(stored?.record.keepMs).toBeGreaterThan(29 * DAY_MS);
  });
});

describe("D6: failures that are kept until they are made good", () => {
  it("D6: have no end when SQL settles them, and a success has", async () => {
    const ledger = await ledgerWith();
    const store = ledger.store();
    for (const [part, outcome, kept] of [
      [1, "refused", true],
      [2, "rejected", true],
      [3, "done", false],
    ] as const) {
      const parts = `[${part}]`;
      const { key } = await ledger.call(`SELECT @.try_claim('a', $1::jsonb, keep => '1 hour', holder => 'h')`, [parts]);
      const [stored] = await store.read([key]);
      if (stored == null) throw new Error("it was claimed");
      const record = { ...stored.record, terms: { keptUntilDone: true } };
      await store.write([{ record, expected: stored.version }]);
      await ledger.call("SELECT @.settle($1, $2, holder => 'h')", [key, outcome]);
      const [row] = await ledger.rows("SELECT expires_at, keep_ms FROM @.records WHERE key = @._key_bytes($1)", [key]);
      expect(row, outcome).toEqual({ expires_at: kept ? null : expect.any(String), keep_ms: "3600000" });
      expect((await store.read([key]))[0]?.record.keepMs).toBe(3_600_000);
    }
    await ledger.rows("UPDATE @.records SET created_at = 1, expires_at = CASE WHEN expires_at IS NOT NULL THEN 2 END");
    expect(await ledger.call("SELECT @.sweep()")).toEqual({ unknown: 0, removed: 1 });
  });
});

describe("K10 D6: a changed key", () => {
  interface Mail {
    readonly lead: string;
    readonly to: string;
  }
  const before = { key: ["to", "lead"] } as const;
  const now = { key: ["lead", "to"], formerly: { key: ["to", "lead"], name: "post" } } as const;
  const payload = '{"lead":"l1","to":"ann"}';
  const run = async (_: Mail) => ({ id: "m1" });
  const mail: Mail = { lead: "l1", to: "ann" };

  it("K10 D6: what was done under the former key is done for SQL too, once the library has made the alias", async () => {
    const ledger = await ledgerWith();
    await program(ledger).action("post", { ...before, run })(mail);
    const former = await ledger.call(`SELECT @.key('post', '["ann","l1"]')`);
    await program(ledger).action("send", { ...now, run })(mail);
    expect(await ledger.call(`SELECT @.claim('send', '["l1","ann"]', $1::jsonb)`, [payload])).toBe(false);
    const done = { status: "done", key: former, result: { id: "m1" } };
    expect(await ledger.call(`SELECT @.try_claim('send', '["l1","ann"]', $1::jsonb)`, [payload])).toMatchObject(done);
    expect(await ledger.call(`SELECT @.status('send', '["l1","ann"]')`)).toMatchObject(done);
    expect(await ledger.call(`SELECT @.enqueue('send', '["l1","ann"]', $1::jsonb)`, [payload])).toEqual({
      key: former,
      created: false,
      state: "confirmed",
      result: { id: "m1" },
    });
    const other = '{"lead":"l1","to":"ann","x":1}';
    await expect(ledger.call(`SELECT @.enqueue('send', '["l1","ann"]', $1::jsonb)`, [other])).rejects.toMatchObject({
      code: "NT012",
    });
    // One intent, one row of the view.
    expect(await ledger.rows("SELECT action, key FROM @.intents")).toEqual([{ action: "post", key: former }]);
  });

  it("K10 D6: what is claimed, queued or in doubt behind an alias is one record for SQL, old processes and new ones", async () => {
    const ledger = await ledgerWith();
    const sent: string[] = [];
    const define = (options: typeof before | typeof now, name: string) => {
      const nt = program(ledger);
      const action = nt.action(name, { ...options, run: async ({ lead }: Mail) => void sent.push(lead) });
      return { nt, action };
    };
    const old = define(before, "post");
    const fresh = define(now, "send");
    const { key: former } = await fresh.action.enqueue(mail);
    expect(former).toBe(await ledger.call(`SELECT @.key('post', '["ann","l1"]')`));
    expect(await ledger.call(`SELECT @.status('send', '["l1","ann"]')`)).toMatchObject({
      status: "queued",
      key: former,
    });
    const claimed = await ledger.call(`SELECT @.try_claim('send', '["l1","ann"]', $1::jsonb, holder => 'h')`, [
      payload,
    ]);
    expect(claimed).toMatchObject({ status: "claimed", key: former, attempt: 1 });
    expect(await old.action.status(mail)).toMatchObject({ status: "in_flight" });
    // By the new key, the former one, and the alias's own key.
    const alias = await ledger.call(`SELECT @.key('send', '["l1","ann"]')`);
    expect(await ledger.call("SELECT @.heartbeat($1, 'h')", [alias])).toBe(true);
    expect(await ledger.call(`SELECT @.settle_claim('send', '["l1","ann"]', 'refused', holder => 'h')`)).toMatchObject({
      status: "failed",
      key: former,
    });
    // Queued anew, under the former key, where a worker of either definition finds it.
    expect(await ledger.call(`SELECT @.enqueue('send', '["l1","ann"]', $1::jsonb)`, [payload])).toMatchObject({
      key: former,
    });
    await old.nt.worker().drain();
    expect(sent).toEqual(["l1"]);
    expect(await fresh.action.status(mail)).toMatchObject({ status: "done" });
  });

  it("K10 D6: where the record behind an alias is gone, the intent begins there again, and a circle is refused", async () => {
    const ledger = await ledgerWith();
    const { action } = { action: program(ledger).action("send", { ...now, run }) };
    const { key: former } = await action.enqueue(mail);
    await ledger.rows("DELETE FROM @.records WHERE key = @._key_bytes($1)", [former]);
    expect(await ledger.call(`SELECT @.status('send', '["l1","ann"]')`)).toEqual({ status: "absent", key: former });
    expect(await ledger.call(`SELECT @.try_claim('send', '["l1","ann"]', $1::jsonb)`, [payload])).toMatchObject({
      status: "claimed",
      key: former,
    });
    expect((await ledger.store().read([former]))[0]?.record).toMatchObject({
      action: "post",
      state: "sent",
      version: 1,
    });
    expect(await action.attempt(mail, { wait: 0 })).toMatchObject({ status: "in_flight", key: former });
    await ledger.rows(
      `UPDATE @.records SET state = 'confirmed', lease_until = NULL, result = '!recorded under the key ' || $1 || ' of the action post' WHERE action = 'post'`,
      [former],
    );
    const claim = ledger.call(`SELECT @.claim('send', '["l1","ann"]', $1::jsonb)`, [payload]);
    await expect(claim).rejects.toMatchObject({
      code: "NT013",
      message: expect.stringMatching(/aliases of each other/),
    });
  });
});

describe("D6: functions of an earlier release", () => {
  it("D6: with other parameters or another result they are replaced, and who was allowed to call them still is", async () => {
    const ledger = await ledgerWith();
    const role = `r_${ledger.schema}`;
    const admin = await connect(database.adminUrl);
    await admin.query(`CREATE ROLE ${role}`);
    onTestFinished(() => void admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`).catch(() => {}));
    await ledger.rows("DROP FUNCTION @.claim; DROP FUNCTION @.take");
    const mark = "-- of nevertwice";
    await ledger.rows(
      `CREATE FUNCTION @.claim(action text, parts jsonb) RETURNS boolean LANGUAGE sql AS '${mark}\nSELECT true'`,
    );
    await ledger.rows(
      `CREATE FUNCTION @.take(actions text[], most integer DEFAULT 1, lease interval DEFAULT '5 minutes', mark text DEFAULT 'now', only_tenant text DEFAULT NULL) RETURNS TABLE (key text) LANGUAGE sql AS '${mark}\nSELECT NULL::text'`,
    );
    await ledger.rows(`REVOKE ALL ON FUNCTION @.claim FROM PUBLIC; REVOKE ALL ON FUNCTION @.take FROM PUBLIC;
      GRANT EXECUTE ON FUNCTION @.claim TO ${role} WITH GRANT OPTION; GRANT EXECUTE ON FUNCTION @.take TO ${role}`);
    const migrated = await cli.run(["migrate", "--functions", "--store", database.url, "--schema", ledger.schema]);
    expect(migrated).toMatchObject({ code: 0 });
    const found = await ledger.rows(
      `SELECT p.proname, p.pronargs > 4 AS whole, has_function_privilege($2, p.oid, 'EXECUTE') AS may,
        has_function_privilege($2, p.oid, 'EXECUTE WITH GRANT OPTION') AS may_grant, has_function_privilege('public', p.oid, 'EXECUTE') AS everybody
       FROM pg_proc p WHERE p.pronamespace = $1::regnamespace AND p.proname IN ('claim', 'take') ORDER BY 1`,
      [ledger.schema, role],
    );
    expect(found).toEqual([
      { proname: "claim", whole: true, may: true, may_grant: true, everybody: false },
      { proname: "take", whole: true, may: true, may_grant: false, everybody: false },
    ]);
  });
});
