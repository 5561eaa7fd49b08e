/** A6 in SQL: who acted, and the provider's own id, as the library keeps them. */
import { randomBytes, randomInt } from "node:crypto";
import { type Nevertwice, type NevertwiceOptions, nevertwice, notSent } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";
import { idIn, providerId } from "../../../core/provider-id.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());
const ledgerWith = (flags: readonly string[] = []) => sqlLedger({ cli, url: database.url }, flags);

function program(ledger: SqlLedger, options: Partial<NevertwiceOptions> = {}): Nevertwice {
  const nt = nevertwice({ store: ledger.store(), sweep: false, onWarning: () => {}, ...options });
  onTestFinished(() => nt.close());
  return nt;
}

describe("A6 D6: who acted", () => {
  it("A6 D6: whoever enqueued it is on the record, a worker of the library does not replace it, and whoever settles it does", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger, { agent: "worker" });
    nt.action("mail", { key: ["to"], run: async ({ to }: { to: string }) => ({ id: `m-${to}` }) });
    const enqueue = (to: string, agent: string | null) =>
      ledger.call(
        "SELECT @.enqueue('mail', jsonb_build_array($1::text), jsonb_build_object('to', $1::text), agent => $2)",
        [to, agent],
      );
    await enqueue("ada", "planner");
    // A repeat by somebody else changes nothing.
    expect(await enqueue("ada", "sales")).toMatchObject({ created: false });
    await enqueue("bob", null);
    await nt.worker().drain();
    await enqueue("cy", "planner");
    const [job] = await ledger.rows("SELECT * FROM @.take('{mail}')");
    expect(job).toMatchObject({ agent: "planner", payload: { to: "cy" } });
    const settled = { key: job.key, holder: job.holder };
    await ledger.call("SELECT @.settle($1, 'done', '{\"id\": \"m-cy\"}', holder => $2, agent => 'crawler')", [
      settled.key,
      settled.holder,
    ]);
    expect(
      await ledger.rows("SELECT payload ->> 'to' AS to, agent, provider_id FROM @.intents ORDER BY created_at"),
    ).toEqual([
      { to: "ada", agent: "planner", provider_id: "m-ada" },
      { to: "bob", agent: null, provider_id: "m-bob" },
      { to: "cy", agent: "crawler", provider_id: "m-cy" },
    ]);
    const { items } = await nt.store.list({ limit: 9, agent: "crawler" });
    expect(items.map(({ record }) => record.history.map(({ event, agent }) => [event, agent]))).toEqual([
      [["taken-over", "planner"]],
    ]);
    expect((await nt.find({ providerId: "m-cy" })).map(({ agent }) => agent)).toEqual(["crawler"]);
  });

  it("A6 D6: claims by several agents, in SQL and in the library, name each attempt's", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger, { agent: "program" });
    const fails = nt.action("act", {
      key: ["id"],
      retry: { attempts: 1 },
      run: async (_: { id: number }) => {
        throw notSent(new Error("down"));
      },
    });
    await fails.attempt({ id: 1 });
    const claimed = await ledger.call(`SELECT @.try_claim('act', '[1]', '{"id":1}', agent => 'by-sql')`);
    expect(claimed).toMatchObject({ status: "claimed", attempt: 2 });
    const settle = "SELECT @.settle_claim('act', '[1]', 'not-sent', holder => $1, error => 'smtp 421')";
    await ledger.call(settle, [claimed.holder]);
    expect(await ledger.call(`SELECT @.claim('act', '[1]', '{"id":1}', agent => 'other')`)).toBe(true);
    await ledger.call(`SELECT @.settle_claim('act', '[1]', 'done', '{"ok":true}', agent => 'third')`);
    const [stored] = await ledger.store().read([claimed.key]);
    expect(stored?.record).toMatchObject({ agent: "third", state: "confirmed", providerId: null });
    expect(stored?.record.history.map(({ event, agent, attempt }) => [event, agent, attempt])).toEqual([
      ["not-sent", "program", 1],
      ["not-sent", "by-sql", 2],
      ["taken-over", "other", 3],
    ]);
    // Claimed by nobody in particular: nobody is named.
    await ledger.call(`SELECT @.claim('act', '[2]', agent => 'x', holder => 'h')`);
    await ledger.call(`SELECT @.settle_claim('act', '[2]', 'refused', holder => 'h')`);
    await ledger.call(`SELECT @.claim('act', '[2]')`);
    expect(await ledger.call(`SELECT agent FROM @.intents WHERE key = @.key('act', '[2]')`)).toBeNull();
  });

  it("A6 D6: a name that the library refuses is refused, before anything is written", async () => {
    const ledger = await ledgerWith();
    for (const agent of ["", " \u00a0", "a\nb", "a\u2028b", "\u001b[31m", "x".repeat(201)]) {
      const refused = { code: "NT013", message: expect.stringMatching(/^agent /) };
      await expect(ledger.call(`SELECT @.enqueue('a', '[1]', agent => $1)`, [agent])).rejects.toMatchObject(refused);
      await expect(ledger.call(`SELECT @.claim('a', '[1]', agent => $1)`, [agent])).rejects.toMatchObject(refused);
    }
    expect(await ledger.call(`SELECT @.claim('a', '[1]', holder => 'h', agent => $1)`, ["é😀".repeat(66)])).toBe(true);
    await expect(ledger.call(`SELECT @.settle_claim('a', '[1]', 'done', agent => ' ')`)).rejects.toMatchObject({
      code: "NT013",
    });
    expect(await ledger.call(`SELECT @.status('a', '[1]')`)).toMatchObject({ status: "in_flight" });
  });
});

