import type { Command } from "../command.ts";
import { PRESETS } from "../import/presets.ts";
import { SECRET_FLAGS } from "../ledger/secret-flags.ts";

export const importLedger: Command = {
  name: "import",
  summary: "import what was done before: files, tables, keys of Redis",
  usage: [
    "--as <pattern> <file> [flags]",
    "--as <pattern> --from <database> [--table <name>] [flags]",
    "<file> --action <name> [--key <column>] [flags]",
    "<file> --action <name> --fields <columns> [flags]",
    "<file> --action <name> --actions <module> [--fields <columns>] [flags]",
    "<file> --action-column <column> [flags]",
  ],
  about:
    "For what was guarded by hand before: a JSONL file with a line per action, or a table, exported as CSV or JSON or read from its database. Where they follow a known pattern, --as says all of the rest (docs/moving-in.md). Each row becomes a record, so that nevertwice does not do again what is done.\nWith --key (or a column called idempotency_key, key or event_id) a row guards nt.once(action, [key], …). With --fields it guards an action whose key is those fields. With --actions the action itself says its key, and its schema the types; the ledger is that of the module's nevertwice().\nDone, sent, completed and the like become confirmed, with the row's result (without one action() throws RESULT_UNAVAILABLE, unless --void says that there is none); failed becomes failed; in_progress, pending and the like may have happened and become unknown, for you to settle; false is not done. A row without a status is done, unless its result or its time of completion is empty. Of several rows of one key, done wins. All rows are checked before any is written, and then the ledger is asked about each: exit code 1 says that some would not be repeats. Importing twice changes nothing.",
  flags: {
    as: {
      value: "pattern",
      about: `what the rows are, where their pattern is known: ${PRESETS.map(({ name }) => name).join(", ")}. It says which columns are what; --action, --action-column, --key, --status-column and --time-column say otherwise`,
    },
    from: {
      value: "database",
      about: "instead of a file: postgres://…, sqlite:app.db or redis://…, read-only and in one snapshot",
    },
    "from-env": {
      value: "variable",
      about: "the environment variable with that address, password and all",
    },
    table: { value: "name", about: "the table of --from, default: that of the pattern" },
    match: { value: "keys", about: "of --as redis-set-nx: the keys, a prefix and one star: 'email:*'" },
    sequence: {
      value: "name",
      about: "of --as s1-drip: the name that your program gives to nt.sequence()",
    },
    steps: {
      value: "steps",
      about:
        "of --as s1-drip: the steps in their order, with commas, where the columns are not <step>_sent: welcome_sent=hello",
    },
    source: { value: "name", about: "of --as s1-events: who sent the events, default: stripe" },
    action: { value: "name", about: "the action the rows belong to" },
    "action-column": { value: "column", about: "or the column that says so: action_type" },
    key: { value: "column", about: "the column that held your key" },
    fields: {
      value: "columns",
      about: "the fields that are the action's key, in its order, with commas; with --actions, its input",
    },
    actions: { value: "module", about: "an ES module that exports the action" },
    types: {
      value: "column=type",
      about:
        "what columns are, with commas: text, number, integer, boolean, json, timestamp (the text that toISOString() writes), date (a Date; never in a key)",
    },
    empty: { value: "what", about: "what an empty field of a CSV file is: null, absent or text" },
    delimiter: { value: "character", about: "between the columns of a CSV file, default: a comma" },
    "status-column": { value: "column", about: "default: status" },
    "time-column": {
      value: "column",
      about:
        "when it happened, default: sent_at, ts, created_at …; ISO 8601 (UTC if it has no zone), or epoch seconds or milliseconds",
    },
    status: {
      value: "word=meaning",
      about: "what words of the status mean, with commas: done, failed, unknown, not-done, and of an outbox queued",
    },
    ignore: {
      value: "columns",
      about: "columns that are no status although they look like one, or a result that nobody wrote",
    },
    void: {
      about: "what the rows did returns nothing: a repeat of a row without a result gets undefined",
    },
    "done-wins": { about: "count a key as done where a later row says otherwise" },
    keep: { value: "duration", about: "how long the records guard, default: forever" },
    ...SECRET_FLAGS,
    "dry-run": { about: "check the file, show ten rows as they would be keyed, and write nothing" },
  },
  operands: 1,
  operand: "file",
  examples: [
    ["import action-ledger.jsonl --action publish_blog_post", "a ledger of lines with key, ts and status"],
    ["import agent_actions.csv --action-column action_type", "a table with idempotency_key and action_type"],
    [
      "import sends.csv --action send_followup --fields lead_id,template,day --types lead_id=number",
      "a table whose columns are the key",
    ],
    ["import sends.csv --action send_followup --actions ./dist/actions.js --dry-run", "by the action itself"],
    [
      "import --as s0-outbox --from-env DATABASE_URL --dry-run",
      "an outbox table of PostgreSQL: what is pending is queued",
    ],
    [
      "import --as redis-set-nx --from redis://localhost --match 'email:*' --action send_email",
      "keys of Redis, kept for as long as they have left",
    ],
  ],
  // Loaded on demand: one command of many, and a sixth of their code.
  run: async (context) => (await import("../import/run.ts")).runImport(context),
};
