/**
 * Kinds of effect. Each sets how long its records are kept, how doubts are settled, how long queued work is tried and how
 * long an attempt may take. Options of the action win over its kind. What contradicts the kind is refused or warned about.
 */
import { type Duration, durationMs, formatDuration } from "./duration.ts";
import { configError } from "./errors.ts";
import { nearest } from "./nearest.ts";
import type { StoreTraits } from "./store.ts";

export type Effect = "payment" | "mail" | "notification" | "post";

const TIERS = {
  /** Never forgotten: a charge that is asked for again months later must still be a repeat. */
  payment: "forever",
  /** Mail that follows from something a person did: order confirmations, password resets. */
  transactional: "7d",
  /** Notifications that must not come twice. */
  important: "7d",
  /** Notifications and mail that soon make way for the next one, and do little harm twice. */
  frequent: "24h",
  /** A scheduled effect guards its slot for at least two intervals. */
  scheduled: (interval: Duration): number => {
    const ms = durationMs(interval, "keepFor.scheduled");
    if (ms > 0) return 2 * ms;
    throw configError(
      `keepFor.scheduled(${JSON.stringify(interval)}): the interval between two runs must be longer than zero: a record that is kept for no time guards nothing.`,
    );
  },
} as const;

// As `undefined` they would silently become the default.
const REMOVED: Readonly<Record<string, string>> = {
  mail: "keepFor.transactional (7 days), or keepFor.frequent (24 hours) for mail that may come twice",
  notification: "keepFor.important (7 days), or keepFor.frequent (24 hours)",
};

/** Retention by the weight of the effect; `keep` takes any of them, or a duration of your own. */
export const keepFor: typeof TIERS = Object.defineProperties(
  { ...TIERS },
  Object.fromEntries(
    Object.entries(REMOVED).map(([name, instead]) => [
      name,
      {
        get(): never {
          throw configError(`keepFor.${name} does not exist. Use ${instead}.`);
        },
      },
    ]),
  ),
);

export interface Preset {
  readonly keep: Duration | "forever";
  /** A shorter keep is warned about. */
  readonly leastKeep: Duration;
  readonly doubt: "hold";
  /** How long queued work is tried. */
  readonly queuedFor: Duration;
  readonly timeout: Duration;
}

/** With a kind of effect, the lease is three times the longest run: also where no heartbeat can be sent. */
export const LEASE_PER_RUN = 3;

const PRESETS: Readonly<Record<Effect, Preset>> = {
  payment: { keep: TIERS.payment, leastKeep: "30d", doubt: "hold", queuedFor: "3d", timeout: "60s" },
  mail: { keep: TIERS.transactional, leastKeep: "7d", doubt: "hold", queuedFor: "3d", timeout: "30s" },
  // What is a day old is no news: the next one is sent fresh.
  notification: { keep: TIERS.frequent, leastKeep: "24h", doubt: "hold", queuedFor: "24h", timeout: "20s" },
  // Published content is written by a model, which takes minutes, and is read by people who remember it.
  post: { keep: "30d", leastKeep: "7d", doubt: "hold", queuedFor: "24h", timeout: "5m" },
};

const EFFECTS = Object.keys(PRESETS) as readonly Effect[];

/** Null: no kind was given. */
export function presetOf(effect: Effect | undefined, where: string): Preset | null {
  if (effect === undefined) return null;
  if (Object.hasOwn(PRESETS, effect)) return PRESETS[effect];
  const given: unknown = effect;
  const meant = typeof given === "string" ? nearest(given.toLowerCase(), EFFECTS) : null;
  const hint = meant === null ? "" : ` Did you mean ${JSON.stringify(meant)}?`;
  const known = EFFECTS.map((one) => JSON.stringify(one)).join(", ");
  const shown = typeof given === "string" ? JSON.stringify(given.slice(0, 40)) : `of type ${typeof given}`;
  throw configError(`${where}: effect is ${shown}.${hint} It takes ${known}. Leave it out for anything else.`);
}

/** A kind that moves money. */
export function movesMoney(effect: unknown): boolean {
  return effect === "payment";
}

// By registered symbol: the action and whoever asks may come from two copies of the package.
const EFFECT = Symbol.for("nevertwice.effect");

/** Lets those who are handed an action know its kind of effect. */
export function withEffect<A extends object>(action: A, effect: Effect | null): A {
  return effect === null ? action : Object.defineProperty(action, EFFECT, { value: effect });
}

export function effectOf(action: object): unknown {
  return (action as { readonly [EFFECT]?: unknown })[EFFECT];
}

/** What must not be: a payment that runs again because nobody knows whether it happened. */
export function refuseContradiction(effect: Effect | undefined, doubt: unknown, where: string): void {
  const runsAgain = doubt === "retry" || (doubt as { holdFor?: unknown } | null | undefined)?.holdFor !== undefined;
  if (!movesMoney(effect) || !runsAgain) return;
  throw configError(
    `${where}: effect is "payment" and doubt is ${doubt === "retry" ? '"retry"' : "{ holdFor }"}: a payment whose answer was lost would be made again, and could be made twice. Give doubt: { resendWithin: "24h" } where the provider honours an idempotency key, { probe, quietFor } where it can be asked, or "hold". Leave effect out if a second one does no harm.`,
  );
}

export interface EffectWarning {
  readonly code: "KEEP_SHORT_FOR_EFFECT" | "FAIL_OPEN_FOR_MONEY";
  readonly message: string;
}

interface Guarded {
  readonly effect: Effect | null;
  readonly keepMs: number | null;
  readonly failOpen: boolean;
}

export function effectWarnings({ effect, keepMs, failOpen }: Guarded, action: string): EffectWarning[] {
  if (effect === null) return [];
  const warnings: EffectWarning[] = [];
  const { leastKeep } = PRESETS[effect];
  if (keepMs !== null && keepMs < durationMs(leastKeep, "leastKeep")) {
    warnings.push({
      code: "KEEP_SHORT_FOR_EFFECT",
      message: `action ${action}: its effect is ${JSON.stringify(effect)} and its record guards it for ${formatDuration(keepMs)} only: a repeat after that runs again. Leave keep out, or give at least ${JSON.stringify(leastKeep)}.${effect === "mail" ? ' For mail that may come twice, say effect: "notification".' : ""}`,
    });
  }
  if (movesMoney(effect) && failOpen) {
    warnings.push({
      code: "FAIL_OPEN_FOR_MONEY",
      message: `action ${action}: its effect is "payment" and whenStoreDown is "run": while the ledger is down, another process can make the same payment again. Leave whenStoreDown out, or make sure that the provider honours ctx.key.`,
    });
  }
  return warnings;
}

/** Why a store is no place to guard payments; null: it is one. `refusal`: what the store says against guarding `hold`. */
export function unfitForMoney(
  store: { readonly name: string; readonly traits: Pick<StoreTraits, "survives"> },
  refusal: string | null,
  action: string,
): string | null {
  const why =
    store.traits.survives === "nothing"
      ? "it forgets everything when the process ends"
      : refusal === null
        ? null
        : `it may lose a claim that it acknowledged (${refusal})`;
  if (why === null) return null;
  return `action ${action}: its effect is "payment" and the ledger is the ${store.name} store: ${why}, and then a repeat pays again. Use SQLite or Postgres for payments; another store may guard the rest.`;
}
