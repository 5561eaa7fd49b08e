/** An action's options, checked once when the action is made, in milliseconds from then on. */
import { type Duration, durationMs, formatDuration } from "./duration.ts";
import {
  type Effect,
  type EffectWarning,
  effectWarnings,
  LEASE_PER_RUN,
  type Preset,
  presetOf,
  refuseContradiction,
} from "./effect.ts";
import { configError } from "./errors.ts";
import { longerKeep } from "./retention.ts";
import { type RetryOptions, type RetryPolicies, resolveRetry } from "./retry.ts";

/** What a probe may answer; anything else counts as "unknown". */
export type ProbeAnswer<R> =
  | { readonly as: "done"; readonly result?: R }
  | { readonly as: "not-done" }
  | { readonly as: "unknown" }
  | "not-done"
  | "unknown";

/** How an attempt in doubt may be settled without a person. */
export interface SettleOptions<Probe> {
  /** The provider honours our key: send the same bytes again, only this long after the first time. */
  readonly resendWithin?: Duration;
  /** The provider can be asked. */
  readonly probe?: Probe;
  /** How long after the doubt began no earlier attempt can still arrive. Needed with `probe`. */
  readonly quietFor?: Duration;
  /** Nobody can be asked: held this long, then the next call runs it again. Stands alone. */
  readonly holdFor?: Duration;
}

export type DoubtOption<Probe> = "hold" | "retry" | SettleOptions<Probe>;

export interface PolicyOptions<Probe> {
  /** The kind of effect: sets keep, doubt, retry, lease and timeout where they are not given. */
  readonly effect?: Effect;
  readonly keep?: Duration | "forever";
  readonly lease?: Duration;
  readonly timeout?: Duration;
  readonly wait?: Duration;
  readonly doubt?: DoubtOption<Probe>;
  readonly retry?: RetryOptions;
  /** The ledger can't be reached: "refuse" (nothing is run), or "run" without its protection. */
  readonly whenStoreDown?: "refuse" | "run";
}

export type DoubtPolicy =
  /** `forMs`: after this time the next call runs it again. Absent: held until somebody decides. */
  | { readonly kind: "hold"; readonly forMs?: number }
  | { readonly kind: "retry" }
  | {
      readonly kind: "settle";
      readonly resendWithinMs: number | null;
      readonly probe: { readonly quietForMs: number } | null;
    };

export interface Policy extends RetryPolicies {
  readonly effect: Effect | null;
  readonly keepMs: number | null;
  /** Given, not the default: then it is not raised to what the windows in a key need. */
  readonly keepByHand: boolean;
  readonly leaseMs: number;
  /** Infinity: a container without a timeout. */
  readonly timeoutMs: number;
  /** How much of the lease must be left when the effect begins. */
  readonly roomMs: number;
  readonly waitMs: number;
  readonly doubt: DoubtPolicy;
  readonly failOpen: boolean;
  /** Its records guard until the answer has arrived at the caller, and for `keepMs` at most. */
  readonly untilDelivered?: boolean;
}

export const DEFAULT_KEEP = "30d";
const DEFAULT_LEASE_MS = 60_000;
// As long as a blocked event loop, a suspended host or an unreachable ledger may take before another holder takes over.
const CONTAINER_LEASE_MS = 1_800_000;
const DEFAULT_WAIT = "10s";
// A heartbeat goes out every third of the lease: below this a busy event loop could not keep one.
const SHORTEST_LEASE_MS = 30;

const KEEP_UNLESS_GIVEN = Symbol("keep unless given");

/** Options with another default for `keep`. As a default it is raised to what the windows in a key need; a given one is not. */
export function withDefaultKeep<O extends { readonly keep?: Duration | "forever" }>(options: O, keep: Duration): O {
  return { ...options, [KEEP_UNLESS_GIVEN]: keep };
}

/** Something longer, such as a sequence, may need more than its kind of effect does. */
function defaultKeepOf(options: object, preset: Preset | null, where: string): number | null {
  const unlessGiven = (options as { readonly [KEEP_UNLESS_GIVEN]?: Duration })[KEEP_UNLESS_GIVEN];
  if (preset === null) return resolveKeep(unlessGiven ?? DEFAULT_KEEP, where);
  const keepMs = resolveKeep(preset.keep, where);
  return unlessGiven === undefined ? keepMs : longerKeep(keepMs, resolveKeep(unlessGiven, where));
}

const CONTAINER = Symbol("container");