describe("A6 D6: the provider's id", () => {
  it("A6 D6: is taken from a result by core's rule", async () => {
    const ledger = await ledgerWith();
    const text = (length: number) => "x".repeat(length);
    const results: unknown[] = [
      ...[
        "msg_1",
        " <a@b>\n",
        "<>",
        "two words",
        "",
        text(255),
        text(256),
        "😀".repeat(128),
        "\u00a0a\ufeff",
        "a\u0085b",
      ],
      ...[
        '{"id":"mail_1"}',
        '\n [{"id":1}]',
        '{"data":{"sid":"SM1"}}',
        "{not json",
        "\u00a0{}",
        `{"id":"a","x":"${text(66_000)}"}`,
      ],
      ...["[".repeat(10_000), `${'{"id":"deep","a":'.repeat(1)}${"[".repeat(300)}${"]".repeat(300)}}`],
      ...[`{"id":"flat","a":${"[".repeat(255)}${"]".repeat(255)},"b":"${"[".repeat(600)}"}`, '{"id":"q\\"[[\\\\"}'],
      ...[
        { id: 42 },
        { id: 1.5 },
        { id: -0 },
        { id: 2 ** 53 },
        { id: 2 ** 53 - 1 },
        { id: -(2 ** 53 - 1) },
        { id: 1e300 },
      ],
      ...[
        { id: "" },
        { id: "", sid: "s" },
        { id: null, ts: "1.2" },
        { id: {} },
        { id: true },
        { data: { id: "re_1" }, error: null },
      ],
      ...[
        { messageId: "b", id: "a" },
        { charge_id: "c" },
        { data: "text" },
        { data: [{ id: 1 }] },
        { id: "a b", sid: "s" },
      ],
      ...[[{ id: "a" }], 7, true, null, { id: "<<a>>" }, { id: "<a>b" }],
    ];
    const fields = ["id", "messageId", "MessageID", "sid", "ts", "data", "x"];
    for (let i = 0; i < 300; i += 1) {
      const value = () => [randomInt(1000), `i-${randomInt(99)}`, "", null, 0.5, { id: randomInt(9) }][randomInt(6)];
      results.push(Object.fromEntries(Array.from({ length: 3 }, () => [fields[randomInt(fields.length)], value()])));
    }
    for (const result of results) {
      const id = result === null ? undefined : idIn(JSON.parse(JSON.stringify(result)));
      const given = JSON.stringify(result);
      const found = await ledger.call("SELECT @._provider_id($1::jsonb)", [given]);
      expect(found, given.slice(0, 200)).toBe(id === undefined ? null : providerId(id));
    }
    for (const number of ["1e400", "1e-400", "9007199254740990.99999", "9007199254740991.9999999", "3.0", "-0.0"]) {
      const id = idIn(JSON.parse(`{"id":${number}}`));
      expect(await ledger.call("SELECT @._provider_id($1::jsonb)", [`{"id":${number}}`]), number).toBe(id ?? null);
    }
  });

  it("A6 D6: a late success sets it, a result that is too large to keep still names it, and failures have none", async () => {
    const ledger = await ledgerWith();
    const { key } = await ledger.call(`SELECT @.try_claim('a', '[1]', holder => 'h')`);
    await ledger.call("SELECT @.settle($1, 'unknown', holder => 'h')", [key]);
    await ledger.call(`SELECT @.settle($1, 'done', jsonb_build_object('id', 'ch_1', 'x', repeat('x', 1100000)))`, [
      key,
    ]);
    const read = () => ledger.rows("SELECT state, provider_id, result FROM @.intents ORDER BY created_at DESC LIMIT 1");
    expect(await read()).toEqual([{ state: "confirmed", provider_id: "ch_1", result: null }]);
    await ledger.call(`SELECT @.claim('a', '[2]', holder => 'h')`);
    await ledger.call(`SELECT @.settle_claim('a', '[2]', 'refused', '{"id":"ch_2"}', holder => 'h')`);
    expect(await read()).toMatchObject([{ state: "failed", provider_id: null }]);
  });

  it("A6 D6: nothing in plain is put beside what a program sealed", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger, { encrypt: randomBytes(32) });
    const act = nt.action("act", {
      key: ["id"],
      run: async (_: { id: number }) => {
        throw new Error("reset");
      },
    });
    const doubt = await act.attempt({ id: 1 });
    expect(doubt.status).toBe("unknown");
    await ledger.call("SELECT @.settle($1, 'done', '{\"id\":\"ch_1\"}')", [doubt.key]);
    const [stored] = await ledger.store().read([doubt.key]);
    expect(stored?.record).toMatchObject({ state: "confirmed", providerId: null });
  });
});
