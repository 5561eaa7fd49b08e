/**
 * What a user called, from the name of the action in the ledger. Runs, sequences and jobs are recorded as actions whose names
 * have a prefix; messages name the entry, since that is what a program can call.
 */
import type { LedgerRecord } from "./record.ts";

const PREFIXES = {
  run: "run:",
  step: "step:",
  branch: "branch:",
  sequence: "sequence:",
  job: "job:",
  plan: "job-plan:",
  since: "job-since:",
} as const;

export type EntryKind = keyof typeof PREFIXES | "action";

export interface Entry {
  readonly kind: EntryKind;
  readonly name: string;
}

export function entryAction(kind: keyof typeof PREFIXES, name: string): string {
  return `${PREFIXES[kind]}${name}`;
}

export function entryOf(action: string): Entry {
  for (const [kind, prefix] of Object.entries(PREFIXES)) {
    if (action.length > prefix.length && action.startsWith(prefix))
      return { kind: kind as EntryKind, name: action.slice(prefix.length) };
  }
  return { kind: "action", name: action };
}

/** What a program calls: the run of a step, the job of a plan, or the action itself. */
export function callable(action: string): string {
  const { kind, name } = entryOf(action);
  switch (kind) {
    case "run":
    case "step":
    case "branch":
      return `the run ${name}`;
    case "sequence":
      return `the sequence ${name}`;
    case "job":
    case "plan":
    case "since":
      return `the job ${name}`;
    case "action":
      return name;
  }
}

/** For the beginning of a message: what the attempt belongs to. */
export function entryLabel(action: string): string {
  const { kind, name } = entryOf(action);
  switch (kind) {
    case "step":
      return `a step of the run ${name}`;
    case "branch":
      return `a branch of the run ${name}`;
    case "plan":
      return `the plan of the job ${name}`;
    case "since":
      return `the beginning of the job ${name}`;
    case "action":
      return `action ${name}`;
    default:
      return `${kind} ${name}`;
  }
}

export function isStep(action: string): boolean {
  const { kind } = entryOf(action);
  return kind === "step" || kind === "sequence";
}

/** The name of a step of a run or a sequence, which its record's input has; null: no step, or not readable. */
export function stepOf({ action, input }: Pick<LedgerRecord, "action" | "input">): string | null {
  if (!isStep(action) || input === null || !("json" in input)) return null;
  const { step } = (JSON.parse(input.json) ?? {}) as { readonly step?: unknown };
  return typeof step === "string" ? step : null;
}

/** Beginnings of names under which the ledger keeps records of its own. */
export const OWN_NAMES: readonly string[] = ["nevertwice.", ...Object.values(PREFIXES)];

/** Why a caller from outside may not use this name: the ledger keeps records of its own under it. Null: it may. */
export function ownName(action: string): string | null {
  const prefix = OWN_NAMES.find((one) => action.startsWith(one));
  if (prefix === undefined) return null;
  return `names that begin with "${prefix}" are the ledger's own (notes, runs, sequences, jobs), and records of yours would be taken for them. Choose another name`;
}

/** A step of a run: the run goes on with what it returned, so that it is not settled as done without a result. */
export function needsResult(action: string): boolean {
  return entryOf(action).kind === "step";
}
