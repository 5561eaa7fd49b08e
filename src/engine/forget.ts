/** `nt.forget`: one record emptied on purpose, with a note of who decided it. A run is forgotten with its steps. */
import { entryAction, entryLabel, entryOf } from "../core/entry-name.ts";
import { NevertwiceError, noSuchOption } from "../core/errors.ts";
import {
  type ForgottenEntry,
  forgottenEntries,
  forgottenNoteKey,
  isEmptied,
  withForgotten,
  withoutForgotten,
} from "../core/forgotten.ts";
import { isNote } from "../core/note.ts";
import { expired, type LedgerRecord, type State } from "../core/record.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Page, Put, Stored } from "../core/store.ts";
import { transition } from "../core/transition.ts";
import type { Engine } from "./engine.ts";
import { by as named } from "./events.ts";
import { checkSignature, type Signature, type Target } from "./operate.ts";
import { swapsOf, turnOf } from "./turn.ts";

export interface ForgetOptions extends Signature {
  /** Also where nobody knows whether it happened. It may be run again then, and happen twice. */
  readonly evenInDoubt?: boolean;
}

export interface Forgotten {
  /** Of the record: another one than was asked for where that is an alias (`formerly`). */
  readonly key: string;
  readonly action: string;
  /** The state it had. */
  readonly was: State;
  /** Epoch ms. */
  readonly at: number;
  readonly by: string;
  readonly reason: string;
  /** How many records were emptied: more than one for a run with steps, none where it was forgotten before. */
  readonly records: number;
}

const OPTIONS = ["by", "reason", "evenInDoubt"];
const PAGE = 200;
const MAX_SWAPS = 64;

export function forgetRecord(engine: Engine, target: Target, options: ForgetOptions): Promise<Forgotten> {
  checkSignature(options, "forget");
  const wrong = Object.keys(options).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("forget", wrong, OPTIONS);
  return engine.during(() => forgetStored(engine, target, options));
}

async function forgetStored(engine: Engine, target: Target, options: ForgetOptions): Promise<Forgotten> {
  const stored = await engine.find(target.key, target.tenant);
  if (stored === null || isEmptied(stored.record)) return forgottenBefore(engine, target, stored);
  const { record } = stored;
  refuseNote(record);
  await refuseStepOfRun(engine, record);
  const parts = await partsOf(engine, record);
  // All are looked at before any is emptied: a run of which half is known would do the other half again.
  for (const one of [...parts, stored]) await requireForgettable(engine, one, options);
  // The run itself last: called again after a crash, this goes on with what is left.
  for (const part of parts) await forgetOne(engine, part, options);
  const entry = await forgetOne(engine, stored, options);
  engine.replays.delete(target.key);
  return { key: record.key, records: parts.length + 1, ...entry };
}

/** Asked twice, by a double click or after a lost reply: it is as it was asked for. */
async function forgottenBefore(engine: Engine, target: Target, stored: Stored | null): Promise<Forgotten> {
  const { ledger } = engine.services;
  const key = stored?.record.key ?? target.key;
  const note = await ledger.read(forgottenNoteKey(key));
  const entry = forgottenEntries(note?.record ?? null, ledger.instant(), target.tenant).at(-1);
  if (entry !== undefined) return { key, records: 0, ...entry };
  throw new NevertwiceError(
    "INVALID_KEY",
    `forget: there is no record with the key ${key} in this ledger. List what there is with: nevertwice ls`,
    { key },
  );
}

function refuseNote({ key, action }: LedgerRecord): void {
  if (!isNote(action)) return;
  throw invalid(
    key,
    "it is a note that the ledger keeps for itself, and holds no input or result. It goes by itself when it is not used any more",
  );
}

/** Without its step, a run that is called again would do the step again. */
async function refuseStepOfRun(engine: Engine, { key, action, scope, tenant }: LedgerRecord): Promise<void> {
  const { kind } = entryOf(action);
  if ((kind !== "step" && kind !== "branch") || scope === null) return;
  const run = await engine.find(scope, tenant);
  if (run === null || expired(run.record, engine.services.ledger.instant().now)) return;
  throw invalid(
    key,
    `it is ${entryLabel(action)}, whose record is ${run.record.key}. Without it a run that is called again would do this step again. Forget the run, and its steps go with it: nevertwice forget ${run.record.key}`,
  );
}

