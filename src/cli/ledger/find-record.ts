/** From what a person typed to one record: a full key, or the beginning of one. */
import { isEmptied } from "../../core/forgotten.ts";
import { aliasTarget, isAlias } from "../../core/key/formerly.ts";
import { instantOf, type Store, type Stored } from "../../core/store.ts";
import { followKey } from "../../engine/formerly.ts";
import type { Context } from "../command.ts";
import { ProblemError, UsageError } from "../term/exit.ts";
import { shellWord, shortKey } from "../term/format.ts";
import { oneLine } from "../term/text.ts";
import { requireStore } from "./open.ts";
import { actionLabel } from "./standing.ts";

const PREFIX = "nt1_";
const FULL_LENGTH = 56;
const LEAST_CHARACTERS = 8;
const CANDIDATES_SHOWN = 10;

export function isFullKey(key: string): boolean {
  return key.startsWith(PREFIX) && key.length === FULL_LENGTH;
}

/** The key of the command line, without the ellipsis that a copy from elsewhere may bring along. */
export function keyOperand(context: Context, command: string): string {
  const [given] = context.args.operands;
  if (given === undefined) {
    throw new UsageError(
      `${command} needs a key: nevertwice ${command} nt1_… List what there is with: ${context.suggest("ls")}`,
    );
  }
  const text = given
    .trim()
    .toLowerCase()
    .replace(/(…|\.\.\.)$/, "");
  const key = text.startsWith(PREFIX) ? text : PREFIX + text;
  const characters = key.slice(PREFIX.length);
  if (!/^[0-9a-v]*$/.test(characters) || key.length > FULL_LENGTH) {
    throw new UsageError(
      `"${oneLine(given)}" is not a key. A key is nt1_ and 52 characters (0-9, a-v), or its beginning. ${listing(context, given)}`,
    );
  }
  if (characters.length < LEAST_CHARACTERS) {
    throw new UsageError(
      `"${oneLine(given)}" is too short to name a record: give at least ${LEAST_CHARACTERS} characters after nt1_. ${listing(context, given)}`,
    );
  }
  return key;
}

/** What is not the beginning of a key may be the name of an action. */
function listing(context: Context, given: string): string {
  const name = given.trim();
  if (name === "" || name.toLowerCase().startsWith(PREFIX)) return `List what there is with: ${context.suggest("ls")}`;
  return `The records of an action of that name: ${context.suggest(`ls --action ${shellWord(name)}`)}`;
}

/** The record a key or its beginning names; null where there is none. Several: an error that lists them. */
export async function lookUp(context: Context, key: string): Promise<Stored | null> {
  const ledger = context.ledger();
  if (!ledger.exists) return null;
  const tenant = context.args.text("tenant");
  const found =
    key.length === FULL_LENGTH ? await readOne(ledger.store, key) : await byPrefix(ledger.store, key, tenant);
  // What was forgotten is no record any more, though its row waits for the sweep.
  const mine = found.filter(({ record }) => (tenant === undefined || record.tenant === tenant) && !isEmptied(record));
  if (mine.length > 1) throw ambiguous(key, mine);
  const [only] = mine;
  return only === undefined ? null : recordBehind(context, only);
}

/** K10: an alias is shown, and settled, as the record that it stands for. */
async function recordBehind(context: Context, found: Stored): Promise<Stored | null> {
  const store = requireStore(context);
  if (!isAlias(found.record)) return found;
  const target = aliasTarget(found.record, store.now());
  if (target === null) return null;
  const read = (keys: readonly string[]) => store.read(keys);
  const stored = await followKey({ read, now: () => instantOf(store) }, found.record.key);
  if (stored !== null && isEmptied(stored.record)) return null;
  const { key } = stored?.record ?? target;
  context.note(`${shortKey(found.record.key)} is another key of the intent that is recorded under ${key} (formerly).`);
  return stored;
}

/** The same, for commands that need one. */
export async function findRecord(context: Context, command: string): Promise<Stored> {
  const key = keyOperand(context, command);
  requireStore(context);
  const found = await lookUp(context, key);
  if (found === null) throw notFound(context, key);
  return found;
}

export function notFound(context: Context, key: string): ProblemError {
  const tenant = context.args.text("tenant");
  const of = tenant === undefined ? "" : ` of the tenant "${oneLine(tenant)}"`;
  const begins = key.length === FULL_LENGTH ? "with the key" : "whose key begins with";
  return new ProblemError(
    `there is no record${of} ${begins} ${key} in ${context.ledger().name}. List what there is with: ${context.suggest("ls")}`,
  );
}

async function readOne(store: Store, key: string): Promise<Stored[]> {
  return (await store.read([key])).filter((one) => one !== null);
}

async function byPrefix(store: Store, keyPrefix: string, tenant: string | undefined): Promise<readonly Stored[]> {
  const query = { keyPrefix, limit: CANDIDATES_SHOWN + 1, ...(tenant !== undefined && { tenant }) };
  return (await store.list(query)).items;
}

function ambiguous(key: string, found: readonly Stored[]): UsageError {
  const shown = found.slice(0, CANDIDATES_SHOWN).map(({ record }) => `  ${record.key}  ${actionLabel(record)}`);
  const more = found.length > CANDIDATES_SHOWN ? ["  …"] : [];
  return new UsageError(
    [
      `${shortKey(key) === key ? key : `${shortKey(key)}…`} begins several keys. Give more of it:`,
      ...shown,
      ...more,
    ].join("\n"),
  );
}