/**
 * Options of a container: work of unknown length whose effects are guarded one by one. It has no timeout unless one is
 * given, and heartbeats keep its lease, so it may run for longer than the lease.
 */
export function asContainer<O extends object>(options: O): O {
  return { ...options, [CONTAINER]: true };
}

export function isContainer(options: object): boolean {
  return CONTAINER in options;
}

const DELIVERED = Symbol("until delivered");

/** Options of an action whose callers can tell when its answer has arrived: `keep` is the longest it guards a call. */
export function untilDelivered<O extends { readonly keep?: Duration | "forever" }>(options: O): O {
  return { ...options, [DELIVERED]: true };
}

/** The same mark on other options that are made of those. */
export function asDelivered<O extends object>(options: O, of: object): O {
  return DELIVERED in of ? { ...options, [DELIVERED]: true } : options;
}

export function resolvePolicy<Probe>(options: PolicyOptions<Probe>, where: string): Policy {
  const preset = presetOf(options.effect, where);
  refuseContradiction(options.effect, options.doubt, where);
  const { leaseMs, timeoutMs } = isContainer(options)
    ? containerLease(options, where)
    : resolveLease(options, where, preset);
  const storeDown = options.whenStoreDown ?? "refuse";
  if (storeDown !== "refuse" && storeDown !== "run") {
    throw configError(`${where}: whenStoreDown is ${JSON.stringify(storeDown)}; it takes "refuse" or "run".`);
  }
  return {
    effect: options.effect ?? null,
    keepMs: options.keep === undefined ? defaultKeepOf(options, preset, where) : resolveKeep(options.keep, where),
    keepByHand: options.keep !== undefined,
    leaseMs,
    timeoutMs,
    roomMs: timeoutMs > leaseMs ? effectShare(leaseMs) : timeoutMs,
    waitMs: durationMs(options.wait ?? DEFAULT_WAIT, `${where}: wait`),
    doubt: resolveDoubt(options.doubt ?? preset?.doubt ?? "hold", where),
    ...resolveRetry(options.retry, where, preset?.queuedFor),
    failOpen: storeDown === "run",
    ...(DELIVERED in options && { untilDelivered: true }),
  };
}

/** Milliseconds; null: forever. */
export function resolveKeep(keep: Duration | "forever", where: string): number | null {
  if (keep === "forever") return null;
  const ms = durationMs(keep, `${where}: keep`);
  if (ms === 0)
    throw configError(`${where}: keep is 0, so nothing would be guarded. Give a duration such as "30d", or "forever".`);
  return ms;
}

function resolveLease(options: { lease?: Duration; timeout?: Duration }, where: string, preset: Preset | null) {
  const given = {
    leaseMs: options.lease === undefined ? undefined : durationMs(options.lease, `${where}: lease`),
    timeoutMs: options.timeout === undefined ? undefined : durationMs(options.timeout, `${where}: timeout`),
  };
  const { leaseMs, timeoutMs } = preset === null ? followingEachOther(given) : byPreset(given, preset, where);
  requireLease(leaseMs, where);
  if (timeoutMs < 1 || timeoutMs > leaseMs) {
    throw configError(
      `${where}: timeout (${formatDuration(timeoutMs)}) must be above zero and no longer than lease (${formatDuration(leaseMs)}): an attempt may not outlive its lease. Raise lease or lower timeout.`,
    );
  }
  return { leaseMs, timeoutMs };
}

interface GivenTimes {
  readonly leaseMs: number | undefined;
  readonly timeoutMs: number | undefined;
}

/** Whichever is left out follows the other, at the proportion of the defaults (50 s of 60 s). */
function followingEachOther(given: GivenTimes) {
  const leaseMs = given.leaseMs ?? leaseAround(given.timeoutMs, DEFAULT_LEASE_MS);
  return { leaseMs, timeoutMs: given.timeoutMs ?? effectShare(leaseMs) };
}

/** The same, with a lease of three times the longest run. */
function byPreset(given: GivenTimes, preset: Preset, where: string) {
  const usualMs = durationMs(preset.timeout, `${where}: timeout`);
  const shortened = given.leaseMs === undefined ? usualMs : Math.floor(given.leaseMs / LEASE_PER_RUN);
  const timeoutMs = given.timeoutMs ?? shortened;
  return { leaseMs: given.leaseMs ?? LEASE_PER_RUN * Math.max(usualMs, timeoutMs), timeoutMs };
}

