/** Writing records and reading them back: what a call of the program would meet. */
import { askAround } from "../../core/damaged-record.ts";
import { aliasTarget } from "../../core/key/formerly.ts";
import { expired, type State } from "../../core/record.ts";
import type { Stored } from "../../core/store.ts";
import type { PastIntent } from "../../engine/past.ts";
import { ProblemError } from "../term/exit.ts";
import type { Entry, EntrySource } from "./entries.ts";
import { type End, togetherAs } from "./status.ts";
import { representedBy, type Survey } from "./survey.ts";
import type { Target } from "./target.ts";

export interface Counts {
  imported: number;
  /** There, in doubt or failed, and confirmed now. */
  strengthened: number;
  /** There, to be run next, and in doubt now: a newer row says that it may have happened. */
  doubted: number;
  /** Rows that never happened: there is no record, and a call runs. */
  notDone: number;
  known: number;
  /** Of those: the row says failed or not done, the record confirmed. */
  confirmedAgainst: number;
  past: number;
  /** There, and cannot be read. */
  damaged: number;
  states: Record<string, number>;
  /** Rows whose key has a window that --keep is too short for, and the longest of those windows. */
  keepTooShort: { readonly rows: number; readonly windowMs: number } | null;
}

function longer(known: Counts["keepTooShort"], windowMs: number): Counts["keepTooShort"] {
  return { rows: (known?.rows ?? 0) + 1, windowMs: Math.max(known?.windowMs ?? 0, windowMs) };
}

interface Planned {
  readonly entry: Entry;
  readonly as: Exclude<End, "not-done">;
}

const BATCH = 200;
// Each time another process has changed one of the records meanwhile.
const MOST_ROUNDS = 10;

export interface Writing {
  readonly target: Target;
  readonly dryRun: boolean;
  readonly onProgress: (done: number) => void;
  /** The state that the row gives its record; null: the record that is there stays as it is. */
  readonly onPlan?: (entry: Entry, state: State | "not-done" | null) => void;
}

export async function writeRecords(entries: EntrySource, survey: Survey, writing: Writing): Promise<Counts> {
  const counts: Counts = {
    imported: 0,
    strengthened: 0,
    doubted: 0,
    notDone: 0,
    known: 0,
    confirmedAgainst: 0,
    past: 0,
    damaged: 0,
    states: {},
    keepTooShort: null,
  };
  let done = 0;
  for await (const batch of batches(planned(entries, survey, counts, writing))) {
    await writeBatch(batch, counts, writing);
    done += batch.length;
    writing.onProgress(done);
  }
  return counts;
}

async function* planned(
  entries: EntrySource,
  survey: Survey,
  counts: Counts,
  writing: Writing,
): AsyncIterable<Planned> {
  const { store } = writing.target;
  for await (const entry of entries) {
    const found = representedBy(entry, survey);
    if (found === null) continue;
    if (found.as === "not-done") {
      counts.notDone += 1;
      writing.onPlan?.(entry, "not-done");
      continue;
    }
    const { at, keepMs: given } = entry.past;
    const { keepMs, guardUntil, tooShortFor } = entry.intent.keepOf(given);
    if (tooShortFor !== null) counts.keepTooShort = longer(counts.keepTooShort, tooShortFor.lengthMs);
    const isPast = keepMs !== null && at !== null && Math.max(at + keepMs, guardUntil ?? 0) <= store.now();
    if (found.as !== "doubt" && found.as !== "queued" && isPast) {
      found.key.past = true;
      counts.past += 1;
    } else yield { entry, as: found.as };
  }
}

