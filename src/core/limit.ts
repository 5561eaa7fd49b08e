/** How much of an action may be under way at once, or begin per time, at one destination. Pure: the notes it is kept in are swapped by workers. */
import { type Duration, durationMs } from "./duration.ts";
import { configError } from "./errors.ts";
import type { Instant } from "./record.ts";

export interface LimitOptions<I> {
  /** The destination: a host, an account, a mailbox provider. Without it all of the action share one limit. */
  readonly by?: (input: I) => string;
  /** At most this many under way at once. */
  readonly concurrency?: number;
  /** At most this many begun per time: "10/s", "600/m", "5000/h", "100/10s". */
  readonly rate?: string;
}

export interface Limit {
  readonly by: ((input: unknown) => string) | null;
  readonly concurrency: number | null;
  /** From one begin to the next, at least. */
  readonly spacingMs: number | null;
}

const MOST_SLOTS = 1_000;

export function resolveLimit<I>(options: LimitOptions<I> | undefined, where: string): Limit | null {
  if (options === undefined) return null;
  if (typeof options !== "object" || options === null)
    throw configError(`${where}: limit takes { by, concurrency, rate }.`);
  const { by, concurrency, rate, ...rest } = options;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw configError(`${where}: limit has no option ${JSON.stringify(unknown)}. It takes by, concurrency and rate.`);
  if (by !== undefined && typeof by !== "function")
    throw configError(`${where}: limit.by must be a function of the input that names the destination.`);
  if (concurrency === undefined && rate === undefined)
    throw configError(
      `${where}: limit says neither concurrency nor rate, so it would limit nothing. Give one of them.`,
    );
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= MOST_SLOTS))
    throw configError(
      `${where}: limit.concurrency is ${String(concurrency)}; it takes a whole number from 1 to ${MOST_SLOTS}.`,
    );
  return {
    by: (by as Limit["by"]) ?? null,
    concurrency: concurrency ?? null,
    spacingMs: rate === undefined ? null : spacingOf(rate, `${where}: limit.rate`),
  };
}

/** Evenly spaced: no window of the given length ever holds more than the given number of begins. */
function spacingOf(rate: string, where: string): number {
  const [, count, every] = /^\s*(\d+)\s*\/\s*(\d*\s*(?:ms|s|m|h|d))\s*$/.exec(String(rate)) ?? [];
  const unit = every === undefined ? undefined : /^\d/.test(every) ? every : `1${every}`;
  if (unit === undefined || Number(count) < 1)
    throw configError(
      `${where}: ${JSON.stringify(rate)} is not a rate. Write how many per time: "10/s", "600/m", "100/10s".`,
    );
  return durationMs(unit as Duration, where) / Number(count);
}

/** What the note of a destination says. */
export interface LaneState {
  /** Who is under way, and until when its slot is kept for it (steady clock). */
  readonly held: readonly { readonly id: string; readonly until: number; readonly epoch: string }[];
  /** When the next may begin (wall clock of the store). */
  readonly nextAt: number;
  /** Work that found no place was put off until here; the next to find none goes behind it. */
  readonly laterAt: number;
  /** How long one is under way, about. */
  readonly serviceMs: number;
}

export const EMPTY_LANE: LaneState = { held: [], nextAt: 0, laterAt: 0, serviceMs: 100 };

export interface LaneWish {
  readonly id: string;
  /** How long its slot is kept if nobody gives it back. */
  readonly holdMs: number;
}

export type LaneAnswer =
  /** Begin, but not before `at`. */
  | { readonly id: string; readonly go: true; readonly at: number }
  /** Come back then. `opensInMs`: until the rate lets the next one begin; 0 where only a slot is missing. */
  | { readonly id: string; readonly go: false; readonly at: number; readonly opensInMs: number };

// Up to here a begin that is due soon is waited for, instead of being put back.
const WORTH_WAITING_MS = 250;
const SOONEST_MS = 20;
const LATEST_MS = 30_000;
const SERVICE_WEIGHT = 0.1;

/** Who of those who wish may begin. Slots whose holder fell silent are free again when their time is over. */
export function askLane(
  state: LaneState,
  limit: Limit,
  wishes: readonly LaneWish[],
  at: Instant,
): { readonly state: LaneState; readonly answers: readonly LaneAnswer[] } {
  const held = state.held.filter(({ until, epoch }) => epoch === at.epoch && until > at.steady);
  let { nextAt } = state;
  // A store's clock that was set back must not stop a lane for as long as it was set back.
  let laterAt = Math.min(Math.max(state.laterAt, at.now), at.now + LATEST_MS);
  const spacing = limit.spacingMs ?? 0;
  // With a slow rate the last begin counts even then: the next one comes a whole spacing later, not at once.
  if (nextAt > at.now + Math.max(LATEST_MS, 2 * spacing)) nextAt = at.now + (spacing > LATEST_MS ? spacing : 0);
  const pauseMs = Math.max(spacing, limit.concurrency === null ? 0 : state.serviceMs / limit.concurrency);
  const answers = wishes.map(({ id, holdMs }): LaneAnswer => {
    const beginAt = Math.max(at.now, nextAt);
    const room = limit.concurrency === null || held.length < limit.concurrency;
    if (room && beginAt - at.now <= WORTH_WAITING_MS) {
      nextAt = beginAt + spacing;
      if (limit.concurrency !== null) held.push({ id, until: at.steady + holdMs, epoch: at.epoch });
      return { id, go: true, at: beginAt };
    }
    laterAt = Math.min(Math.max(laterAt, nextAt) + Math.max(SOONEST_MS, pauseMs), at.now + LATEST_MS);
    return { id, go: false, at: Math.ceil(laterAt), opensInMs: beginAt - at.now };
  });
  return { state: { ...state, held, nextAt, laterAt }, answers };
}

const LEAST_MEMORY_MS = 3_600_000;

/** How long the state has to be remembered: while a slot is held or a begin is not allowed yet, and an hour at least. */
export function laneMemoryMs(state: LaneState, limit: Limit, at: Instant): number {
  const held = state.held.map(({ until }) => until - at.steady);
  return Math.ceil(Math.max(LEAST_MEMORY_MS, 2 * (limit.spacingMs ?? 0), state.nextAt - at.now, ...held));
}

/** What a note says; nothing, where it cannot be read. */
export function readLane(json: string | null): LaneState {
  if (json === null) return EMPTY_LANE;
  try {
    const state = { ...EMPTY_LANE, ...(JSON.parse(json) as Partial<LaneState>) };
    const { held, nextAt, laterAt, serviceMs } = state;
    const readable = Array.isArray(held) && [nextAt, laterAt, serviceMs].every(Number.isFinite);
    return readable ? state : EMPTY_LANE;
  } catch {
    return EMPTY_LANE;
  }
}

export function leaveLane(state: LaneState, ids: ReadonlySet<string>, tookMs: number | null): LaneState {
  const serviceMs =
    tookMs === null
      ? state.serviceMs
      : state.serviceMs + SERVICE_WEIGHT * (Math.min(tookMs, LATEST_MS) - state.serviceMs);
  return { ...state, held: state.held.filter(({ id }) => !ids.has(id)), serviceMs };
}