function containerLease({ lease, timeout }: { lease?: Duration; timeout?: Duration }, where: string) {
  const leaseMs = lease === undefined ? CONTAINER_LEASE_MS : durationMs(lease, `${where}: lease`);
  const timeoutMs = timeout === undefined ? Number.POSITIVE_INFINITY : durationMs(timeout, `${where}: timeout`);
  requireLease(leaseMs, where);
  if (timeoutMs < 1) throw configError(`${where}: timeout is 0. Give a duration above zero, or leave it out for none.`);
  return { leaseMs, timeoutMs };
}

function requireLease(leaseMs: number, where: string): void {
  if (leaseMs >= SHORTEST_LEASE_MS) return;
  throw configError(
    `${where}: lease is ${formatDuration(leaseMs)}; the shortest that heartbeats can keep is ${SHORTEST_LEASE_MS}ms.`,
  );
}

function effectShare(leaseMs: number): number {
  return Math.floor((leaseMs * 5) / 6);
}

/** The lease where none was given: the one that is usual there, or longer where the timeout needs it. */
function leaseAround(timeoutMs: number | undefined, usualMs: number): number {
  return Math.max(usualMs, Math.ceil((timeoutMs ?? 0) * 1.2));
}

/** A part of something longer is kept as long as that, or as its kind of effect needs. Undefined: it has no kind. */
export function inheritedKeep(
  effect: Effect | undefined,
  keepMs: number | null,
  where: string,
): number | null | undefined {
  const preset = presetOf(effect, where);
  return preset === null ? undefined : longerKeep(keepMs, resolveKeep(preset.keep, where));
}

/** A part of something that is leased has the same lease, unless it has its own, or a timeout or an effect that needs a longer one. */
export function inheritedLease(
  { lease, timeout, effect }: { readonly lease?: Duration; readonly timeout?: Duration; readonly effect?: Effect },
  leaseMs: number,
  where: string,
): Duration {
  if (lease !== undefined) return lease;
  const preset = presetOf(effect, where);
  if (preset !== null)
    return Math.max(leaseMs, resolveLease(timeout === undefined ? {} : { timeout }, where, preset).leaseMs);
  return leaseAround(timeout === undefined ? undefined : durationMs(timeout, `${where}: timeout`), leaseMs);
}

/** What something longer says for all of its parts. */
export interface SharedTerms {
  readonly leaseMs: number;
  readonly timeoutMs: number | null;
  readonly doubt:
    | Exclude<DoubtOption<never>, { readonly probe?: unknown }>
    | { readonly resendWithin: Duration }
    | null;
}

/**
 * What a part says itself comes first, then what its kind of effect needs, then what it is a part of. A timeout that is not its
 * own never outlasts a lease that is.
 */
export function inheritedTerms<Probe>(own: PolicyOptions<Probe>, shared: SharedTerms, where: string) {
  const { lease, timeout, effect, doubt } = own;
  const ofAll = effect === undefined ? shared : { timeoutMs: null, doubt: null };
  const most = lease === undefined ? Number.POSITIVE_INFINITY : effectShare(durationMs(lease, `${where}: lease`));
  const times = {
    ...(timeout !== undefined && { timeout }),
    ...(timeout === undefined && ofAll.timeoutMs !== null && { timeout: Math.min(ofAll.timeoutMs, most) }),
  };
  return {
    ...times,
    lease: inheritedLease({ ...own, ...times }, shared.leaseMs, where),
    ...(doubt === undefined && ofAll.doubt !== null && { doubt: ofAll.doubt }),
  };
}

function resolveDoubt<Probe>(doubt: DoubtOption<Probe>, where: string): DoubtPolicy {
  if (doubt === "hold" || doubt === "retry") return { kind: doubt };
  if (
    typeof doubt !== "object" ||
    doubt === null ||
    (doubt.resendWithin === undefined && doubt.probe === undefined && doubt.holdFor === undefined)
  ) {
    throw configError(
      `${where}: doubt is ${typeof doubt === "bigint" ? String(doubt) : JSON.stringify(doubt)}; it takes "hold", "retry", { resendWithin: "24h" }, { probe, quietFor: "2m" } or { holdFor: "15m" }.`,
    );
  }
  if (doubt.holdFor !== undefined) return holdFor(doubt, where);
  if (doubt.probe !== undefined && typeof doubt.probe !== "function") {
    throw configError(
      `${where}: doubt.probe must be a function that answers { as: "done", result }, "not-done" or "unknown".`,
    );
  }
  if (doubt.probe !== undefined && doubt.quietFor === undefined) {
    throw configError(
      `${where}: doubt.probe needs quietFor: how long an attempt already under way may still arrive at the provider (plus the lag of what the probe reads). Asking earlier could answer "not done" about a message in transit.`,
    );
  }
  if (doubt.probe === undefined && doubt.quietFor !== undefined) {
    throw configError(
      `${where}: doubt.quietFor says when doubt.probe may be asked, and there is no probe. Give one, or leave quietFor out.`,
    );
  }
  return {
    kind: "settle",
    resendWithinMs:
      doubt.resendWithin === undefined ? null : durationMs(doubt.resendWithin, `${where}: doubt.resendWithin`),
    probe:
      doubt.probe === undefined
        ? null
        : { quietForMs: durationMs(doubt.quietFor as Duration, `${where}: doubt.quietFor`) },
  };
}