/** The steps and branches of a run, all of them. */
async function partsOf(engine: Engine, { key, action, tenant }: LedgerRecord): Promise<readonly Stored[]> {
  const { kind, name } = entryOf(action);
  if (kind !== "run") return [];
  const found: Stored[] = [];
  for (const part of ["step", "branch"] as const) {
    let cursor: string | null = null;
    do {
      const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
      const query = { scope: key, action: entryAction(part, name), tenant, limit: PAGE, ...from };
      const page: Page = await engine.services.ledger.list(query);
      found.push(...page.items.filter(({ record }) => !isEmptied(record)));
      cursor = page.cursor;
    } while (cursor !== null);
  }
  return found;
}

async function requireForgettable(
  engine: Engine,
  stored: Stored,
  { evenInDoubt = false }: ForgetOptions,
): Promise<void> {
  const { ledger } = engine.services;
  const change = transition(stored.record, { type: "forget", evenInDoubt }, ledger.instant());
  if (!change.ok) throw refusalError(change.refusal, stored.record);
  if (stored.record.terms?.line === undefined) return;
  // Those behind it take a record that is gone for one that was settled at its turn.
  const { before } = await turnOf(swapsOf(ledger), stored);
  if (before === null) return;
  throw invalid(
    stored.record.key,
    `it is in an order, and a record before it is not settled (${before.key}). Without this one, those behind it would not wait for that one. Wait until it is settled, or forget that one first`,
  );
}

/** First who and why, then the record: what is gone is always accounted for. */
async function forgetOne(engine: Engine, stored: Stored, options: ForgetOptions): Promise<ForgottenEntry> {
  const { ledger, events } = engine.services;
  const { key, action, state } = stored.record;
  const { by, reason, evenInDoubt = false } = options;
  const entry: ForgottenEntry = { at: ledger.instant().now, by, reason, action, was: state };
  const note = forgottenNoteKey(key);
  await swapNote(engine, note, (before) => withForgotten(before, stored.record, entry, ledger.instant()));
  const applied = await ledger.apply(stored, { type: "forget", evenInDoubt });
  engine.replays.delete(key);
  if (applied.ok || (applied.stored !== null && isEmptied(applied.stored.record))) {
    events.emit({ type: "forgotten", action, key, ...named(stored.record) });
    return entry;
  }
  // Somebody began it in between.
  await swapNote(engine, note, (before) =>
    before === null ? null : withoutForgotten(before, entry, ledger.instant()),
  );
  throw refusalError(applied.refusal, applied.stored?.record ?? stored.record);
}

async function swapNote(
  engine: Engine,
  key: string,
  change: (before: LedgerRecord | null) => LedgerRecord | null,
): Promise<void> {
  const { ledger } = engine.services;
  let stored = await ledger.read(key);
  for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
    const record = change(stored?.record ?? null);
    if (record === null) return;
    const put: Put = { record, expected: stored?.version ?? null };
    const result = await ledger.put(put);
    if (result.ok) return;
    stored = result.current;
  }
  throw new NevertwiceError(
    "STORE_UNAVAILABLE",
    `forget: the ledger changed ${MAX_SWAPS} times under one write. Nothing was forgotten by this call; call again.`,
    { key },
  );
}

function refusalError(refusal: Refusal, { key, action, state }: LedgerRecord): NevertwiceError {
  if (refusal === "leased")
    return new NevertwiceError(
      "IN_FLIGHT",
      `forget: an attempt is still under way (${entryLabel(action)}, ${state}). Wait until its lease is over, then look again: nevertwice show ${key}`,
      { key },
    );
  if (refusal === "in-doubt")
    return new NevertwiceError(
      "OUTCOME_UNKNOWN",
      `forget: ${entryLabel(action)} is in doubt: it may have happened. Once it is forgotten, the next call runs it, and it may happen twice. Settle it first (nevertwice resolve ${key}), or say that you accept this: evenInDoubt: true, or --even-in-doubt.`,
      { key },
    );
  return new NevertwiceError("INVALID_KEY", `forget: there is no record with the key ${key} any more.`, { key });
}

function invalid(key: string, what: string): NevertwiceError {
  return new NevertwiceError("INVALID_INPUT", `forget: ${what}.`, { key });
}