async function* batches<T>(all: AsyncIterable<T>): AsyncIterable<T[]> {
  let batch: T[] = [];
  for await (const one of all) {
    batch.push(one);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function writeBatch(
  batch: readonly Planned[],
  counts: Counts,
  { target, dryRun, onPlan }: Writing,
): Promise<void> {
  let open = batch;
  for (let round = 0; open.length > 0; round += 1) {
    if (round === MOST_ROUNDS)
      throw new ProblemError(
        `${open.length} records are changed by other processes all the time. Import the file again: what is there already is kept.`,
      );
    const stored = await storedOf(
      open.map(({ entry }) => entry),
      target,
    );
    const puts = open.flatMap((one, i) => {
      const place = stored[i];
      if (place === undefined || place instanceof Error) {
        counts.damaged += 1;
        return [];
      }
      const { entry, as } = one;
      const { intent, stored: found } = place;
      const record = intent.recordOf(found, { ...entry.past, as });
      onPlan?.(entry, record?.state ?? null);
      if (record !== null) return [{ one, found, record }];
      counts.known += 1;
      if (as === "failed" && found?.record.state === "confirmed") counts.confirmedAgainst += 1;
      return [];
    });
    const results = dryRun
      ? puts.map(() => ({ ok: true }))
      : await target.store.write(puts.map(({ record, found }) => ({ record, expected: found?.version ?? null })));
    open = puts.flatMap(({ one, found, record }, i) => {
      if (results[i]?.ok !== true) return [one];
      if (found !== null && !expired(found.record, target.store.now()))
        counts[record.state === "confirmed" ? "strengthened" : "doubted"] += 1;
      else {
        counts.imported += 1;
        counts.states[record.state] = (counts.states[record.state] ?? 0) + 1;
      }
      return [];
    });
  }
}

/** Where the record of a row is, or would be. */
interface RowPlace {
  readonly intent: PastIntent;
  readonly stored: Stored | null;
}

// As many as a call follows.
const MOST_HOPS = 16;

/** A record that cannot be read is an error in its place. K10: an alias is followed to the record that it stands for. */
async function storedOf(entries: readonly Entry[], { store, exists }: Target): Promise<(RowPlace | Error)[]> {
  let places: (RowPlace | Error)[] = entries.map(({ intent }) => ({ intent, stored: null }));
  if (!exists) return places;
  const keyOf = ({ intent }: RowPlace) => intent.key;
  const read = async (some: readonly RowPlace[]): Promise<(RowPlace | Error)[]> => {
    const found = await askAround(some, keyOf, (asked) => store.read(asked.map(keyOf)));
    return some.map((place, i) => {
      const stored = found[i] ?? null;
      return stored instanceof Error ? stored : { ...place, stored };
    });
  };
  places = await read(places as RowPlace[]);
  for (let hop = 0; hop < MOST_HOPS; hop += 1) {
    const led = new Map<number, RowPlace>();
    const targets = new Map<number, string>();
    places.forEach((place, i) => {
      const target = place instanceof Error ? null : aliasTarget(place.stored?.record, store.now());
      if (target === null) return;
      targets.set(i, target.action);
      led.set(i, { intent: (place as RowPlace).intent.under(target, null), stored: null });
    });
    if (led.size === 0) break;
    const ends = await read([...led.values()]);
    [...led.keys()].forEach((at, i) => {
      const end = ends[i] as RowPlace | Error;
      const { intent } = places[at] as RowPlace;
      // From the row's own key: compared as the definition that wrote the record compared.
      places[at] =
        end instanceof Error
          ? end
          : {
              ...end,
              intent: intent.under({ key: end.intent.key, action: targets.get(at) ?? "" }, end.stored?.record ?? null),
            };
    });
  }
  return places;
}

export interface Unguarded {
  readonly place: number;
  readonly key: string;
  readonly why: string;
}

export interface Check {
  /** Rows that a call of the program would find done. */
  repeats: number;
  /** Rows that may have happened: not run, and to be settled. */
  inDoubt: number;
  /** Rows that failed or were not done, and may be tried again. */
  failed: number;
  /** Rows that a worker is to run, once. */
  queued: number;
  /** Rows that should be guarded and are not. */
  unguarded: number;
  readonly shown: Unguarded[];
}

const SHOWN = 20;

/** Reads the file once more, and asks the ledger about every row. */
export async function checkRows(entries: EntrySource, survey: Survey, target: Target): Promise<Check> {
  const check: Check = { repeats: 0, inDoubt: 0, failed: 0, queued: 0, unguarded: 0, shown: [] };
  for await (const batch of batches(entries as AsyncIterable<Entry>)) {
    const stored = await storedOf(batch, target);
    batch.forEach((entry, i) => {
      const key = survey.keys.get(entry.intent.key);
      if (key?.past) return;
      const place = stored[i] as RowPlace | Error;
      const why = whyUnguarded(place, key === undefined ? entry.end.as : togetherAs(key).as, check);
      if (why === null) return;
      check.unguarded += 1;
      if (check.shown.length < SHOWN) check.shown.push({ place: entry.place, key: entry.intent.key, why });
    });
  }
  return check;
}

/** Null: it is as it should be, and counted. */
function whyUnguarded(place: RowPlace | Error, as: End, check: Check): string | null {
  if (place instanceof Error) return "its record cannot be read: see nevertwice doctor";
  const { intent, stored } = place;
  const nextCall = intent.nextCall(stored);
  switch (nextCall.as) {
    case "repeat":
      check.repeats += 1;
      return null;
    case "conflict":
      return `a record with the same key has other values for ${nextCall.differs.join(", ")}: a call gets a conflict, and is not run`;
    case "held":
      if (as === "done") return "its record is in doubt or under way, and was left as it is";
      check[as === "failed" ? "failed" : "inDoubt"] += 1;
      return null;
    case "queued":
      if (as === "done") return "its record is queued and was left as it is: a worker would run it";
      check.queued += 1;
      return null;
    case "runs":
      return whyRuns(as, stored, check);
  }
}

function whyRuns(as: End, stored: Stored | null, check: Check): string | null {
  if (as === "failed" || as === "not-done") {
    check.failed += 1;
    return null;
  }
  if (stored === null) return "there is no record: a call would run";
  const { state, key } = stored.record;
  if (as === "queued")
    return `its record is ${state}, and was left as it is: no worker runs it. Bring it back: nevertwice retry ${key}`;
  return `its record is ${state}, and was left as it is: a call would run`;
}
