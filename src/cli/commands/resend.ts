import { isNevertwiceError, messageOf } from "../../core/errors.ts";
import type { Absent, Outcome } from "../../core/outcome.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { instantOf } from "../../core/store.ts";
import { AGENT, agentOf } from "../agent-flag.ts";
import type { Command, Context } from "../command.ts";
import { findRecord } from "../ledger/find-record.ts";
import { kindOf } from "../ledger/kind-of-record.ts";
import { ledgerJson, requireStore } from "../ledger/open.ts";
import { outcomeJson } from "../ledger/record-json.ts";
import { standingOf } from "../ledger/standing.ts";
import { type AnyAction, identifier, loadAction } from "../load-actions.ts";
import { decide, writtenAs } from "../once-more.ts";
import { SIGNATURE_FLAGS, signatureOf } from "../signature.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { shellWord, shortKey } from "../term/format.ts";
import { oneLine, visible } from "../term/text.ts";

export const resend: Command = {
  name: "resend",
  summary: "the same intent on purpose once more, as its next version",
  usage: ["<key> --reason <why> --actions <module>", "<key> --reason <why> [--tool]", "<key> --reason <why> --deny"],
  about:
    "Runs the action again, with the stored input, under the key of the next version. The action's own code derives that key, so its module is loaded and action.resend() is called, on the store of the module's nevertwice(). Nothing is sent while the latest version is in flight or in doubt. A guarded tool runs in its agent: its next identical call is granted one more run, as the next version. --deny refuses a request, or takes back a grant that is not used.",
  flags: {
    actions: { value: "module", about: "an ES module that exports the action" },
    once: {
      about: "the version after this record's: given again, the command sends nothing more",
    },
    tool: { about: "the record is of a guarded tool, where the ledger does not know it" },
    deny: { about: "of a guarded tool: not once more" },
    agent: AGENT,
    ...SIGNATURE_FLAGS,
  },
  operands: 1,
  examples: [
    [`resend nt1_q3v0m2k8ab --actions ./dist/actions.js --reason "the customer lost the mail"`, "send it again"],
    [`resend nt1_q3v0m2k8ab --reason "the customer asked for a second copy"`, "a guarded tool: its next call runs"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const { args, io } = context;
  const file = args.text("actions");
  const asTool = args.on("tool") || args.on("deny");
  if (asTool && file !== undefined)
    throw new UsageError("--tool and --deny are for guarded tools, and --actions for actions. Give one of them.");
  const { record } = await findRecord(context, "resend");
  const problem = kindError(context, record);
  const known = file === undefined && problem === null ? await writtenAs(context, record) : "action";
  const signature = signatureOf(context, `resend ${shortKey(record.key)}${flagsOf(args, known)} --reason '…'`);
  if (file === undefined && problem !== null) throw problem;
  if (file === undefined && known === "action" && asTool)
    throw new ProblemError(
      `${oneLine(record.action)} is an action and no guarded tool: its calls look for no grant, so nothing was changed. Send it again with: ${context.suggest(againOf(record))}`,
    );
  if (file === undefined && known !== "action" && (asTool || known === "tool"))
    return decide(context, record, signature, args.on("deny") ? "denied" : "granted", known);
  if (file === undefined) throw withoutActions(context, record);
  const action = await loadAction(file, record.action, io.cwd, problem);
  const input = storedInput(record);
  await requireSameLedger(context, action, record, input, file);
  const after = await versionBefore(context, action, record, input);
  const { version: _, ...identity } = identityOf(record);
  const options = { ...identity, ...(after > 0 && { after }), ...signature, ...agentOf(context) };
  try {
    await action.resend(input, options);
  } catch (error) {
    throw await described(context, error, () => latestVersion(action, record, input));
  }
  tell(context, record, await latestVersion(action, record, input));
  return EXIT.ok;
}

/** As it was typed, with what is needed. */
function flagsOf(args: Context["args"], known: "tool" | "action" | null): string {
  const given = ["tool", "deny", "once"].filter((flag) => args.on(flag)).map((flag) => ` --${flag}`);
  const needsCode = known !== "tool" && !args.on("tool") && !args.on("deny");
  return `${needsCode ? ` --actions ${shellWord(args.text("actions") ?? "./actions.js")}` : ""}${given.join("")}`;
}

const againOf = ({ key }: LedgerRecord) => `resend ${shortKey(key)} --reason '…' --actions ./actions.js`;

/** The version before the one to send. 0: none is settled in the ledger, so the action looks for itself. */
async function versionBefore(
  { args }: Context,
  action: AnyAction,
  record: LedgerRecord,
  input: unknown,
): Promise<number> {
  if (args.on("once")) return record.version;
  // From the record's own version on: an earlier one may be past its keep, and must not be taken for free.
  const { version, outcome } = await latestVersion(action, record, input);
  if (outcome.status === "absent") return 0;
  const isSettled = outcome.status === "done" || (outcome.status === "failed" && outcome.final);
  return isSettled ? version : version - 1;
}

/** No module can export an action for these. */
function kindError(context: Context, record: LedgerRecord): ProblemError | null {
  const kind = kindOf(record, context.suggest);
  if (kind === null) return null;
  return new ProblemError(`the record is ${kind.what}: it cannot be sent again, and nothing was sent. ${kind.again}`);
}

/** nevertwice's own errors say what to do; the user's own say nothing about the ledger. */
async function described(context: Context, error: unknown, latest: () => Promise<Sent>): Promise<unknown> {
  if (isNevertwiceError(error)) return error;
  const { version, outcome } = await latest();
  const see = context.suggest(`show ${shortKey(outcome.key)}`);
  return new ProblemError(`version ${version} is ${outcome.status}: ${oneLine(messageOf(error))}. See: ${see}`, {
    cause: error,
  });
}

function identityOf({ tenant, scope, version }: LedgerRecord) {
  return { version, ...(tenant !== "" && { tenant }), ...(scope !== null && { scope }) };
}

function storedInput(record: LedgerRecord): unknown {
  const { input } = record;
  if (input === null) return undefined;
  if ("json" in input) return JSON.parse(input.json);
  const why =
    "sealed" in input ? "is sealed, and the command has no key" : `was not stored (${oneLine(input.omitted)})`;
  throw new ProblemError(
    `the input ${why}. Nothing was sent. Send it from the program that has it: ${identifier(record.action)}.resend(input, { by, reason }).`,
  );
}

/** Another secret, key function or ledger would send it under another identity, without the guard of this record. */
async function requireSameLedger(
  context: Context,
  action: AnyAction,
  record: LedgerRecord,
  input: unknown,
  file: string,
): Promise<void> {
  const key = await action.keyOf(input, identityOf(record));
  if (key !== record.key) {
    throw new ProblemError(
      `${oneLine(record.action)} of ${file} derives another key (${shortKey(key)}…) from the stored input than the record has (${shortKey(record.key)}…): its secret, tenant or key function is not the one of this ledger. Nothing was sent.`,
    );
  }
  const { expired } = standingOf(record, instantOf(requireStore(context)));
  const seen = await action.status({ key });
  if (seen.status === "absent" && !expired) {
    throw new ProblemError(
      `${file} uses another ledger than this command (${context.ledger().name}): the record is not in it. Nothing was sent. Set NEVERTWICE_STORE to the same store for both.`,
    );
  }
}

const MOST_VERSIONS = 1_000;

interface Sent {
  readonly version: number;
  readonly outcome: Outcome<unknown> | Absent;
}

/** The version that was sent: the last one the module's ledger knows. */
async function latestVersion(action: AnyAction, record: LedgerRecord, input: unknown): Promise<Sent> {
  const identity = identityOf(record);
  let latest: Sent | null = null;
  for (let version = record.version; version < record.version + MOST_VERSIONS; version += 1) {
    const outcome = await action.status(input, { ...identity, version });
    if (outcome.status === "absent" && version > record.version) break;
    latest = { version, outcome };
  }
  return latest as Sent;
}

function tell(context: Context, record: LedgerRecord, { version, outcome }: Sent): void {
  if (context.args.on("json")) {
    const newer = { action: record.action, version, newKey: outcome.key, outcome: outcomeJson(outcome) };
    context.json({ ledger: ledgerJson(context.ledger()), key: record.key, ...newer });
    return;
  }
  context.line(`${oneLine(record.action)}: version ${record.version} → version ${version}, ${outcome.status}`);
  context.line(`key     ${outcome.key}`);
  if (outcome.status === "done" && outcome.result !== undefined) {
    context.line(`result  ${visible(JSON.stringify(outcome.result))}`);
  }
}

function withoutActions(context: Context, record: LedgerRecord): UsageError {
  const name = identifier(record.action);
  const [key, reason] = [shortKey(record.key), '"the customer lost the mail"'];
  return new UsageError(
    [
      "the key of the next version is derived by the action's own code, which the ledger does not hold. Give one of these:",
      `  ${context.suggest(`resend ${key} --reason ${reason} --actions ./actions.js`)}`,
      `      where actions.js exports the action ${JSON.stringify(oneLine(record.action))}`,
      `  await ${name}.resend(input, { by: "you", reason: ${reason} })`,
      "      in the program itself",
      `  ${context.suggest(`resend ${key} --reason ${reason} --tool`)}`,
      "      where it is the record of a guarded tool: its next identical call runs once more",
      ...onceAgain(record),
    ].join("\n"),
  );
}

/** nt.once() records no input, and its key is derived by its call. */
function onceAgain({ action, input, version }: LedgerRecord): string[] {
  if (input !== null) return [];
  return [
    `  await nt.once(${JSON.stringify(oneLine(action))}, parts, run, { version: ${version + 1} })`,
    "      where nt.once() made the record",
  ];
}
