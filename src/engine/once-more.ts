/** Requests for a run once more, and what people decide about them: by key, for calls of guarded tools. */
import { configError, NevertwiceError, noSuchOption } from "../core/errors.ts";
import {
  about,
  isAbout,
  ONCE_MORE_ACTION,
  type OnceMore,
  type OnceMoreState,
  onceMoreKey,
  readOnceMore,
  writeOnceMore,
} from "../core/once-more.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { expired, type LedgerRecord } from "../core/record.ts";
import { redact } from "../core/redact.ts";
import { storableText } from "../core/storable-text.ts";
import type { ListQuery, Page, Stored } from "../core/store.ts";
import type { CallDefaults } from "./call.ts";
import type { Engine } from "./engine.ts";
import { checkSignature, type Signature, type Target } from "./operate.ts";
import { onlyOf, type TenantChoice, tenantOf } from "./tenancy.ts";

export interface OnceMoreAsk {
  /** Why, in the words of whoever asks: up to 500 characters are kept. */
  readonly reason: string;
  /** Only if the record is of this scope; of another one it is not known. */
  readonly scope?: string | null;
  readonly agent?: string;
}

/** How a request stands. Outcomes other than done: there is nothing to ask for. */
export type OnceMoreAnswer =
  /** created: by this very request. */
  | { readonly status: OnceMoreState; readonly key: string; readonly created: boolean; readonly reason?: string }
  | Exclude<Outcome<unknown>, { readonly status: "done" }>
  | Absent;

/** An open request. */
export interface OnceMoreRequest {
  readonly key: string;
  readonly tenant: string;
  readonly action: string;
  readonly version: number;
  readonly scope: string | null;
  /** Who called the tool; null: nobody was named. */
  readonly agent: string | null;
  readonly reason: string;
  /** Epoch ms. */
  readonly at: number;
}

/** What was decided, about the latest version of the call. */
export interface OnceMoreDecision {
  readonly key: string;
  readonly action: string;
  readonly version: number;
  readonly state: "granted" | "denied";
  readonly by: string;
  readonly reason: string;
  /** Whether it was so before. */
  readonly unchanged: boolean;
}

const LONGEST_REASON = 500;
const MOST_SWAPS = 64;
// A chain of versions is walked from the one that was named.
const MOST_VERSIONS = 1_000;
const PAGE = 200;
const ASK_OPTIONS = ["reason", "scope", "agent"];
const LIST_OPTIONS = ["tenant", "tenants"];

