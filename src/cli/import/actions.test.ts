/** `nevertwice import --actions`: keys, types, secret and encryption are the action's own. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";

let cli: CliLedger;
let modules = 0;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

/** The module's own actions, with the store of this test. */
function actions(body: string, options = ""): string {
  modules += 1;
  const name = `actions-${modules}.mjs`;
  const from = (what: string) => JSON.stringify(import.meta.resolve(what));
  writeFileSync(
    join(cli.folder, name),
    `import { nevertwice, day } from ${from("nevertwice")};
     import { z } from ${from("zod")};
     import * as v from ${from("valibot")};
     const nt = nevertwice({ sweep: false, onWarning: () => {}, store: ${JSON.stringify(`sqlite:${cli.path}`)}, ${options} });
     const run = () => "again";
     export const send = nt.action("send", { ${body}, run });`,
  );
  return `./${name}`;
}

async function load(csv: string, module: string, ...flags: string[]) {
  writeFileSync(join(cli.folder, "sends.csv"), csv);
  return cli.run(["import", "sends.csv", "--action", "send", "--actions", module, ...flags]);
}

/** What the module's own action answers, in a process that never saw the import. */
async function call(module: string, input: object, options: object = {}) {
  const { send } = await import(`${join(cli.folder, module)}?${Math.random()}`);
  try {
    return await send.attempt(input, options);
  } finally {
    await send[Symbol.for("nevertwice.owner")].close();
  }
}

const CSV =
  "id,lead_id,template,active,sent_at,message_id\n1,7,welcome,t,2026-01-15T23:30:00Z,m-1\n2,8,welcome,f,2026-01-15T23:30:00Z,m-2\n";

