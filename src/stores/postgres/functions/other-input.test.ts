/** D6: the same key with another payload in SQL, by the rule of core's core/conflict.ts. */
import { type Nevertwice, nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { connect, type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());
const ledgerWith = () => sqlLedger({ cli, url: database.url });

function program(ledger: SqlLedger): Nevertwice {
  const nt = nevertwice({ store: ledger.store(), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

const claim = (to: string) => `SELECT @.try_claim('mail', '["1"]', '{"id":"1","to":"${to}"}', holder => 'h')`;
const enqueue = (to: string) => `SELECT @.enqueue('mail', '["1"]', '{"id":"1","to":"${to}"}')`;
const settle = (as: string) =>
  `SELECT @.settle_claim('mail', '["1"]', '${as}', holder => 'h', error => 'invalid email')`;
const BY = { by: "ana", reason: "looked" };

describe("D6: another payload under the same key", () => {
  it("D6: after rejected: the same one gets the stored refusal, the corrected one is claimed", async () => {
    const ledger = await ledgerWith();
    await ledger.call(claim("wrong"));
    await ledger.call(settle("rejected"));
    expect(await ledger.call(claim("wrong"))).toMatchObject({ status: "failed", final: true });
    expect(await ledger.call(enqueue("wrong"))).toMatchObject({ created: false, state: "failed" });
    expect(await ledger.call(claim("ana"))).toMatchObject({ status: "claimed", attempt: 2, fence: 2 });
    expect(await ledger.call(claim("bob"))).toMatchObject({ status: "conflict", differs: ["to"] });
  });

  it("D6: after rejected: the corrected one is queued, and a worker of the library runs it", async () => {
    const ledger = await ledgerWith();
    await ledger.call(claim("wrong"));
    await ledger.call(settle("rejected"));
    expect(await ledger.call(enqueue("ana"))).toMatchObject({ created: false, state: "pending" });
    await expect(ledger.call(enqueue("bob"))).rejects.toMatchObject({ code: "NT012", detail: "KEY_CONFLICT" });
    expect(await ledger.call(claim("bob"))).toMatchObject({ status: "conflict" });
    const sent: string[] = [];
    const nt = program(ledger);
    nt.action("mail", { key: ["id"], run: async ({ to }: { id: string; to: string }) => void sent.push(to) });
    await nt.worker().tick();
    expect(sent).toEqual(["ana"]);
  });

  it("D6: in doubt: unknown with differs, and nothing is queued; resolved as not done, it is corrected", async () => {
    const ledger = await ledgerWith();
    const { key } = (await ledger.call(claim("wrong"))) as { key: string };
    await ledger.call(settle("unknown"));
    expect(await ledger.call(claim("ana"))).toMatchObject({ status: "unknown", differs: ["to"] });
    expect(await ledger.call(claim("wrong"))).not.toHaveProperty("differs");
    await expect(ledger.call(enqueue("ana"))).rejects.toMatchObject({ code: "NT015", detail: "OUTCOME_UNKNOWN" });
    // Queued by the same payload: its rest is a worker's business.
    await ledger.call(enqueue("wrong"));
    await program(ledger).resolve({ key }, { as: "not-done", ...BY });
    expect(await ledger.call(enqueue("ana"))).toMatchObject({ created: false, state: "pending" });
    const [row] = await ledger.rows("SELECT input FROM @.records");
    expect(JSON.parse(row?.input as string)).toMatchObject({ to: "ana" });
  });

  describe("G2: a late success of an input that was corrected since", () => {
    const asked = (to: string, holder: string) => claim(to).replace("'h'", `'${holder}'`);
    const settled = (as: string, more = "") => `SELECT @.settle_claim('mail', '["1"]', '${as}'${more})`;
    const late = [", holder => 'first', fence => 1", ", holder => 'first'", ", fence => 1"];
    const correctedSince = async () => {
      const ledger = await ledgerWith();
      const { key } = await ledger.call(asked("wrong", "first"));
      await ledger.call(settled("unknown", ", holder => 'first'"));
      await program(ledger).resolve({ key }, { as: "not-done", ...BY });
      expect(await ledger.call(asked("right", "second"))).toMatchObject({ status: "claimed", fence: 2 });
      return ledger;
    };

    it.each(late)("D6: while the corrected one runs: that one goes on, and has its own result%s", async (who) => {
      const ledger = await correctedSince();
      const client = await connect(database.url);
      const notices: string[] = [];
      client.on("notice", ({ message = "" }) => notices.push(message));
      const { rows } = await client.query(
        settled("done", `, '"to wrong"'${who}`).replaceAll("@.", `${ledger.schema}.`),
      );
      expect(rows).toMatchObject([{ settle_claim: { status: "in_flight" } }]);
      expect(notices).toEqual([
        expect.stringMatching(/^duplicate_detected: mail: an attempt with the input before its correction/),
      ]);
      expect(await ledger.call(settled("done", `, '"to right"', holder => 'second'`))).toMatchObject({
        status: "done",
        result: "to right",
      });
      expect(await ledger.call(asked("right", "x"))).toMatchObject({ status: "done", result: "to right" });
      expect(await ledger.call(asked("wrong", "x"))).toMatchObject({ status: "conflict", differs: ["to"] });
    });

    it.each(late)("D6: while the corrected one is in doubt: it stays so%s", async (who) => {
      const ledger = await correctedSince();
      await ledger.call(settled("unknown", ", holder => 'second'"));
      expect(await ledger.call(settled("done", `, '"to wrong"'${who}`))).toMatchObject({ status: "unknown" });
    });

    it("D6: after the corrected one was refused: the record is about what happened", async () => {
      const ledger = await correctedSince();
      await ledger.call(settled("refused", ", holder => 'second'"));
      const done = { status: "done", result: "to wrong" };
      expect(await ledger.call(settled("done", `, '"to wrong"', fence => 1`))).toMatchObject(done);
      expect(await ledger.call(asked("wrong", "x"))).toMatchObject(done);
      expect(await ledger.call(asked("right", "x"))).toMatchObject({ status: "conflict", differs: ["to"] });
    });

    it("D6: however long the history has become since", async () => {
      const ledger = await correctedSince();
      for (let time = 0; time < 35; time += 1) {
        await ledger.call(settled("not-sent", ", holder => 'second'"));
        await ledger.call(asked("right", "second"));
      }
      const [stored] = (await ledger.store().list({ limit: 1 })).items;
      const { history = [] } = stored?.record ?? {};
      expect(history.map(({ event }) => event)).toEqual(["corrected", ...Array(29).fill("not-sent")]);
      expect(await ledger.call(settled("done", `, '"to wrong"', fence => 1`))).toMatchObject({ status: "in_flight" });
      expect(await ledger.call(settled("done", `, '"to right"', holder => 'second'`))).toMatchObject({
        result: "to right",
      });
    });
  });

  it("D6: of an imported row only what it knows is compared", async () => {
    const ledger = await ledgerWith();
    const { key } = (await ledger.call(claim("ana"))) as { key: string };
    await ledger.call(`SELECT @.settle_claim('mail', '["1"]', 'done', '"m1"', holder => 'h')`);
    // As the import writes it: the digest of all guarded fields is not known, and of the fields only one is.
    await ledger.rows(
      `UPDATE @.records SET doc = '["*",null,{"id":' || (doc::json -> 2 -> 'id')::text || '}]' WHERE state = 'confirmed'`,
    );
    expect(await ledger.call(claim("bob"))).toMatchObject({ status: "done", key, result: "m1" });
    expect(await ledger.call(`SELECT @.try_claim('mail', '["1"]', '{"id":"2","to":"bob"}')`)).toMatchObject({
      status: "conflict",
      differs: ["id"],
    });
  });

  it("D6: a result that was not kept, and an effect that has none", async () => {
    const ledger = await ledgerWith();
    const nt = program(ledger);
    for (const [to, more] of [
      ["none", { result: undefined }],
      ["lost", {}],
    ] as const) {
      const asked = `SELECT @.try_claim('send', '["${to}"]', holder => 'h')`;
      const { key } = (await ledger.call(asked)) as { key: string };
      await ledger.call(`SELECT @.settle_claim('send', '["${to}"]', 'unknown', holder => 'h')`);
      await nt.resolve({ key }, { as: "done", ...BY, ...more });
      const status = (await ledger.call(asked)) as object;
      expect(status).toMatchObject({ status: "done", result: null });
      expect("resultOmitted" in status).toBe(to === "lost");
    }
  });
});