export function requestOnceMore(engine: Engine, target: Target, ask: OnceMoreAsk): Promise<OnceMoreAnswer> {
  const wrong = Object.keys(ask ?? {}).find((option) => !ASK_OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("requestOnceMore", wrong, ASK_OPTIONS);
  const { reason, scope, agent = null } = ask ?? {};
  if (typeof reason !== "string" || reason.trim() === "")
    throw configError("requestOnceMore: reason is missing. It is what a person decides by.");
  return engine.during(async () => {
    const found = await latest(engine, target);
    if (found === null || (scope !== undefined && found.stored.record.scope !== scope))
      return { status: "absent", key: target.key };
    const { record } = found.stored;
    const outcome = engine.describe(record);
    if (outcome.status !== "done") return outcome;
    const at = engine.services.ledger.instant().now;
    const asked = { at, reason: redact(storableText(reason.trim())).slice(0, LONGEST_REASON), agent };
    // One open request for each record, and none where a person has decided.
    const { note, written } = await swap(engine, record, (known) =>
      known === null ? { ...about(record), state: "requested", asked } : null,
    );
    const { state, decided } = note as OnceMore;
    return { status: state, key: record.key, created: written, ...(decided && { reason: decided.reason }) };
  });
}

export function decideOnceMore(
  engine: Engine,
  target: Target,
  state: "granted" | "denied",
  signature: Signature,
): Promise<OnceMoreDecision> {
  const where = state === "granted" ? "grantOnceMore" : "denyOnceMore";
  checkSignature(signature, where);
  const { by, reason } = signature;
  return engine.during(async () => {
    const found = await latest(engine, target);
    if (found === null)
      throw new NevertwiceError(
        "INVALID_KEY",
        `${where}: there is no record with the key ${target.key} in this ledger. List what there is with: nevertwice ls`,
        { key: target.key },
      );
    const { record } = found.stored;
    requireDone(engine, record, where);
    const decided = { at: engine.services.ledger.instant().now, by, reason };
    const asked = state === "denied" ? await readNote(engine, record.key) : null;
    if (state === "denied" && (asked === null || !isAbout(asked, record)))
      throw new NevertwiceError(
        "INVALID_INPUT",
        `${where}: nobody has asked for one more run of it, and none is granted: there is nothing to deny.`,
        { key: record.key },
      );
    const { note, written } = await swap(engine, record, (known) =>
      known?.state === state || known?.next !== undefined ? null : { ...known, ...about(record), state, decided },
    );
    const { key, action, version } = record;
    if (note?.state !== state)
      throw new NevertwiceError(
        "IN_FLIGHT",
        `${where}: its grant is used, and version ${version + 1} has begun: nevertwice show ${note?.next}`,
        { key },
      );
    const said = note.decided ?? decided;
    return { key, action, version, state, by: said.by, reason: said.reason, unchanged: !written };
  });
}

function requireDone(engine: Engine, record: LedgerRecord, where: string): void {
  const { status } = engine.describe(record);
  if (status === "done") return;
  const { key } = record;
  const [code, what] =
    status === "unknown"
      ? (["OUTCOME_UNKNOWN", `it may have happened, so settle it first: nevertwice resolve ${key}`] as const)
      : ([
          "INVALID_INPUT",
          `it is ${status}, not done: nothing has to be run once more. See: nevertwice show ${key}`,
        ] as const);
  throw new NevertwiceError(code, `${where}: ${what}`, { key });
}

export async function onceMoreRequests(
  engine: Engine,
  choice: TenantChoice,
  { confinedTo }: CallDefaults,
): Promise<readonly OnceMoreRequest[]> {
  const wrong = Object.keys(choice).find((option) => !LIST_OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("onceMoreRequests()", wrong, LIST_OPTIONS);
  const tenant = tenantOf(choice, confinedTo, "onceMoreRequests()");
  const { ledger } = engine.services;
  return engine.during(() => openRequests(ledger, tenant, () => ledger.instant()));
}

/** The oldest first. */
export async function openRequests(
  store: { list(query: ListQuery): Promise<Page> },
  tenant: string | undefined,
  instant: () => Parameters<typeof readOnceMore>[1],
): Promise<readonly OnceMoreRequest[]> {
  const found: OnceMoreRequest[] = [];
  let cursor: string | null = null;
  do {
    const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await store.list({ action: ONCE_MORE_ACTION, limit: PAGE, ...onlyOf(tenant), ...from });
    for (const { record } of page.items) {
      const note = readOnceMore(record, instant());
      if (note?.state !== "requested" || note.asked === undefined) continue;
      const { key, action, version, scope, asked } = note;
      found.push({ key, tenant: record.tenant, action, version, scope, ...asked });
    }
    cursor = page.cursor;
  } while (cursor !== null);
  return found.sort((a, b) => a.at - b.at);
}

/** The record of the last version that was begun; null: there is none that this tenant may see. */
async function latest(engine: Engine, { key, tenant }: Target): Promise<{ readonly stored: Stored } | null> {
  const { ledger } = engine.services;
  let found: Stored | null = null;
  let next: string | undefined = key;
  for (let version = 0; next !== undefined && version < MOST_VERSIONS; version += 1) {
    const stored: Stored | null = await engine.find(next, tenant);
    if (stored === null || expired(stored.record, ledger.instant().now)) break;
    found = stored;
    const note = await readNote(engine, stored.record.key);
    next = note === null || note.next === next || !isAbout(note, stored.record) ? undefined : note.next;
  }
  return found === null ? null : { stored: found };
}

/** The last note under the key, of whichever record. */
export async function readNote(engine: Engine, key: string): Promise<OnceMore | null> {
  const { ledger } = engine.services;
  const stored = await ledger.read(onceMoreKey(key));
  return readOnceMore(stored?.record ?? null, ledger.instant());
}

/** The note as it is then, and whether this changed it. `change`: null where it stays. */
export async function swap(
  engine: Engine,
  record: LedgerRecord,
  change: (known: OnceMore | null) => OnceMore | null,
): Promise<{ readonly note: OnceMore | null; readonly written: boolean }> {
  const { ledger } = engine.services;
  let stored = await ledger.read(onceMoreKey(record.key));
  for (let turn = 0; turn < MOST_SWAPS; turn += 1) {
    const at = ledger.instant();
    const found = readOnceMore(stored?.record ?? null, at);
    const known = found !== null && isAbout(found, record) ? found : null;
    const note = change(known);
    if (note === null) return { note: known, written: false };
    const put = { record: writeOnceMore(stored?.record ?? null, record, note, at), expected: stored?.version ?? null };
    const result = await ledger.put(put);
    if (result.ok) return { note, written: true };
    stored = result.current;
  }
  throw new NevertwiceError("STORE_UNAVAILABLE", `the note of ${record.key} kept changing. Call again.`, {
    key: record.key,
  });
}
