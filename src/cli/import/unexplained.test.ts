/** `nevertwice import`: what a row does not say is not taken for a success. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

function load(rows: readonly object[], ...flags: string[]) {
  writeFileSync(join(cli.folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return cli.run(["import", "rows.jsonl", "--action", "send", ...flags]);
}

describe("D8: a column that looks like a status", () => {
  it.each([
    ["state", "claimed"],
    ["phase", "done"],
    ["delivery_status", "bounced"],
    ["is_sent", false],
    ["welcome_sent", true],
    ["processed", 0],
  ])("%s is refused until somebody says what it is", async (column, value) => {
    const { code, err } = await load([{ key: "a", [column]: value }]);
    expect(code).toBe(2);
    expect(err).toMatch(
      new RegExp(
        `line 1: the column ${column} looks like a status.*--status-column ${column}.*--ignore ${column}`,
        "s",
      ),
    );
    expect((await cli.program().store.stats()).total).toBe(0);
  });

  it("is refused beside a status column too: which of the two is right is not known", async () => {
    const { code, err } = await load([{ key: "a", status: "sent", state: "claimed" }]);
    expect([code, err]).toEqual([2, expect.stringMatching(/the column state looks like a status/)]);
  });

  it("--status-column reads it, --ignore leaves it out, and times and key fields are none", async () => {
    const doubt = await load([{ key: "a", state: "claimed" }], "--status-column", "state", "--json");
    expect(doubt.json).toMatchObject({ imported: 1, states: { unknown: 1 } });
    const done = await load([{ key: "b", state: "CA", sent_at: "2026-01-15" }], "--ignore", "state", "--json");
    expect(done.json).toMatchObject({ imported: 1, states: { confirmed: 1 } });
    expect((await load([{ lead: "a7", state: "CA" }], "--fields", "lead,state", "--json")).code).toBe(0);
  });

  it("--status says what a word means", async () => {
    const rows = [
      { key: "a", status: "bounced" },
      { key: "b", status: "Delivered to MX" },
      { key: "c", status: "parked" },
    ];
    const refused = await load(rows);
    expect([refused.code, refused.err]).toEqual([1, expect.stringMatching(/--status "bounced=done"/)]);
    const map = ["--status", "bounced=failed,delivered to mx=done", "--status", "parked=unknown"];
    expect((await load(rows, ...map, "--json")).json).toMatchObject({
      states: { failed: 1, confirmed: 1, unknown: 1 },
    });
    const wrong = await load(rows, "--status", "bounced=maybe");
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringMatching(/done, failed, unknown, not-done/)]);
  });
});

describe("D8: a row without a status", () => {
  it.each([
    ["a result column that is empty", { result: null }],
    ["a time of completion that is empty", { completed_at: null, created_at: "2026-01-15T06:00:00Z" }],
  ])("with %s may have happened, and is not a success", async (_, row) => {
    const { json } = await load([{ key: "a", ...row }], "--json");
    expect(json).toMatchObject({ imported: 1, states: { unknown: 1 } });
    await expect(cli.program().once("send", ["a"], () => "again")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
  });

  it("--ignore result: the column is empty in every row, and the rows are done", async () => {
    const { json } = await load([{ key: "a", result: null }], "--ignore", "result", "--json");
    expect(json).toMatchObject({ states: { confirmed: 1 } });
  });

  it("false is not done: no record, and a call runs", async () => {
    const rows = [
      { key: "a", sent: false },
      { key: "b", sent: true },
    ];
    const { out, code } = await load(rows, "--status-column", "sent");
    expect(code).toBe(0);
    expect(out).toMatch(/2 rows: 1 record imported \(1 confirmed\)\.\n1 row is not done/);
    const nt = cli.program();
    expect(await nt.once("send", ["a"], () => "ran")).toBe("ran");
    await expect(nt.once("send", ["b"], () => "ran")).rejects.toMatchObject({
      code: "RESULT_UNAVAILABLE",
      outcome: { status: "done", resultOmitted: "it was imported without a result" },
    });
  });

  it("--void: what the rows did returns nothing, so that a repeat gets undefined; each counts both as done", async () => {
    const rows = (key: string) => [{ key, sent: true }];
    await load(rows("a"), "--status-column", "sent", "--void");
    await load(rows("b"), "--status-column", "sent");
    const nt = cli.program();
    expect(await nt.once("send", ["a"], () => "ran")).toBeUndefined();
    const send = nt.action("send", { key: ["key"], run: async (_: { key: string }) => "ran" });
    expect(await send.each([{ key: "a" }, { key: "b" }])).toMatchObject({ replayed: 2, sent: 0, failed: 0 });
  });
});

describe("D8: nt.action on an imported key", () => {
  const mail = { idempotency_key: "k1", to: "ana@example.com", body: "Hello" };

  it("is a repeat, not a conflict: the row does not know the rest of the input", async () => {
    await load([{ key: "k1", status: "done", result: { id: "m-1" } }]);
    const nt = cli.program();
    const byField = nt.action("send", { key: ["idempotency_key"], run: (_: typeof mail): unknown => "again" });
    expect(await byField.attempt(mail)).toMatchObject({ status: "done", replayed: true, result: { id: "m-1" } });
    expect(await byField.attempt({ ...mail, to: "bo@example.com" })).toMatchObject({ replayed: true });
    expect(await byField.enqueue(mail)).toMatchObject({ state: "confirmed", created: false });
    expect(await byField.each([mail])).toMatchObject({ done: 1 });
  });

  it("--fields: fields that the rows have no column for are not compared", async () => {
    await load([{ lead: "a7", template: "welcome" }], "--fields", "lead,template");
    const send = cli.program().action("send", {
      key: ["lead", "template"],
      run: (_: { lead: string; template: string; body: string }): unknown => "again",
    });
    const outcome = await send.attempt({ lead: "a7", template: "welcome", body: "Hello" });
    expect(outcome).toMatchObject({ status: "done", replayed: true });
  });

  it("with encrypt and secret too", async () => {
    const env = { KEY: Buffer.alloc(32, 7).toString("base64"), SECRET: "0123456789abcdef" };
    writeFileSync(join(cli.folder, "rows.jsonl"), '{"key":"k1","status":"done"}\n');
    const line = ["import", "rows.jsonl", "--action", "send", "--encrypt-env", "KEY"];
    expect((await cli.run(line, { env })).code).toBe(0);
    const nt = cli.program({ encrypt: env.KEY });
    const send = nt.action("send", { key: ["idempotency_key"], run: (_: typeof mail): unknown => "again" });
    expect(await send.attempt(mail)).toMatchObject({ status: "done", replayed: true });
  });

  it("in doubt it stays in doubt for any input; failed it may be tried with any", async () => {
    await load([
      { key: "k1", status: "claimed" },
      { key: "k2", status: "failed" },
    ]);
    const send = cli.program().action("send", {
      key: ["idempotency_key"],
      doubt: { resendWithin: "24h" },
      run: (_: typeof mail): unknown => "ran",
    });
    expect(await send.attempt({ ...mail, idempotency_key: "k2" })).toMatchObject({ status: "done", replayed: false });
    // Sent again under the provider's key only with the bytes of the first send, which nobody knows.
    expect(await send.attempt(mail)).toMatchObject({ status: "unknown" });
  });
});

describe("D8: a late second import", () => {
  it("what the old program has sent meanwhile is not sent by a worker, also where it is queued for later", async () => {
    const nt = cli.program();
    const ran: unknown[] = [];
    const send = nt.action("send", {
      key: ["idempotency_key"],
      run: (input: typeof mail) => void ran.push(input),
    });
    const mail = { idempotency_key: "k1" };
    await send.enqueue(mail, { delay: "1h" });
    const { json, code } = await load([{ key: "k1", status: "sent" }], "--json");
    expect([code, json.strengthened]).toEqual([0, 1]);
    expect(await send.attempt(mail)).toMatchObject({ status: "done", replayed: true });
    expect(ran).toEqual([]);
  });

  it("what was never tried here and is under way there is in doubt, not sent", async () => {
    const nt = cli.program();
    const ran: unknown[] = [];
    const send = nt.action("send", {
      key: ["idempotency_key"],
      run: (input: { idempotency_key: string }) => void ran.push(input),
    });
    await send.enqueue({ idempotency_key: "k1" });
    const { json } = await load([{ key: "k1", status: "in_progress" }], "--json");
    expect(json).toMatchObject({ doubted: 1 });
    await nt.worker().drain();
    expect(ran).toEqual([]);
    expect(await send.status({ idempotency_key: "k1" })).toMatchObject({ status: "unknown" });
  });

  it("what had failed and was begun again there is in doubt; an older row changes nothing", async () => {
    const at = (hour: number) => `2026-01-15T0${hour}:00:00Z`;
    await load([{ key: "k1", status: "failed", ts: at(5) }]);
    const older = await load([{ key: "k1", status: "in_progress", ts: at(4) }], "--json");
    expect(older.json).toMatchObject({ doubted: 0, known: 1 });
    const newer = await load([{ key: "k1", status: "in_progress", ts: at(6) }], "--json");
    expect(newer.json).toMatchObject({ doubted: 1, known: 0 });
    const again = await load([{ key: "k1", status: "failed", ts: at(7) }], "--json");
    expect(again.json).toMatchObject({ known: 1 });
    await expect(cli.program().once("send", ["k1"], () => "ran")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
  });
});
