/** What can be asked over HTTP, in one table: paths, fields and answers. It checks requests and makes the OpenAPI document. */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { toStoredError } from "../core/stored-error.ts";
import { type ActionServices, createAction } from "../engine/action.ts";
import { resolveDoubt } from "../engine/operate.ts";
import { LONGEST_TOKEN } from "./attempt-token.ts";
import { Attempts, type Caller, definitionOf, identityOf, requireFreeName } from "./attempts.ts";
import { type Details, storableDetails } from "./settlement-details.ts";
import {
  checked,
  duration,
  either,
  type Fields,
  fields,
  instant,
  instantMs,
  json,
  list,
  oneOf,
  optional,
  recordKey,
  required,
  text,
  type ValuesOf,
  whole,
} from "./shape.ts";
import { Work } from "./work.ts";

export type AnswerKind = "claimed-or-outcome" | "lease" | "outcome" | "work";

export interface Operation {
  readonly name: string;
  readonly summary: string;
  readonly fields: Fields;
  readonly answers: AnswerKind;
  run(body: unknown, caller: Caller): Promise<object>;
}

const LONGEST_NAME = 200;
const LONGEST_SCOPE = 1_024;
const LONGEST_ID = 200;
const MOST_PARTS = 64;
const MOST_ATTEMPTS = 1_000;
const MOST_ACTIONS = 64;
const MOST_TAKEN = 100;
/** How long a request may be kept waiting; a client that wants to wait longer asks again. */
export const LONGEST_WAIT_MS = 300_000;

const wait = duration(LONGEST_WAIT_MS, "5m");
const keep = either(oneOf("forever"), duration());
const retry = fields({
  attempts: optional(whole(1, MOST_ATTEMPTS), "tries in one round, the first one included"),
  backoff: optional(duration(), "the pause before the second try; it doubles from there"),
  max: optional(duration(), "the longest pause"),
  for: optional(duration(), "how long queued work is tried, from its first try on: 3d unless given"),
});

const INTENT = {
  action: required(text(LONGEST_NAME), "the name of the action, as in nt.action(name) and nt.once(name)"),
  parts: required(list(json, 1, MOST_PARTS), "what makes it this intent and no other: the parts of its key"),
  version: optional(whole(1, Number.MAX_SAFE_INTEGER), "1 unless a deliberate resend raised it"),
  scope: optional(text(LONGEST_SCOPE), "a run, session or thread id: another scope is another intent"),
};

const AGENT = { agent: optional(text(LONGEST_NAME), "who asks, for people who look at the ledger") };
const REQUEST = optional(
  text(LONGEST_ID),
  "a random id for this one call: sent again after a lost reply, it gets the same attempt. Never use one id for two callers",
);
const MARK = optional(
  oneOf("auto", "manual"),
  '"auto" (unless given): the attempt counts as sent from now on. "manual": from POST /v1/sent on',
);
const TOKEN = { token: required(text(LONGEST_TOKEN), "the token of the attempt, as the claim answered it") };

const CLAIM = {
  ...INTENT,
  input: optional(json, "what is sent, apart from the key: a repeat with another input is a conflict"),
  free: optional(list(text(LONGEST_NAME), 0, 1_000), "fields of the input that may differ in a repeat"),
  lease: optional(duration(), "how long the caller may be silent: 60s unless given"),
  keep: optional(keep, "how long the settled record guards its key: 30d unless given"),
  doubt: optional(
    either(
      oneOf("hold", "retry"),
      fields({ resendWithin: required(duration(), "how long the provider knows the key") }),
    ),
    'what may be done about an attempt in doubt: "hold" (unless given): nothing. "retry": run it again. { resendWithin }: send the same again with providerKey',
  ),
  retry: optional(retry, "tries and pauses for what is settled as not-sent"),
  mark: MARK,
  wait: optional(wait, "how long to wait for another attempt to end: not at all unless given"),
  request: REQUEST,
  ...AGENT,
};

const SETTLE = {
  ...TOKEN,
  as: required(
    oneOf("done", "not-sent", "not-begun", "refused", "rejected", "unknown"),
    "done: it happened. not-sent: nothing was sent, and it may be tried again. not-begun: the same, and it does not count as a try. refused: it did not happen, and is not tried again by itself. rejected: refused for good. unknown: it may have happened",
  ),
  result: optional(
    json,
    "with done: what a repeat gets. Best the provider's id. Left out: the effect has no result, and a repeat gets none",
  ),
  resultOmitted: optional(text(10_000), "with done, in place of result: it has one that is not kept, and why"),
  error: optional(
    fields({
      name: optional(text(LONGEST_NAME), "its kind"),
      message: required(text(10_000), "what went wrong"),
      code: optional(text(LONGEST_NAME), "its code"),
    }),
    "what went wrong, for people who look at the ledger. What is too long is cut, and what cannot be stored is replaced",
  ),
  retryAfter: optional(
    duration(),
    "with not-sent or not-begun: not before this long from now. Also as in HTTP's Retry-After; what cannot be understood is left out, with a warning in the answer",
  ),
};

const ENQUEUE = {
  ...INTENT,
  input: required(json, "what the worker gets; null where the parts say it all"),
  free: CLAIM.free,
  runAt: optional(instant, "not before this"),
  delay: optional(duration(), "not before this long from now"),
  expires: optional(
    either(duration(), instant),
    "stale after this: a duration from when it is due, or an instant as text",
  ),
  priority: optional(whole(0, 9), "goes ahead of work that became due up to this many minutes before it"),
  order: optional(text(LONGEST_SCOPE), "intents of one action with one order run one after the other"),
  keep: CLAIM.keep,
  ...AGENT,
};