function holdFor<Probe>({ holdFor: given, ...others }: SettleOptions<Probe>, where: string): DoubtPolicy {
  const other = Object.keys(others)[0];
  if (other !== undefined)
    throw configError(
      `${where}: doubt.holdFor runs it again without knowing whether it happened, and doubt.${other} is a way to know. Keep one.`,
    );
  const forMs = durationMs(given as Duration, `${where}: doubt.holdFor`);
  if (forMs === 0)
    throw configError(`${where}: doubt.holdFor is 0, so nothing would be held. Give a duration, or doubt: "retry".`);
  return { kind: "hold", forMs };
}

export interface PolicyWarning {
  readonly code: "KEEP_TOO_SHORT" | "KEEP_SHORT_FOR_MONEY" | EffectWarning["code"];
  readonly message: string;
}

const MONEY = /(^|[^a-z])(pay|payment|payout|charge|refund|invoice|purchase|debit|bill)(s|ing)?([^a-z]|$)/i;
const MONEY_KEEP_MS = 30 * 86_400_000;

export function policyWarnings(policy: Policy, action: string): PolicyWarning[] {
  const warnings: PolicyWarning[] = effectWarnings(policy, action);
  const horizon = retryHorizonMs(policy);
  if (policy.keepMs === null) return warnings;
  if (policy.keepMs < horizon) {
    warnings.push({
      code: "KEEP_TOO_SHORT",
      message: `action ${action}: keep (${formatDuration(policy.keepMs)}) is shorter than its own retries may take (${formatDuration(horizon)}): a late retry could find its record gone and send again. Raise keep, or lower retry.attempts, retry.max or the doubt windows.`,
    });
  }
  const spaced = action.replace(/([a-z])([A-Z])/g, "$1 $2");
  // Whoever named the kind of effect has said what it is.
  if (policy.effect === null && MONEY.test(spaced) && policy.keepMs < MONEY_KEEP_MS) {
    warnings.push({
      code: "KEEP_SHORT_FOR_MONEY",
      message: `action ${action}: it sounds like money and its record guards it for ${formatDuration(policy.keepMs)} only. Use keep: keepFor.payment ("forever"), or at least "30d".`,
    });
  }
  return warnings;
}

/** O9: no heartbeat was possible for so long that the lease is less than three times that; null: it is long enough. */
export function shortLease(
  action: string,
  { leaseMs, silentMs, because }: { readonly leaseMs: number; readonly silentMs: number; readonly because: string },
): string | null {
  if (leaseMs >= LEASE_PER_RUN * silentMs) return null;
  const needed = Math.ceil((LEASE_PER_RUN * silentMs) / 1_000) * 1_000;
  return `action ${action}: an attempt could send no heartbeat for ${formatDuration(Math.round(silentMs))}, because ${because}, and its lease is ${formatDuration(leaseMs)}. A run that takes longer than its lease is taken for one that died. Give lease: ${JSON.stringify(formatDuration(needed))} (three times as long) or more, or shorten what runs.`;
}

/** The longest one round of tries of a direct call may take from its first attempt to its last. Queued work is never swept. */
export function retryHorizonMs(policy: Policy): number {
  let backoffs = 0;
  for (let tries = 1; tries < policy.attempts; tries += 1) {
    backoffs += Math.min(policy.maxBackoffMs, policy.backoffMs * 2 ** Math.min(30, tries - 1));
  }
  const settling =
    policy.doubt.kind === "settle" ? (policy.doubt.resendWithinMs ?? 0) + (policy.doubt.probe?.quietForMs ?? 0) : 0;
  // What runs, waits for its next try or is in doubt does not expire, however long it takes.
  const running = policy.timeoutMs === Number.POSITIVE_INFINITY ? 0 : policy.attempts * policy.leaseMs;
  return running + backoffs + settling;
}