describe("import --actions", () => {
  it.each([
    [
      "zod, which names its fields",
      "input: z.object({ lead_id: z.number(), template: z.string(), active: z.boolean() }), key: ['lead_id', 'template']",
      [],
    ],
    [
      "valibot, with --fields",
      "input: v.object({ lead_id: v.number(), template: v.string(), active: v.boolean() }), key: ['lead_id', 'template']",
      ["--fields", "lead_id,template,active"],
    ],
    [
      "a schema that converts",
      "input: z.object({ lead_id: z.coerce.number(), template: z.string(), active: z.any().transform((a) => a === 't' || a === true) }), key: ['lead_id', 'template']",
      [],
    ],
    [
      "no schema, with --types",
      "key: ['lead_id', 'template']",
      ["--fields", "lead_id,template,active", "--types", "lead_id=number,active=boolean"],
    ],
  ])("types by %s: the program's own call is a repeat", async (_, body, flags) => {
    const module = actions(body);
    const { code, out, err } = await load(CSV, module, ...flags);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(/2 records imported \(2 confirmed\)\.\nChecked: 2 rows would be repeats\./);
    const done = await call(module, { lead_id: 7, template: "welcome", active: true });
    expect(done).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-1" } });
  });

  it("the key function is the action's: a window of a time", async () => {
    const module = actions(
      "input: z.object({ lead_id: z.number(), sent_at: z.date() }), free: ['sent_at'], key: (i) => [i.lead_id, day(i.sent_at)]",
    );
    expect(await load(CSV, module)).toMatchObject({ code: 0, err: "" });
    const sent_at = new Date("2026-01-15T01:00:00Z");
    expect(await call(module, { lead_id: 8, sent_at })).toMatchObject({
      replayed: true,
      result: { message_id: "m-2" },
    });
  });

  it("secret, encryption and tenant are those of the program", async () => {
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    const module = actions(
      "input: z.object({ lead_id: z.number() }), key: ['lead_id']",
      `secret: "0123456789abcdef0", encrypt: "${encrypt}"`,
    );
    expect((await load(CSV, module, "--tenant", "acme")).code).toBe(0);
    expect(await call(module, { lead_id: 7 }, { tenant: "acme" })).toMatchObject({ replayed: true });
    expect(await call(module, { lead_id: 7 }, { tenant: "other" })).toMatchObject({ replayed: false });
    const { items } = await cli.program().store.list({ limit: 10 });
    expect(JSON.stringify(items)).not.toMatch(/m-1/);
  });

  it("a column that the schema takes in two ways is refused with the flag to add", async () => {
    const body = "input: z.object({ lead_id: z.union([z.string(), z.number()]) }), key: ['lead_id']";
    expect(await load(CSV, actions(body))).toMatchObject({
      code: 2,
      err: expect.stringMatching(/--types lead_id=number or/),
    });
    const module = actions(body);
    expect((await load(CSV, module, "--types", "lead_id=number")).code).toBe(0);
    expect(await call(module, { lead_id: 7 })).toMatchObject({ replayed: true });
  });

  it.each([
    [
      "a value that the schema refuses",
      "lead_id\n7\nx\n",
      "input: z.object({ lead_id: z.number() }), key: ['lead_id']",
      [],
      /line 3: the column lead_id is "x", which is not a number/,
    ],
    [
      "a missing field",
      "lead\n7\n",
      "input: z.object({ lead_id: z.number() }), key: ['lead_id']",
      [],
      /line 2: send: the input does not fit its schema at: lead_id/,
    ],
    [
      "an empty field",
      "lead_id,note\n7,\n",
      "input: z.object({ lead_id: z.number(), note: z.string().nullable() })",
      [],
      /line 2: the column note is empty.*--empty null, --empty absent/,
    ],
    ["fields that nobody names", "lead_id\n7\n", "key: ['lead_id']", [], /Name them, for example: --fields/],
    [
      "another action",
      "lead_id\n7\n",
      "key: ['lead_id']",
      ["--action", "post"],
      /exports no action named "post"; it has: send/,
    ],
    [
      "a store besides the module's",
      "lead_id\n7\n",
      "key: ['lead_id']",
      ["--store", "memory:"],
      /--store and --actions do not go together/,
    ],
  ])("refuses %s", async (what, csv, body, flags, message) => {
    const { code, err } = await load(csv, actions(body), ...flags);
    // 1: the file is wrong. 2: the command line is.
    const expected = /schema refuses|missing field/.test(what) ? 1 : 2;
    expect([code, err]).toEqual([expected, expect.stringMatching(message)]);
  });

  it("--empty says what an empty field is", async () => {
    const module = actions("input: z.object({ lead_id: z.number(), note: z.string().nullable() })");
    expect((await load("lead_id,note\n7,\n", module, "--empty", "null")).code).toBe(0);
    expect(await call(module, { lead_id: 7, note: null })).toMatchObject({ replayed: true });
  });

  it("--dry-run shows ten rows with their key parts, types, state and keep, and makes no ledger", async () => {
    const module = actions(
      "input: z.object({ lead_id: z.number(), template: z.string() }), key: ['lead_id', 'template']",
    );
    const rows = Array.from({ length: 12 }, (_, i) => `${i},welcome,${i === 1 ? "failed" : "sent"}\n`).join("");
    const { out, code } = await load(`lead_id,template,status\n${rows}`, module, "--dry-run", "--keep", "90d");
    expect(code).toBe(0);
    expect(out).toMatch(/^12 rows: 12 records would be imported \(11 confirmed, 1 failed\)\.\n/);
    expect(out).toContain('line 2: send [0,"welcome"] (number, text): confirmed, kept for 90d\n');
    expect(out).toContain('line 3: send [1,"welcome"] (number, text): failed, kept for 90d\n');
    expect(out.match(/^ {2}line/gm)).toHaveLength(10);
    expect(existsSync(cli.path)).toBe(false);
  });

  it("rows that would not be repeats are named, and the exit code is 1: one key with two inputs", async () => {
    const module = actions("input: z.object({ lead_id: z.number(), amount: z.number() }), key: ['lead_id']");
    const { out, code } = await load("lead_id,amount\n7,100\n7,200\n8,5\n", module);
    expect(code).toBe(1);
    expect(out).toMatch(
      /2 rows would be repeats; 1 NOT guarded:\n {2}line 3: a record with the same key has other values for amount/,
    );
  });
});
