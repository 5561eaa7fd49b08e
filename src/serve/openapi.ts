/** The service described as OpenAPI 3.1, made from the table that checks its requests. */
import { PACKAGE_VERSION } from "../core/package-version.ts";
import type { AnswerKind, Operation } from "./operations.ts";
import { objectSchema } from "./shape.ts";

type Schema = Readonly<Record<string, unknown>>;

const KEY = { type: "string", description: "the key of the intent's record" };
const TIME = { type: "integer", description: "epoch milliseconds" };
const WHOLE = { type: "integer" };
const TEXT = { type: "string" };

function outcome(status: string, about: string, properties: Record<string, Schema>, optional: readonly string[] = []) {
  const all = { status: { const: status }, key: KEY, ...properties };
  return {
    type: "object",
    description: about,
    properties: all,
    required: Object.keys(all).filter((name) => !optional.includes(name)),
  };
}

const STORED_ERROR = {
  type: "object",
  properties: { name: TEXT, message: TEXT, code: TEXT },
  required: ["name", "message"],
};

const OUTCOMES: Readonly<Record<string, Schema>> = {
  Done: outcome(
    "done",
    "It happened. `replayed`: by an earlier attempt.",
    {
      result: { description: "absent where none was kept" },
      replayed: { type: "boolean" },
      attempt: WHOLE,
      at: TIME,
      differs: { type: "array", items: TEXT },
      resultOmitted: TEXT,
    },
    ["result", "differs", "resultOmitted"],
  ),
  InFlight: outcome("in_flight", "Another attempt holds the lease.", { since: TIME, until: TIME }),
  Queued: outcome("queued", "It waits for a worker, or for take.", { dueAt: TIME }),
  Failed: outcome(
    "failed",
    "It is known not to have happened. `final`: refused for good.",
    { error: STORED_ERROR, final: { type: "boolean" }, retryAt: TIME },
    ["retryAt"],
  ),
  Unknown: outcome(
    "unknown",
    "It may have happened: somebody has to resolve it. `differs`: fields of this input that differ from what may have been sent; it is not to be sent.",
    { since: TIME, attempt: WHOLE, why: TEXT, differs: { type: "array", items: TEXT } },
    ["differs"],
  ),
  Conflict: outcome("conflict", "The same key with another input, which happened or is going to. Nothing was run.", {
    differs: { type: "array", items: TEXT },
  }),
  Absent: outcome("absent", "The ledger knows nothing about it.", {}),
};

const CLAIMED = {
  type: "object",
  description: "The caller now has the effect, and settles the attempt.",
  properties: {
    status: { const: "claimed" },
    key: KEY,
    action: TEXT,
    attempt: { ...WHOLE, description: "the number of this try" },
    fence: { ...WHOLE, description: "grows with each claim" },
    token: { ...TEXT, description: "names the attempt: for heartbeat, sent and settle" },
    leaseMs: { ...WHOLE, description: "how long the caller may be silent" },
    state: { enum: ["claimed", "sent"] },
    providerKey: { ...TEXT, description: "for the provider's idempotency key: the same in every attempt" },
    again: { const: true, description: "handed out before: the reply was lost" },
    resend: { const: true, description: "an earlier attempt may have happened: send `input` with `providerKey`" },
    input: { description: "of a resend: what the first attempt was sent with; of taken work: its input" },
  },
  required: ["status", "key", "action", "attempt", "fence", "token", "leaseMs", "state", "providerKey"],
};

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

const ANSWERS: Readonly<Record<AnswerKind, Schema>> = {
  outcome: ref("Outcome"),
  "claimed-or-outcome": { oneOf: [ref("Claimed"), ref("Outcome")] },
  lease: { type: "object", properties: { leaseMs: WHOLE }, required: ["leaseMs"] },
  work: {
    type: "object",
    properties: { work: { type: "array", items: ref("Claimed") } },
    required: ["work"],
  },
};

const ERROR = {
  type: "object",
  properties: {
    error: {
      type: "object",
      properties: {
        code: { ...TEXT, description: "stable, for programs" },
        message: { ...TEXT, description: "what was wrong and what to do, for people" },
        key: KEY,
      },
      required: ["code", "message"],
    },
  },
  required: ["error"],
};

const PROBLEMS: Readonly<Record<string, string>> = {
  400: "The request is wrong: nothing was changed",
  401: "The token is missing or wrong",
  403: "A host name that is not served, or a web page",
  409: "LEASE_LOST: the attempt is no longer the caller's. IN_FLIGHT: an attempt is under way",
  413: "The body is too large",
  415: "The body is not JSON",
  500: "An error inside the service",
  503: "The ledger does not answer, or too much is under way: ask again",
};

export function openApi(operations: readonly Operation[]): object {
  return {
    openapi: "3.1.0",
    info: {
      title: "nevertwice serve",
      version: PACKAGE_VERSION,
      description: "Claims, settles and hands out side effects that happen once, for programs in any language.",
    },
    security: [{ token: [] }],
    paths: Object.fromEntries([
      ...operations.map((one) => [`/v1/${one.name}`, { post: describe(one) }]),
      ["/v1/health", { get: plain("Whether the service runs; needs no token", { security: [] }) }],
      ["/v1/openapi.json", { get: plain("This document") }],
    ]),
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: {
        ...OUTCOMES,
        Outcome: { oneOf: Object.keys(OUTCOMES).map(ref), discriminator: { propertyName: "status" } },
        Claimed: CLAIMED,
        Error: ERROR,
      },
    },
  };
}

function plain(summary: string, more: object = {}) {
  return { summary, responses: { 200: { description: "ok", content: { "application/json": {} } } }, ...more };
}

function describe({ name, summary, fields, answers }: Operation) {
  const problem = (description: string) => ({ description, content: { "application/json": { schema: ref("Error") } } });
  return {
    operationId: name,
    summary,
    requestBody: { required: true, content: { "application/json": { schema: objectSchema(fields) } } },
    responses: {
      200: { description: "ok", content: { "application/json": { schema: ANSWERS[answers] } } },
      ...Object.fromEntries(Object.entries(PROBLEMS).map(([status, text]) => [status, problem(text)])),
    },
  };
}