const TAKE = {
  actions: required(list(text(LONGEST_NAME), 1, MOST_ACTIONS), "the actions whose queued work is taken"),
  limit: optional(whole(1, MOST_TAKEN), "at most this many: 1 unless given"),
  lease: CLAIM.lease,
  doubt: CLAIM.doubt,
  retry: CLAIM.retry,
  mark: MARK,
  wait: optional(wait, "how long to wait for work where none is due: not at all unless given"),
  request: REQUEST,
  ...AGENT,
};

const STATUS = {
  action: optional(INTENT.action.shape, INTENT.action.about),
  parts: optional(INTENT.parts.shape, INTENT.parts.about),
  version: INTENT.version,
  scope: INTENT.scope,
  key: optional(recordKey, "instead of action and parts: the key of the record"),
};

const RESOLVE = {
  key: required(recordKey, "the key of the record in doubt"),
  as: required(
    oneOf("done", "not-done", "failed"),
    "done: it happened. not-done: it did not, and may be run again. failed: it did not, and is left",
  ),
  result: optional(json, "with done: what a repeat gets; left out, it is not kept, and a repeat has resultOmitted"),
  by: required(text(LONGEST_NAME), "who decides, a person or a program"),
  reason: required(text(10_000), "why, for the record's history"),
};

export function operationsOf(services: ActionServices): readonly Operation[] {
  const attempts = new Attempts(services);
  const work = new Work(services);
  const { engine, defaults } = services;
  return [
    operation(
      "claim",
      "Claims an intent: the answer says whether to have the effect now",
      CLAIM,
      "claimed-or-outcome",
      {
        run: async (body, caller) => {
          const answer = await attempts.claim(body, caller);
          return answer.status === "claimed" ? answer : outcomeJson(answer);
        },
      },
    ),
    operation("heartbeat", "Keeps the lease of an attempt", TOKEN, "lease", {
      run: ({ token }) => attempts.heartbeat(token),
    }),
    operation("sent", 'The send mark of an attempt with mark "manual", right before the effect', TOKEN, "lease", {
      run: ({ token }) => attempts.sent(token),
    }),
    operation(
      "settle",
      "Says what became of an attempt",
      SETTLE,
      "outcome",
      {
        run: async (body) => outcomeJson(await attempts.settle(body)),
      },
      storableDetails,
    ),
    operation("enqueue", "Records an intent for a worker, or for take", ENQUEUE, "outcome", {
      run: async (body) => outcomeJson(await enqueue(services, body)),
    }),
    operation("take", "Hands out queued work that is due, as attempts", TAKE, "work", {
      run: async (body, caller) => ({ work: await work.take(body, caller) }),
    }),
    operation("status", "What is true of an intent; runs nothing", STATUS, "outcome", {
      run: async ({ key, action, parts, ...identity }) => {
        if ((key === undefined) === (action === undefined || parts === undefined))
          throw new NevertwiceError("INVALID_INPUT", "status: give action and parts, or key; one of them.");
        if (key !== undefined) return outcomeJson(await attempts.status({ key }));
        return outcomeJson(await attempts.status({ action: action as string, parts: parts as unknown[], ...identity }));
      },
    }),
    operation("resolve", "Settles a doubt, by a named person or program", RESOLVE, "outcome", {
      run: async ({ key, ...resolution }) =>
        outcomeJson(await resolveDoubt(engine, { key, tenant: defaults.confinedTo ?? "" }, resolution)),
    }),
  ];
}

function operation<F extends Fields>(
  name: string,
  summary: string,
  of: F,
  answers: AnswerKind,
  { run }: { run(body: ValuesOf<F>, caller: Caller): Promise<object> },
  lenient: (body: unknown) => Details = (body) => ({ body, warning: null }),
): Operation {
  const perform = async (given: unknown, caller: Caller) => {
    const { body, warning } = lenient(given);
    const answer = await run(checked(body, of, name), caller);
    return warning === null ? answer : { ...answer, warning };
  };
  return { name, summary, fields: of, answers, run: perform };
}

async function enqueue(services: ActionServices, body: ValuesOf<typeof ENQUEUE>): Promise<Outcome<unknown> | Absent> {
  const { engine, defaults } = services;
  const { runAt, delay, expires, priority, order, agent } = body;
  requireFreeName(body.action, "enqueue");
  const action = createAction<unknown, unknown>(definitionOf(body), services);
  try {
    const { key } = await action.enqueue(body.input, {
      ...identityOf(body),
      ...(runAt !== undefined && { dueAt: instantMs(runAt) as number }),
      ...(delay !== undefined && { delay }),
      ...(expires !== undefined && { expires: deadlineOf(expires) }),
      ...(priority !== undefined && { priority }),
      ...(order !== undefined && { orderKey: order }),
      ...(agent !== undefined && { agent }),
    });
    return await engine.status(key, defaults.confinedTo);
  } catch (error) {
    // Another input under the same key is an answer here, as for a claim: a conflict, or a doubt.
    if (isNevertwiceError(error) && (error.code === "KEY_CONFLICT" || error.code === "OUTCOME_UNKNOWN"))
      return error.outcome as Outcome<unknown>;
    throw error;
  }
}

/** A text with a date is an instant; everything else is a duration. */
function deadlineOf(expires: string | number): Date | string | number {
  const ms = typeof expires === "string" ? instantMs(expires) : null;
  return ms === null ? expires : new Date(ms);
}

/** An outcome as JSON: the error in the form that the ledger keeps of one. */
export function outcomeJson(outcome: Outcome<unknown> | Absent): object {
  return outcome.status === "failed" ? { ...outcome, error: toStoredError(outcome.error) } : outcome;
}
