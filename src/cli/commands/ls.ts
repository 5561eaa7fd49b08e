import type { DamagedRecord } from "../../core/damaged-record.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import { isEmptied } from "../../core/forgotten.ts";
import { isAlias } from "../../core/key/formerly.ts";
import { nearest } from "../../core/nearest.ts";
import { isNote } from "../../core/note.ts";
import { providerId, providerIdForms } from "../../core/provider-id.ts";
import { type LedgerRecord, STATES, type State } from "../../core/record.ts";
import { sealer } from "../../core/seal.ts";
import { instantOf, type ListQuery, type Page, type Store, type Stored } from "../../core/store.ts";
import { isUnclassified, wayOut } from "../../core/way-out.ts";
import type { Command, Context } from "../command.ts";
import { afterDeadRunner } from "../ledger/dead-runner.ts";
import { type DoubtGroup, type Grouped, groupDoubts } from "../ledger/doubt-groups.ts";
import { type DoubtFilter, doubts, splitCursor } from "../ledger/doubts.ts";
import { nextByItself } from "../ledger/next-by-itself.ts";
import { ledgerJson, noLedgerYet } from "../ledger/open.ts";
import { recordJson } from "../ledger/record-json.ts";
import { HELD, heldBy, heldLines, heldWords, type ListedStep } from "../ledger/run-steps.ts";
import { encryptOf } from "../ledger/secret-flags.ts";
import { actionAndStep, actionLabel, markOf, paintState, remarkOf, standingOf } from "../ledger/standing.ts";
import { listDoubtGroups } from "../resolve/list-doubt-groups.ts";
import { EXIT, UsageError } from "../term/exit.ts";
import { age, plural, shellWord, shortKey } from "../term/format.ts";
import { type Column, renderTable } from "../term/table.ts";
import { oneLine, wrap } from "../term/text.ts";

const DEFAULT_LIMIT = 20;
const LARGEST_LIMIT = 1_000;
// Enough to say how bad it is; counting on would read the whole ledger.
const DOUBTS_COUNTED = 100;
const GROUPS_SHOWN = 20;
// Enough to see what goes wrong; --group reads them all.
const MOST_GROUPED = 2_000;

