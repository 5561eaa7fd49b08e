import { type Absent, type Outcome, outcomeOfRecord } from "../../core/outcome.ts";
import type { Instant, LedgerRecord } from "../../core/record.ts";
import { instantOf } from "../../core/store.ts";
import { toStoredError } from "../../core/stored-error.ts";
import { by } from "../../engine/events.ts";
import { Payloads } from "../../engine/payloads.ts";
import type { Command, Context } from "../command.ts";
import { keyOperand, lookUp } from "../ledger/find-record.ts";
import { ledgerJson } from "../ledger/open.ts";
import { outcomeJson } from "../ledger/record-json.ts";
import { heldBy, heldWords } from "../ledger/run-steps.ts";
import { actionLabel } from "../ledger/standing.ts";
import { exitOfStatus } from "../term/exit.ts";
import { moment, shortKey } from "../term/format.ts";
import { oneLine } from "../term/text.ts";

export const status: Command = {
  name: "status",
  summary: "one line: what a caller would be told; the exit code says it too",
  usage: ["<key>"],
  about:
    "Runs nothing and changes nothing. The exit code is 0 done, 10 in_flight, 11 queued, 12 failed, 13 unknown, 15 absent. With --json the document holds the same outcome that status() returns in a program.",
  flags: {},
  operands: 1,
  examples: [
    ["status nt1_q3v0m2k8ab", "how it stands"],
    ['status "$key" > /dev/null; [ $? -eq 13 ] && echo "in doubt"', "in a script"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const key = keyOperand(context, "status");
  const stored = await lookUp(context, key);
  const ledger = context.ledger();
  if (stored === null || !ledger.exists) {
    return answer(context, { status: "absent", key }, `absent  ${key}: the ledger knows nothing about it`);
  }
  const at = instantOf(ledger.store);
  const outcome = describeRecord(stored.record, at);
  const holding = await heldBy(ledger.store, stored.record, at);
  const told = `${actionLabel(stored.record)} ${shortKey(stored.record.key)}`;
  const [first] = holding;
  if (first !== undefined) {
    const settle = context.suggest(`show ${shortKey(first.record.key)}`);
    const line = `${outcome.status}  ${told}: ${heldWords(holding)}. Look, and settle it: ${settle}`;
    return answer(context, outcome, line, { heldBy: holding.map(({ record }) => record.key), ...by(stored.record) });
  }
  return answer(
    context,
    outcome,
    `${outcome.status}  ${told}: ${words(outcome, stored.record, at)}`,
    by(stored.record),
  );
}

function answer(context: Context, outcome: Outcome<unknown> | Absent, line: string, more: object = {}): number {
  if (context.args.on("json"))
    context.json({ ledger: ledgerJson(context.ledger()), outcome: outcomeJson(outcome), ...more });
  else context.line(line);
  return exitOfStatus(outcome.status);
}

/** The command has no key to what is sealed, and says so in place of the result. */
const payloads = new Payloads(null);

function describeRecord(record: LedgerRecord, at: Instant): Outcome<unknown> | Absent {
  return outcomeOfRecord<unknown>(record, at, {
    result: (of) => payloads.load(of, "result"),
    error: (of) => of.error ?? { name: "Error", message: "it did not happen; no error was recorded" },
  });
}

function words(outcome: Outcome<unknown> | Absent, record: LedgerRecord, { now }: Instant): string {
  switch (outcome.status) {
    case "done":
      return `at ${moment(outcome.at, now)}, attempt ${outcome.attempt}`;
    case "in_flight":
      return `since ${moment(outcome.since, now)}, attempt ${record.attempt}`;
    case "queued":
      return `due ${moment(outcome.dueAt, now)}${outcome.givesUpAt === undefined ? "" : `; gives up ${moment(outcome.givesUpAt, now)}`}`;
    case "failed":
      return `${outcome.final ? "refused for good" : "the next call may try again"}; ${oneLine(toStoredError(outcome.error).message)}`;
    case "unknown":
      return `since ${moment(outcome.since, now)}; ${oneLine(outcome.why)}`;
    case "conflict":
    case "absent":
      return "past its keep, so that it guards its key no longer";
  }
}
