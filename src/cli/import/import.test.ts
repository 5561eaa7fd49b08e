/** `nevertwice import`: ledgers that were kept by hand before. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { month } from "../../core/key/windows.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const file = (name: string, text: string) => writeFileSync(join(cli.folder, name), text);

describe("nevertwice import", () => {
  it("a plain ledger of lines: a line when it begins, a line when it ends; nothing of it is done again", async () => {
    file(
      "ledger.jsonl",
      [
        { key: "a1b2", ts: 1781827200.5, status: "in_progress", started: 1781827200 },
        { key: "a1b2", ts: 1781827300, status: "done", slug: "durable-agents" },
        { key: "c3d4", ts: 1781913600, slug: "no status is done" },
        { key: "e5f6", ts: 1781913600, status: "in_progress" },
        { key: "0789", ts: 1781913600, status: "failed", error: "502 from the model" },
      ]
        .map((line) => JSON.stringify(line))
        .join("\n"),
    );
    const imported = await cli.run(["import", "ledger.jsonl", "--action", "publish"]);
    expect(imported).toMatchObject({ code: 0, err: "" });
    expect(imported.out).toMatch(/^5 rows: 4 records imported \(2 confirmed, 1 unknown, 1 failed\)\.\n.*ls --doubt/s);
    const nt = cli.program();
    const ran: string[] = [];
    const publish = (key: string) => nt.once("publish", [key], () => void ran.push(key));
    expect(await publish("a1b2")).toEqual({ slug: "durable-agents" });
    expect(await publish("c3d4")).toEqual({ slug: "no status is done" });
    await expect(publish("e5f6")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await publish("0789");
    expect(ran).toEqual(["0789"]);
    const again = await cli.run(["import", "ledger.jsonl", "--action", "publish", "--json"]);
    expect(again.json).toMatchObject({ rows: 5, imported: 0, known: 4 });
  });

  it("a table as CSV, with quotes, line breaks and a column that names the action", async () => {
    file(
      "agent_actions.csv",
      'id,idempotency_key,action_type,status,note,result,created_at\r\n1,stripe_charge_9,charge,completed,"a, b\nc","{""id"":""ch_9""}",2026-01-15 06:00:00+00\r\n2,email_send_7_welcome,mail,pending,,,2026-01-15T06:00:00Z\r\n',
    );
    const { json } = await cli.run(["import", "agent_actions.csv", "--action-column", "action_type", "--json"]);
    expect(json).toMatchObject({ imported: 2, states: { confirmed: 1, unknown: 1 } });
    const charge = cli.program().once("charge", ["stripe_charge_9"], () => "again");
    expect(await charge).toEqual({ id: "ch_9" });
  });

  it("a table of processed events, as JSON: the event's id is the key, a row means done", async () => {
    file(
      "events.json",
      JSON.stringify([
        { event_id: "evt_1", event_type: "checkout", processed_at: "2026-01-15T06:00:00Z", payload: {} },
      ]),
    );
    await cli.run(["import", "events.json", "--action", "stripe"]);
    expect(await cli.program().once("stripe", ["evt_1"], () => "again")).toMatchObject({ event_type: "checkout" });
  });

  it("--fields: rows guard an action whose key is those fields", async () => {
    file("sends.csv", "lead_id,template,day,message_id\n7,welcome,2026-01-15,m-1\n");
    await cli.run([
      "import",
      "sends.csv",
      "--action",
      "send",
      "--fields",
      "lead_id,template,day",
      "--types",
      "lead_id=text",
    ]);
    const send = cli.program().action("send", {
      key: ["lead_id", "template", "day"],
      free: ["body"],
      run: (_: { lead_id: string; template: string; day: string; body: string }) => ({ message_id: "again" }),
    });
    const input = { lead_id: "7", template: "welcome", day: "2026-01-15", body: "Hello" };
    expect(await send.attempt(input)).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-1" } });
  });

  it("--fields: the check says for which calls it holds, and what the action has to have", async () => {
    file("sends.csv", "lead_id,template,message_id\na7,welcome,m-1\n");
    const { out } = await cli.run(["import", "sends.csv", "--action", "send", "--fields", "lead_id,template"]);
    expect(out).toMatch(/1 row would be a repeat for a call whose key is these fields: lead_id, template\./);
    expect(out).toMatch(/Its key has to be these fields, in this order.*--actions <module>/);
  });

  it("without a column result, the result is what is left of the row: no key, input, action, status or time", async () => {
    file("a.csv", "id,kind,state,sent_at,message_id\na7,mail,sent,2026-01-15T06:00:00Z,m-1\n");
    const flags = ["--key", "id", "--action-column", "kind", "--status-column", "state"];
    expect((await cli.run(["import", "a.csv", ...flags])).code).toBe(0);
    expect(await cli.program().once("mail", ["a7"], () => "again")).toEqual({ message_id: "m-1" });
    file("b.jsonl", '{"lead":"a7","when":1781827200,"message_id":"m-2"}');
    await cli.run(["import", "b.jsonl", "--action", "b", "--fields", "lead", "--time-column", "when"]);
    const send = cli.program().action("b", { key: ["lead"], run: (_: { lead: string }): unknown => "again" });
    expect(await send({ lead: "a7" })).toEqual({ message_id: "m-2" });
  });

  it("--dry-run writes nothing; --keep leaves out what is past it", async () => {
    file("l.jsonl", '{"key":"old","ts":1000000000}\n{"key":"new"}\n');
    const dry = await cli.run(["import", "l.jsonl", "--action", "x", "--keep", "30d", "--dry-run"]);
    expect(dry.out).toBe(
      '2 rows: 1 record would be imported (1 confirmed).\n  line 2: x ["new"] (text): confirmed, kept for 30d\n1 row is past --keep: left out. A sweep would remove its record at once, and a call would run.\n',
    );
    expect(existsSync(cli.path)).toBe(false);
    expect((await cli.program().store.stats()).total).toBe(0);
  });

  it("--keep leaves out no row whose window can still be asked for, and is said to be too short", async () => {
    const now = Date.now();
    const sentAt = (days: number) => new Date(now - days * 86_400_000).toISOString();
    const rows = [
      ["open", month(now), sentAt(20)],
      ["over", month(now - 400 * 86_400_000), sentAt(400)],
      ["done", "none", sentAt(20)],
    ];
    file("m.csv", `id,month,sent_at\n${rows.map((row) => row.join(",")).join("\n")}\n`);
    const flags = ["--fields", "id,month", "--types", "id=text,month=text", "--keep", "10d"];
    const { out, code } = await cli.run(["import", "m.csv", "--action", "invoice", ...flags]);
    expect(code).toBe(0);
    expect(out).toContain("3 rows: 1 record imported (1 confirmed).");
    expect(out).toContain("2 rows are past --keep: left out.");
    expect(out).toMatch(
      /KEEP_SHORTER_THAN_WINDOW: 2 keys have a window of up to 31d, and --keep is 10d\. .* Give --keep 62d/,
    );
    const program = cli.program();
    const invoice = program.action("invoice", {
      key: ["id", "month"],
      run: (_: { id: string; month: string }) => "again",
    });
    const outcome = await invoice.attempt({ id: "open", month: month(now) });
    expect(outcome).toMatchObject({ status: "done", replayed: true });
    const [stored] = await program.store.read([outcome.key]);
    expect(stored?.record.expiresAt).toBeGreaterThan(now + 31 * 86_400_000);
    const enough = await cli.run(["import", "m.csv", "--action", "paid", ...flags.slice(0, -1), "62d", "--json"]);
    expect(enough.json).toMatchObject({ imported: 2, past: 1, keepTooShort: null });
  });

  it("a file of lines whose first is none is said to be broken, not taken for a table without rows", async () => {
    file("l.jsonl", "not json\n");
    const { code, err } = await cli.run(["import", "l.jsonl", "--action", "x"]);
    expect([code, err]).toEqual([1, expect.stringMatching(/l\.jsonl: line 1 is not JSON\. Nothing was imported/)]);
  });

  it.each([
    [1, '{"key":"a"}\n{"key":', ["--action", "x"], /line 2 is not JSON. Nothing was imported/],
    [2, '{"key":"a"}', [], /import needs --action <name>, or --action-column/],
    [
      2,
      '{"id":"a"}',
      ["--action", "x"],
      /line 1: no column is named idempotency_key or key or event_id. The columns are: id. Name the one/,
    ],
    [1, '{"key":"a"}\n{"key":""}', ["--action", "x"], /line 2: the column key is missing or blank/],
    [
      1,
      '{"key":"a","status":"maybe"}',
      ["--action", "x"],
      /line 1: the status "maybe" does not say whether it happened/,
    ],
    [1, '{"key":"a","ts":"soon"}', ["--action", "x"], /the ts "soon" is not a time/],
    [1, "key,status\na,done,extra\n", ["--action", "x"], /line 2 has 3 fields, the header has 2/],
    [2, '{"key":"a"}', ["--action", "x", "--secret-env", "NOPE"], /--secret-env NOPE: that variable is not set/],
    [
      1,
      "key,sent_at\na,02/10/2026\n",
      ["--action", "x"],
      /line 2: the sent_at "02\/10\/2026" is not a time that can be read/,
    ],
    [
      2,
      "key,at\na,b\n",
      ["--action", "x", "--time-column", "when"],
      /no column when \(--time-column\). The columns are: key, at/,
    ],
    [2, "id,at\na,b\n", ["--action", "x", "--key", "nr"], /line 2: there is no column nr. The columns are: id, at/],
    [2, "key,at\na,b\n", ["--action-column", "kind"], /no column kind \(--action-column\). The columns are: key, at/],
    [
      2,
      "key\n2026-01-15\n",
      ["--action", "x", "--types", "key=date"],
      /key=date makes a Date.*--types key=text .*key=timestamp .*--actions <module>/,
    ],
  ])("exit code %i and what is wrong: %j", async (expected, text, flags, message) => {
    file("bad", text);
    const { code, err } = await cli.run(["import", "bad", ...flags]);
    expect(code).toBe(expected);
    expect(err).toMatch(message);
    expect((await cli.program().store.stats()).total).toBe(0);
  });

  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  it.each([
    [
      "lines.jsonl",
      `{"key":"a"}\n{"key":"b","result":${deep}}\n`,
      /lines\.jsonl: line 2: it is nested more than 256 levels/,
    ],
    [
      "array.json",
      `[\n{"key":"a"},\n{"key":"b","result":${deep}}\n]`,
      /array\.json: line 3: it is nested more than 256/,
    ],
    ["table.csv", `key,result\na,1\nb,${deep}\n`, /table\.csv, line 3: the result is nested more than 256 levels/],
  ])("a value that is nested too deeply is refused with its line: %s", async (name, text, message) => {
    file(name, text);
    const { code, err } = await cli.run(["import", name, "--action", "x"]);
    expect(code).toBe(1);
    expect(err).toMatch(message);
    expect((await cli.program().store.stats()).total).toBe(0);
  });

  it("with --encrypt-env: payloads are sealed, and the program with that key reads them", async () => {
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    file("l.jsonl", '{"lead":"ana","status":"done","result":{"id":"msg_1"}}\n');
    const line = ["import", "l.jsonl", "--action", "mail", "--fields", "lead", "--encrypt-env", "KEY"];
    expect((await cli.run(line)).err).toMatch(/--encrypt-env KEY: that variable is not set/);
    expect((await cli.run(line, { env: { KEY: "short" } })).code).toBe(2);
    expect((await cli.run(line, { env: { KEY: encrypt } })).code).toBe(0);
    const nt = cli.program({ encrypt });
    const { items } = await nt.store.list({ limit: 1 });
    expect(JSON.stringify(items)).not.toMatch(/ana|msg_1/);
    const mail = nt.action("mail", { key: ["lead"], run: async (_: { lead: string }) => ({ id: "again" }) });
    expect(await mail({ lead: "ana" })).toEqual({ id: "msg_1" });
  });
});