export const ls: Command = {
  name: "ls",
  summary: "list records, the newest first",
  usage: [
    "[--state <states>] [--action <name>] [--agent <name>] [--scope <id>] [--limit <n>]",
    "--doubt [--group]",
    "--result-id <id>",
  ],
  about:
    "A record whose holder stopped answering is unknown* after the send mark, and pending* before it (nothing was sent, and a worker or the next call takes it). The states are pending, claimed, sent, confirmed, failed and unknown; --state goes by the ledger's row. --doubt lists doubts and puts those with the same error together; with --group it shows only the groups, of all doubts, with the command that settles each. --result-id finds the records whose result has a provider's own id (a message id in a bounce, a charge id); it reads every record.",
  flags: {
    state: { value: "states", about: "only these states: pending,unknown" },
    doubt: { about: "only doubts: unknown, and sent by a holder that fell silent" },
    group: {
      about: "with --doubt: only the causes of all doubts, how many each has, and how to settle them",
    },
    action: { value: "name", about: "only records of this action" },
    agent: { value: "name", about: "only records whose last attempt this agent made" },
    scope: { value: "id", about: "only records of this run, session or thread" },
    "result-id": { value: "id", about: "only records whose result has this provider's id" },
    "encrypt-env": {
      value: "variable",
      about: "with --result-id: the environment variable with nevertwice({ encrypt }), where ids are kept as digests",
    },
    limit: {
      value: "n",
      about: `at most this many (default ${DEFAULT_LIMIT}, up to ${LARGEST_LIMIT})`,
    },
    cursor: { value: "cursor", about: "go on where the page before ended" },
    oldest: { about: "the oldest first" },
    notes: { about: "with the notes that the ledger keeps for itself" },
  },
  operands: 0,
  examples: [
    ["ls", "the last 20 records"],
    ["ls --doubt", "what somebody has to decide"],
    ["ls --doubt --group", "thousands of doubts by their causes"],
    ["ls --state failed --action send_followup", "the dead letters of one action"],
    ["ls --result-id msg_01H8XK", "which intent a provider's id belongs to"],
    ["ls --json --limit 1000 | jq '.records[].key'", "keys for a script"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const filter = filterOf(context);
  const states = statesOf(context.args.list("state"));
  if (context.args.on("doubt")) splitCursor(context.args.text("cursor"));
  const ledger = context.ledger();
  if (!ledger.exists) {
    if (context.args.on("json"))
      context.json({
        ledger: ledgerJson(ledger),
        ...(context.args.on("group") ? {} : { records: [], cursor: null }),
        ...noGroups(context),
      });
    else context.line(sentence(noLedgerYet(ledger)));
    return EXIT.ok;
  }
  const { store } = ledger;
  if (context.args.on("group")) return listDoubtGroups(context, store, filter);
  const page = await read(context, store, filter, states);
  // The groups are of all doubts, so that a later page would only repeat them.
  const isFirst = context.args.on("doubt") && !context.args.on("cursor");
  const grouped = isFirst && page.items.length > 0 ? await groupDoubts(store, filter, { most: MOST_GROUPED }) : null;
  if (context.args.on("json")) {
    const records = page.items.map(({ record }) => recordJson(record, instantOf(store)));
    const damaged = page.damaged === undefined ? {} : { damaged: page.damaged };
    const groups =
      grouped === null ? noGroups(context) : { groups: grouped.groups.map(groupJson), allGrouped: grouped.all };
    context.json({ ledger: ledgerJson(ledger), records, cursor: page.cursor, ...groups, ...damaged });
    return EXIT.ok;
  }
  for (const line of damagedLines(context, page)) context.line(line);
  if (page.items.length === 0) context.line(nothing(context, ledger.name));
  else {
    const held = await heldRuns(store, page.items);
    for (const line of table(context, page.items, store, held)) context.line(line);
    for (const line of heldLines(context.suggest, [...held.values()].flat())) context.line(line);
  }
  for (const line of await footer(context, page, store, filter)) context.line(line);
  if (grouped !== null) for (const line of groupLines(context, store, grouped)) context.line(line);
  return EXIT.ok;
}

function noGroups({ args }: Context) {
  if (args.on("group")) return { counted: 0, groups: [], beyond: 0, again: 0 };
  return args.on("doubt") && !args.on("cursor") ? { groups: [], allGrouped: true } : {};
}

function groupJson({ id, action, step, error, count, since }: DoubtGroup) {
  return { id, action, step, error, count, since };
}

function filterOf(context: Context): DoubtFilter {
  const { args } = context;
  const limit = args.count("limit") ?? DEFAULT_LIMIT;
  if (limit > LARGEST_LIMIT) {
    throw new UsageError(`--limit ${limit}: at most ${LARGEST_LIMIT} at a time. Go on with the --cursor of each page.`);
  }
  if (args.on("doubt") && args.on("state")) {
    throw new UsageError("--doubt and --state exclude each other: --doubt already says which states it lists.");
  }
  refuseWithGroup(context);
  const [tenant, action, scope] = [args.text("tenant"), args.text("action"), args.text("scope")];
  const agent = args.text("agent");
  return {
    limit,
    order: args.on("oldest") ? "oldest" : "newest",
    ...(tenant !== undefined && { tenant }),
    ...(action !== undefined && { action }),
    ...(scope !== undefined && { scope }),
    ...(agent !== undefined && { agent }),
    ...providerIdsOf(context),
  };
}

/** The groups are of all doubts: there are no pages of them. */
function refuseWithGroup({ args }: Context): void {
  if (!args.on("group")) return;
  if (!args.on("doubt")) throw new UsageError("--group belongs to --doubt: ls --doubt --group.");
  for (const flag of ["limit", "cursor", "oldest"]) {
    if (args.on(flag))
      throw new UsageError(`--${flag} is for a list of records; --group counts all doubts. Leave it out.`);
  }
}

/** In every form the ledger may hold it in. */
function providerIdsOf(context: Context): Pick<DoubtFilter, "providerIds"> {
  const { args } = context;
  const given = args.text("result-id");
  const encrypt = encryptOf(context);
  if (given === undefined) {
    if (encrypt !== undefined) throw new UsageError("--encrypt-env belongs to --result-id. Leave it out.");
    return {};
  }
  if (args.on("doubt")) throw new UsageError("--result-id and --doubt exclude each other: a doubt has no result.");
  const id = providerId(given);
  if (id === null)
    throw new UsageError(`--result-id ${oneLine(given)}: it takes an id of 1 to 255 characters without blanks.`);
  return { providerIds: providerIdForms(id, encrypt === undefined ? [] : sealer(encrypt).digestKeys) };
}

async function read(context: Context, store: Store, filter: DoubtFilter, states: State[] | null): Promise<Page> {
  const { args } = context;
  const cursor = args.text("cursor");
  try {
    if (args.on("doubt")) return await doubts(store, filter, cursor);
    const query = { ...filter, ...(states && { states }) };
    const isAsked = args.on("notes") || (filter.action !== undefined && isNote(filter.action));
    const isHidden = (record: LedgerRecord) =>
      isAlias(record) || isEmptied(record) || (!isAsked && isNote(record.action));
    return await without(isHidden, store, query, cursor);
  } catch (error) {
    // The only thing of a list that a person can get wrong and a store can notice.
    if (cursor !== undefined && isNevertwiceError(error) && error.code === "CONFIG") {
      throw new UsageError(
        `--cursor ${oneLine(cursor)} is not the cursor of an earlier page. Take it as ls printed it.`,
      );
    }
    throw error;
  }
}

// What is hidden is little beside the rest; where it is much, a page has fewer records than asked for, and the next goes on.
const MOST_PAGES = 50;

/** Notes of the ledger are no intents, and an alias (K10) is another key of an intent that is listed already. */
async function without(
  isHidden: (record: LedgerRecord) => boolean,
  store: Store,
  query: ListQuery,
  from: string | undefined,
): Promise<Page> {
  const items: Stored[] = [];
  const damaged: DamagedRecord[] = [];
  let next = from;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await store.list({
      ...query,
      limit: query.limit - items.length,
      ...(next !== undefined && { cursor: next }),
    });
    items.push(...page.items.filter(({ record }) => !isHidden(record)));
    damaged.push(...(page.damaged ?? []));
    next = page.cursor ?? undefined;
    if (next === undefined || items.length >= query.limit) break;
  }
  return { items, cursor: next ?? null, ...(damaged.length > 0 && { damaged }) };
}

function statesOf(given: readonly string[]): State[] | null {
  for (const state of given) {
    if ((STATES as readonly string[]).includes(state)) continue;
    const meant = nearest(state, STATES);
    throw new UsageError(
      `--state ${oneLine(state)}: there is no such state.${meant === null ? "" : ` Did you mean ${meant}?`} The states are: ${STATES.join(", ")}.`,
    );
  }
  return given.length === 0 ? null : ([...given] as State[]);
}

/** What cannot be read has no place in the table: it stands above it, by key. */
function damagedLines({ paint, width, suggest }: Context, { damaged = [] }: Page): string[] {
  if (damaged.length === 0) return [];
  const keys = [...new Set(damaged.map(({ key }) => oneLine(key)))];
  const said = `${paint.red(plural(keys.length, "damaged record"))}: there, and cannot be read. Calls for them are refused.`;
  return [...wrap(said, width), ...keys.map((key) => `  ${key}`), `See what is wrong:\n  ${suggest("doctor")}`, ""];
}

/** Runs that wait for a decision about one of their steps, by key. */
async function heldRuns(store: Store, items: readonly Stored[]): Promise<Map<string, readonly ListedStep[]>> {
  const held = new Map<string, readonly ListedStep[]>();
  for (const { record } of items) {
    const steps = await heldBy(store, record, instantOf(store));
    if (steps.length > 0) held.set(record.key, steps);
  }
  return held;
}

function table(
  context: Context,
  items: readonly Stored[],
  store: Store,
  held: ReadonlyMap<string, readonly ListedStep[]>,
): string[] {
  const { paint, width } = context;
  const at = instantOf(store);
  const tenants = new Set(items.map(({ record }) => record.tenant));
  const agents = items.some(({ record }) => record.agent !== null);
  const columns: Column[] = [
    { title: "key" },
    ...(tenants.size > 1 ? [{ title: "tenant", min: 6 }] : []),
    { title: "action", min: 8 },
    ...(agents ? [{ title: "agent", min: 6 }] : []),
    { title: "state" },
    { title: "try", align: "right" },
    { title: "age", align: "right" },
    { title: "what", min: 8 },
  ];
  const rows = items.map(({ record }) => {
    const { label: own, expired } = standingOf(record, at);
    const holding = held.get(record.key);
    const label = holding === undefined ? own : HELD;
    const gone = afterDeadRunner(record, at, store);
    const remark = gone === null ? remarkOf(record, at) : `runner gone: ${gone}`;
    return [
      shortKey(record.key),
      ...(tenants.size > 1 ? [oneLine(record.tenant) || "-"] : []),
      actionLabel(record),
      ...(agents ? [oneLine(record.agent ?? "") || "-"] : []),
      { text: label, paint: expired ? paint.dim : paintState(label, paint) },
      String(record.attempt),
      age(at.now - record.createdAt),
      holding === undefined ? remark : heldWords(holding),
    ];
  });
  return renderTable(columns, rows, { width, paint });
}

async function footer(context: Context, page: Page, store: Store, filter: DoubtFilter): Promise<string[]> {
  const { args, paint, width } = context;
  const at = instantOf(store);
  const marks = new Set(
    page.items.map(({ record }) => markOf(standingOf(record, at).label)).filter((mark) => mark !== null),
  );
  const lines: string[] =
    marks.size === 0 ? [] : ["", ...[...marks].flatMap((mark) => wrap(mark, width)).map(paint.dim)];
  const waiting = await doubts(store, { ...filter, limit: DOUBTS_COUNTED }, undefined);
  const undecided = waiting.items.filter(({ record }) => nextByItself(record, at) === null);
  const again = waiting.items.length - undecided.length;
  const [first] = undecided;
  if (first !== undefined) {
    const count = undecided.length;
    const many = waiting.cursor === null ? plural(count, "record") : `${count} records or more`;
    const [advice, command] = args.on("doubt")
      ? ["Ask the provider, then settle each, beginning with:", `show ${shortKey(first.record.key)}`]
      : ["See what to do:", "ls --doubt"];
    const said = `${paint.yellow(`${many} in doubt`)}: may or may not have happened. ${advice}`;
    lines.push("", ...wrap(said, width), `  ${context.suggest(command)}`);
  }
  if (again > 0) {
    const slots = again === 1 ? "1 slot or run" : `${again} slots or runs`;
    const calls = again === 1 ? "its next call runs it again" : "their next calls run them again";
    lines.push(
      "",
      ...wrap(`${paint.yellow(`${slots} not known to be done`)}: ${calls}. Nothing has to be decided.`, width),
    );
  }
  if (page.cursor !== null) lines.push("", "There are more:", `  ${context.suggest(nextPage(context, page.cursor))}`);
  return lines;
}

/** Doubts with the same error are one decision, and often one line of code. */
function groupLines(context: Context, store: Store, { groups, counted, all }: Grouped): string[] {
  const { paint, width } = context;
  const many = groups.filter(({ count }) => count > 1).slice(0, GROUPS_SHOWN);
  const [largest] = many;
  const lines = largest === undefined ? [] : groupTable(context, store, many, all ? null : counted);
  const unclassified = groups.find(({ example }) => isUnclassified(example.why));
  if (unclassified !== undefined) {
    const { action, error } = unclassified;
    lines.push("", ...wrap(paint.dim(oneLine(`${action}, ${error}: nobody said what this error means.`)), width));
    lines.push(...wrap(oneLine(wayOut(action, "unknown")), width).map(paint.dim));
  }
  return lines;
}

function groupTable(context: Context, store: Store, many: readonly DoubtGroup[], counted: number | null): string[] {
  const { paint, width } = context;
  const { now } = instantOf(store);
  const rows = many.map((group) => [
    group.id,
    String(group.count),
    actionAndStep(group),
    age(now - group.since),
    oneLine(group.error),
  ]);
  const columns: Column[] = [
    { title: "group" },
    { title: "doubts", align: "right" },
    { title: "action", min: 8 },
    { title: "oldest", align: "right" },
    { title: "error", min: 16 },
  ];
  const of = counted === null ? "" : ` (of the first ${counted} doubts; of all: ls --doubt --group)`;
  const kept = ["action", "scope", "tenant"].flatMap((flag) =>
    context.args.on(flag) ? [` --${flag} ${shellWord(context.args.text(flag) ?? "")}`] : [],
  );
  const decision = `resolve --group ${many[0]?.id} --not-done${kept.join("")}`;
  return [
    "",
    paint.bold(`Doubts with the same error${of}`),
    ...renderTable(columns, rows, { width, paint }),
    "",
    ...wrap(
      "Settle all of a group in one decision (--done, --not-done or --failed; shows which, and changes nothing yet):",
      width,
    ),
    `  ${context.suggest(decision)}`,
  ];
}

function nextPage({ args }: Context, cursor: string): string {
  const kept = ["state", "action", "agent", "scope", "result-id", "encrypt-env", "tenant", "limit"].flatMap((flag) => {
    if (!args.on(flag)) return [];
    return [`--${flag} ${shellWord(flag === "state" ? args.list(flag).join(",") : (args.text(flag) ?? ""))}`];
  });
  const switches = ["doubt", "oldest", "notes"].filter((flag) => args.on(flag)).map((flag) => `--${flag}`);
  return ["ls", ...switches, ...kept, `--cursor ${shellWord(cursor)}`].join(" ");
}

function nothing({ args }: Context, name: string): string {
  if (name === "memory:") return "A memory ledger lives inside its own process: the command sees none of its records.";
  const filtered = ["state", "action", "agent", "scope", "result-id", "tenant", "cursor"].some((flag) => args.on(flag));
  if (args.on("doubt")) return "Nothing is in doubt.";
  return filtered ? "No record fits." : `The ledger is empty (${name}).`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
