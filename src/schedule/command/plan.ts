/** The plan of a command's slot: what another command printed as JSON, once for the slot. */
import type { Duration } from "../../core/duration.ts";
import { configError, isNevertwiceError } from "../../core/errors.ts";
import { whyNotJson } from "../../core/foreign-json.ts";
import { asContainer } from "../../core/policy.ts";
import { redact } from "../../core/redact.ts";
import type { AttemptContext } from "../../engine/context.ts";
import { DEFAULT_LIMITS } from "../../engine/payloads.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import { parseExactJson } from "../exact-json.ts";
import { planAction } from "../job-action.ts";
import { keptPlan } from "../kept-plan.ts";
import { CLAIMED_BY_PROCESS } from "../slot-attempt.ts";
import { GatedChild, type GatedOptions } from "./gated-child.ts";

export interface CommandPlanOptions extends Omit<GatedOptions, "command"> {
  readonly job: string;
  readonly slot: string;
  /** For /bin/sh. */
  readonly plan: string;
  readonly timeout?: string;
  /** As of the command itself. */
  readonly lease?: Duration;
  readonly onSignal: (listen: (signal: NodeJS.Signals) => void) => () => void;
}

/** What of nevertwice() a plan needs. */
export interface PlanLedger {
  once<R>(
    name: string,
    parts: readonly unknown[],
    run: (context: AttemptContext) => R | Promise<R>,
    options?: object,
  ): Promise<R>;
}

/** There is no plan, and without one the command is not run. */
export class PlanFailed extends Error {
  override readonly name = "PlanFailed";
}

// Long enough for heartbeats, and short enough that a planner that was killed does not hold up the slot.
const PLAN_LEASE = "60s";
const KILL_AFTER_MS = 5_000;

/** Made by the first call for the slot; every later one, of whatever host, gets the same. */
export async function makePlan(ledger: PlanLedger, options: CommandPlanOptions): Promise<unknown> {
  const terms = asContainer({
    ...CLAIMED_BY_PROCESS,
    lease: options.lease ?? PLAN_LEASE,
    ...(options.timeout !== undefined && { timeout: options.timeout }),
    keep: "forever",
    wait: 0,
    doubt: "retry",
    retry: { attempts: 1 },
    classify: (error: unknown) => (error instanceof PlanFailed ? "refused" : undefined),
  });
  try {
    return await ledger.once(planAction(options.job), [options.slot], ({ signal }) => printed(options, signal), terms);
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    if (error.cause instanceof PlanFailed) throw error.cause;
    if (error.code !== "OUTCOME_UNKNOWN" || options.timeout === undefined) throw error;
    // A plan has no effects: that its end is not known holds up nothing.
    throw new PlanFailed(`the command of --plan was ended after ${options.timeout} (--timeout)`);
  }
}

async function printed(options: CommandPlanOptions, signal: AbortSignal): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const child = await GatedChild.start({
    ...options,
    command: ["/bin/sh", "-c", options.plan],
    stdout: (chunk) => {
      bytes += chunk.length;
      if (bytes <= DEFAULT_LIMITS.resultBytes) chunks.push(chunk);
    },
  });
  const stopListening = options.onSignal((name) => child.signal(name));
  const stop = () => {
    child.signal("SIGTERM");
    setTimeout(() => child.signal("SIGKILL"), KILL_AFTER_MS).unref();
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    const { exitCode, signal: ended, lastLines } = await child.run();
    if (exitCode !== 0) {
      const how = ended === null ? `exited with ${exitCode}` : `was ended by ${ended}`;
      const said = lastLines.length === 0 ? "" : `: ${lastLines.slice(-3).map(redact).join(" | ")}`;
      throw new PlanFailed(`the command of --plan ${how}${said}`);
    }
    return parsed(Buffer.concat(chunks), bytes);
  } finally {
    signal.removeEventListener("abort", stop);
    stopListening();
  }
}

function parsed(text: Buffer, bytes: number): unknown {
  const most = DEFAULT_LIMITS.resultBytes;
  if (bytes > most)
    throw new PlanFailed(
      `the command of --plan printed ${bytes} bytes, and ${most} is the most. Store what is large elsewhere, and print its id or path`,
    );
  let plan: unknown;
  try {
    plan = parseExactJson(text.toString());
  } catch (error) {
    const what = bytes === 0 ? "it printed nothing" : whyNotJson(error);
    throw new PlanFailed(
      `the command of --plan must print one JSON document on its standard output, and ${what}. Print everything else on standard error`,
    );
  }
  try {
    return keptPlan(plan, "--plan");
  } catch (error) {
    throw isNevertwiceError(error) ? new PlanFailed(error.message) : error;
  }
}

/** One environment variable holds 128 KiB on Linux. */
export const MOST_VARIABLE_BYTES = 100_000;

/** The text of the variable, if it fits. */
export function planVariables(plan: unknown, file: string): Record<string, string> {
  const json = JSON.stringify(plan ?? null);
  const fits = Buffer.byteLength(json) <= MOST_VARIABLE_BYTES;
  return { NEVERTWICE_PLAN_FILE: file, ...(fits && { NEVERTWICE_PLAN: json }) };
}

export function requirePlanText(plan: string | undefined): void {
  if (plan === undefined || plan.trim() !== "") return;
  throw configError(
    "--plan is blank. Give a command that prints the plan as JSON, such as --plan 'python3 plan.py' or --plan 'cat plan.json'.",
  );
}
