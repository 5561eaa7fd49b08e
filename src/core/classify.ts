/**
 * What an error thrown by `run` says about the effect. One rule above all: only what is certain is called certain.
 * A wrong "not sent" sends twice, a wrong "doubt" asks a person; so everything nobody listed here is doubt.
 *
 * An error describes the last request its client made. Where a client lets us see that it made earlier ones (its own
 * retries, a redirect that was followed), the last answer says nothing about those, and the verdict is doubt.
 */
import { durationMs } from "./duration.ts";
import { isNevertwiceError, type NotSentMark, notSentMark, refusedMark, rejectedMark } from "./errors.ts";
import { redact } from "./redact.ts";
import { sqlErrorOf } from "./sql-error.ts";

/**
 * not-sent: surely nothing happened, worth another try · refused: surely nothing happened, and trying the same again
 * at once is pointless (4xx), a later call may · rejected: refused for good · doubt: may have happened
 */
export type Verdict =
  | { readonly kind: "not-sent"; readonly retryAfterMs: number | null; readonly cause: unknown }
  /** byName: the user's function threw `refused()`. */
  | { readonly kind: "refused"; readonly cause: unknown; readonly byName?: true }
  | { readonly kind: "rejected"; readonly cause: unknown }
  | { readonly kind: "doubt"; readonly why: string };

// Cause chains and AggregateErrors are data from elsewhere: deep, wide or circular ones must end in doubt, not in a hang.
const MAX_DEPTH = 8;
const MAX_NODES = 64;
const MAX_HEADERS = 256;

interface Walk {
  readonly now: number;
  readonly requests: number | null;
  nodes: number;
}

/** How the `why` of such a doubt begins: no rule knows the error, and the code said nothing about it. */
export const UNCLASSIFIED = "an error nobody classified";

/**
 * `requests`: the HTTP requests with an effect (no GET) that the attempt was seen to make, this error's own included. null: whatever
 * a database says is not about the effect.
 */
export function classify(error: unknown, now: number, requests: number | null = 0): Verdict {
  try {
    const verdict = classifyNode(error, { now, requests, nodes: 0 }, 0) ?? doubt(`${UNCLASSIFIED} (${kindOf(error)})`);
    // Found in a cause or by its shape: the user sees what was thrown. A mark at the top carries its own cause.
    return isMarked(error) || verdict.kind === "doubt" ? verdict : { ...verdict, cause: error };
  } catch {
    // A Proxy may throw from any trap. An error that cannot be read tells nothing.
    return doubt("an error that cannot be read");
  }
}

/** undefined: this error says nothing, and neither does what caused it. */
function classifyNode(error: unknown, walk: Walk, depth: number): Verdict | undefined {
  walk.nodes += 1;
  if (typeof error !== "object" || error === null || depth > MAX_DEPTH || walk.nodes > MAX_NODES) return undefined;
  return (
    byMark(error, walk.now) ??
    byOwnError(error) ??
    byEarlierRequests(error) ??
    bySql(error, walk.requests) ??
    bySmtp(error) ??
    byGrpc(error) ??
    byHttp(error, walk.now) ??
    byAggregate(error, walk, depth) ??
    byNetwork(error) ??
    byName(error) ??
    classifyNode(get(error, "cause"), walk, depth + 1)
  );
}

const doubt = (why: string): Verdict => ({ kind: "doubt", why });
const surelyNotSent = (cause: unknown, retryAfterMs: number | null = null): Verdict => ({
  kind: "not-sent",
  retryAfterMs,
  cause,
});
const refused = (cause: unknown): Verdict => ({ kind: "refused", cause });

// ---- the user's own word -------------------------------------------------------------------------------------------

function byMark(error: object, now: number): Verdict | undefined {
  const refusedForGood = safely(() => rejectedMark(error));
  if (refusedForGood) return { kind: "rejected", cause: refusedForGood.cause };
  const correctable = safely(() => refusedMark(error));
  if (correctable) return { kind: "refused", cause: correctable.cause, byName: true };
  const mark = safely(() => notSentMark(error));
  return mark ? surelyNotSent(mark.cause, markedDelay(mark.retryAfter, now)) : undefined;
}

function isMarked(error: unknown): boolean {
  return safely(() => rejectedMark(error) ?? refusedMark(error) ?? notSentMark(error)) !== undefined;
}

function markedDelay(retryAfter: NotSentMark["retryAfter"], now: number): number | null {
  if (retryAfter === undefined || retryAfter === null) return null;
  return saneDelay(() => (retryAfter instanceof Date ? Math.max(0, retryAfter.getTime() - now) : retryAfter));
}

/** A delay that is not one (NaN, negative, "soon", a thousand years) is no reason to lose the verdict: the backoff decides. */
function saneDelay(delay: () => string | number): number | null {
  return safely(() => durationMs(delay(), "retryAfter")) ?? null;
}

/**
 * An action that called another action. The cause of a STORE_UNAVAILABLE may well be ECONNREFUSED to the ledger, after
 * the inner effect was sent: such causes must not be read as the effect's own.
 */
function byOwnError(error: object): Verdict | undefined {
  return safely(() => isNevertwiceError(error))
    ? doubt(`a nevertwice error inside (${label(get(error, "code"))})`)
    : undefined;
}

// ---- requests before the one that failed ---------------------------------------------------------------------------

// [path, the largest harmless number]: the client's own counter of tries or of redirects followed.
const OWN_RETRIES: readonly (readonly [path: readonly string[], harmless: number])[] = [
  [["$metadata", "attempts"], 1], // AWS SDK v3
  [["request", "retryCount"], 0], // got
  [["request", "request", "retryCount"], 0], // Octokit
  [["config", "axios-retry", "retryCount"], 0],
  [["config", "retryConfig", "currentRetryAttempt"], 0], // gaxios
];
// A POST answered by 303 has run; that its receipt page then gave 404 or could not be reached changes nothing.
const REDIRECTS: readonly (readonly string[])[] = [
  ["request", "redirectUrls", "length"], // got
  ["request", "_redirectCount"], // axios (follow-redirects), no answer
  ["request", "_redirectable", "_redirectCount"], // axios, with an answer
];

function byEarlierRequests(error: object): Verdict | undefined {
  if (get(error, "code") === "UND_ERR_REQ_RETRY") return doubt("the client had tried before by itself");
  for (const [path, harmless] of OWN_RETRIES) {
    if (above(dig(error, path), harmless)) return doubt("the client had tried before by itself");
  }
  const redirected = get(error, "redirected") === true || dig(error, ["response", "redirected"]) === true;
  if (redirected || REDIRECTS.some((path) => above(dig(error, path), 0))) return doubt("failed after a redirect");
  return undefined;
}

const above = (value: unknown, limit: number): boolean => typeof value === "number" && value > limit;

// ---- databases -----------------------------------------------------------------------------------------------------

/**
 * A database speaks of its own transaction only. An attempt that also made a request to somebody else may have had its
 * effect there, and then failed to write that down.
 */
function bySql(error: object, requests: number | null): Verdict | undefined {
  const sql = sqlErrorOf(error);
  if (sql === undefined) return undefined;
  if (requests === null) return doubt(`SQLSTATE ${sql.state}, which is about a database and not about the effect`);
  if (requests > (sql.overHttp ? 1 : 0))
    return doubt(
      `SQLSTATE ${sql.state}, but the attempt also made an HTTP request, about which a database says nothing`,
    );
  return sql.meaning === "retry" ? surelyNotSent(error) : refused(error);
}

// ---- SMTP (nodemailer) ---------------------------------------------------------------------------------------------

// Which timer ran out (nodemailer 7 and later). SOCKET_TIMEOUT is missing: it also covers the wait for the final 250.
const SMTP_EARLY_TIMEOUTS: ReadonlySet<unknown> = new Set(["CONNECT_TIMEOUT", "GREETING_TIMEOUT", "UPGRADE_TIMEOUT"]);
const SMTP_SETUP_COMMANDS: ReadonlySet<string> = new Set(["EHLO", "HELO", "LHLO", "STARTTLS", "API"]);

/**
 * nodemailer names the step in `command` only where a reply was read. Command "CONN" covers everything from DNS to the
 * wait for the reply after the whole message was sent, so with it `code` alone (ECONNECTION, ESOCKET, ETIMEDOUT) proves
 * nothing, nor does a responseCode: it may be the unfinished last line of a dropped connection.
 */
function bySmtp(error: object): Verdict | undefined {
  const command = get(error, "command");
  const code = get(error, "code");
  if (typeof command !== "string" || typeof code !== "string") return undefined;
  if (code === "EMESSAGE" && command === "DATA") return smtpAfterBody(error);
  // EENVELOPE (MAIL FROM, RCPT TO, and DATA before its body), EAUTH and ETLS come strictly before the message body.
  const tooBig = code === "EMESSAGE" && (command === "API" || command === "MAIL FROM");
  const early = code === "EENVELOPE" || code === "EAUTH" || code === "ETLS" || code === "EREQUIRETLS";
  if (early || tooBig) return smtpReply(error) ?? refusedUnlessNetwork(error, code);
  // The message's own stream broke, perhaps on a refused connection for an attachment: the mail was under way.
  if (code === "ESTREAM") return doubt("the message broke off while it was sent");
  if (code === "EDNS" || SMTP_EARLY_TIMEOUTS.has(get(error, "timeoutType"))) return surelyNotSent(error);
  if (code === "ECONNECTION" && SMTP_SETUP_COMMANDS.has(command)) return smtpReply(error) ?? surelyNotSent(error);
  if (code === "EPROTOCOL") return smtpGreeting(error, command);
  return undefined;
}

function smtpReply(error: object): Verdict | undefined {
  const reply = get(error, "responseCode");
  if (typeof reply !== "number") return undefined;
  if (reply >= 400 && reply < 500) return surelyNotSent(error);
  return reply >= 500 && reply < 600 ? refused(error) : undefined;
}

/** 421 speaks of the connection, not of the message: relays also send it when they lost the server behind them. */
function smtpAfterBody(error: object): Verdict {
  if (get(error, "responseCode") === 421) return doubt("the mail server hung up after the message was sent");
  return smtpReply(error) ?? doubt("an unclear reply after the message was sent");
}

/** No reply: a TLS handshake or a token request that failed may work next time; bad addresses or credentials won't. */
function refusedUnlessNetwork(error: object, code: string): Verdict {
  const mayWork = code === "ETLS" || get(error, "command") === "AUTH XOAUTH2";
  return mayWork ? surelyNotSent(error) : refused(error);
}

/** Only the text tells a bad greeting from a reply nobody waited for: both are EPROTOCOL at CONN. */
function smtpGreeting(error: object, command: string): Verdict | undefined {
  const message = get(error, "message");
  const greeting = command === "CONN" && typeof message === "string" && message.startsWith("Invalid greeting");
  return greeting || SMTP_SETUP_COMMANDS.has(command) ? smtpReply(error) : undefined;
}

// ---- gRPC ----------------------------------------------------------------------------------------------------------

const GRPC_REFUSED: Readonly<Record<number, string>> = {
  3: "INVALID_ARGUMENT",
  5: "NOT_FOUND",
  7: "PERMISSION_DENIED",
  9: "FAILED_PRECONDITION",
  11: "OUT_OF_RANGE",
  12: "UNIMPLEMENTED",
  16: "UNAUTHENTICATED",
};
const GRPC_RESOURCE_EXHAUSTED = 8;

function byGrpc(error: object): Verdict | undefined {
  const code = get(error, "code");
  const details = get(error, "details");
  if (typeof code !== "number" || !Number.isInteger(code) || code < 0 || code > 16) return undefined;
  // DOMExceptions and exit codes are small numbers too; a gRPC error always has `details`.
  if (typeof details !== "string") return undefined;
  // grpc-js gives RESOURCE_EXHAUSTED or UNIMPLEMENTED itself when it cannot take in the answer to a call that did run.
  const answered = /^received /i.test(details);
  if (!answered && code === GRPC_RESOURCE_EXHAUSTED) return surelyNotSent(error);
  return !answered && GRPC_REFUSED[code] !== undefined ? refused(error) : doubt(`gRPC status ${code}`);
}

// ---- HTTP ----------------------------------------------------------------------------------------------------------

// 408, 425, 460, 499: somebody stopped waiting · 409, 423: perhaps our own earlier attempt is what is in the way
const DOUBTFUL_STATUS: ReadonlySet<number> = new Set([408, 409, 423, 425, 460, 499]);
// A 4xx that speaks of an earlier request with this key (Stripe's idempotency_error, AWS IdempotentParameterMismatch,
// TransactionInProgress) or of a wait that ended (AWS RequestTimeout is a 400).
const DOUBTFUL_NAME = /idempoten|in_?progress|time_?d?_?out/i;
const THROTTLED: ReadonlySet<unknown> = new Set([
  "Throttling",
  "ThrottlingException",
  "ThrottledException",
  "TooManyRequestsException",
  "RequestThrottled",
  "RequestThrottledException",
  "RequestLimitExceeded",
  "BandwidthLimitExceeded",
  "EC2ThrottledException",
  "ProvisionedThroughputExceededException",
  "PriorRequestNotComplete",
  "SlowDown",
]);

function byHttp(error: object, now: number): Verdict | undefined {
  const status = statusOf(error);
  const names = [get(error, "name"), get(error, "code"), get(error, "type"), get(error, "rawType")];
  const throttled = names.some((name) => THROTTLED.has(name)) || dig(error, ["$retryable", "throttling"]) === true;
  if (status === undefined) return throttled ? surelyNotSent(error, retryAfterOf(error, now)) : undefined;
  if (status < 400 || status >= 500 || DOUBTFUL_STATUS.has(status)) return doubt(`HTTP ${status}`);
  if (throttled || status === 429) return surelyNotSent(error, retryAfterOf(error, now));
  if (names.some((name) => typeof name === "string" && DOUBTFUL_NAME.test(name)))
    return doubt(`HTTP ${status}, but not about this request alone`);
  // GitHub's secondary limits: 403 with Retry-After.
  const delay = status === 403 ? retryAfterOf(error, now) : null;
  return delay === null ? refused(error) : surelyNotSent(error, delay);
}

const STATUS_PATHS: readonly (readonly string[])[] = [
  ["status"],
  ["statusCode"],
  ["response", "status"],
  ["response", "statusCode"],
  ["$metadata", "httpStatusCode"],
  ["$response", "statusCode"],
];

function statusOf(error: object): number | undefined {
  for (const path of STATUS_PATHS) {
    const status = dig(error, path);
    if (typeof status === "number" && Number.isInteger(status) && status >= 100 && status < 600) return status;
  }
  // gaxios: the status as `code`, a number or its digits.
  const code = get(error, "code");
  const digits = typeof code === "number" || typeof code === "string" ? String(code) : "";
  return /^[45]\d\d$/.test(digits) ? Number(digits) : undefined;
}

const HEADER_PATHS: readonly (readonly string[])[] = [
  ["headers"],
  ["response", "headers"],
  ["$response", "headers"],
  ["responseHeaders"], // AI SDK
  ["raw", "headers"], // Stripe
];

function retryAfterOf(error: object, now: number): number | null {
  for (const path of HEADER_PATHS) {
    const headers = dig(error, path);
    if (typeof headers !== "object" || headers === null) continue;
    const exact = secondsOrDate(header(headers, "retry-after-ms"), 1, now);
    const delay = exact ?? secondsOrDate(header(headers, "retry-after"), 1_000, now);
    if (delay !== null) return delay;
  }
  return secondsOrDate(get(error, "retryAfterSeconds"), 1_000, now);
}

function secondsOrDate(value: unknown, unitMs: number, now: number): number | null {
  const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : "";
  if (/^\d+(\.\d+)?$/.test(text)) return saneDelay(() => Number(text) * unitMs);
  // Only what looks like an HTTP date: Date.parse also makes something of "-5" and of "Fri, 99 Nov".
  if (!/^[A-Za-z]{3,9}, ?\d\d[ -][A-Za-z]{3}[ -]\d{2,4} \d\d:\d\d:\d\d GMT$/.test(text)) return null;
  return saneDelay(() => Math.max(0, Date.parse(text) - now));
}

/** fetch's Headers, AxiosHeaders, a Map, or a plain object in any case; a value may be a list. */
function header(headers: object, name: string): unknown {
  const getter = get(headers, "get");
  const direct = typeof getter === "function" ? safely(() => getter.call(headers, name) as unknown) : undefined;
  const value = direct ?? plainHeader(headers, name);
  return Array.isArray(value) ? get(value, "0") : value;
}

function plainHeader(headers: object, name: string): unknown {
  const keys = safely(() => Object.keys(headers)) ?? [];
  const key = keys.slice(0, MAX_HEADERS).find((candidate) => candidate.toLowerCase() === name);
  return key === undefined ? undefined : get(headers, key);
}

// ---- many at once --------------------------------------------------------------------------------------------------

/** Node's own (every address of a host failed) or Promise.any's: only if each of them surely was not sent. */
function byAggregate(error: object, walk: Walk, depth: number): Verdict | undefined {
  const errors = get(error, "errors");
  const aggregate = safely(() => error instanceof AggregateError) || get(error, "name") === "AggregateError";
  if (!aggregate || !Array.isArray(errors) || errors.length === 0) return undefined;
  if (errors.length > MAX_NODES) return doubt("several errors, not all of them clear");
  let latest: number | null = null;
  for (const one of errors) {
    const verdict = classifyNode(one, walk, depth + 1);
    if (verdict?.kind !== "not-sent") return doubt("several errors, not all of them clear");
    if (verdict.retryAfterMs !== null) latest = Math.max(latest ?? 0, verdict.retryAfterMs);
  }
  return surelyNotSent(error, latest);
}

// ---- the network ---------------------------------------------------------------------------------------------------

const NOT_SENT_CODES: ReadonlySet<string> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  // The server's certificate did not please us. Node and undici check it before they write the first request byte.
  "CERT_CHAIN_TOO_LONG",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "CRL_HAS_EXPIRED",
  "CRL_NOT_YET_VALID",
  "CRL_SIGNATURE_FAILURE",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
  "INVALID_PURPOSE",
  "PATH_LENGTH_EXCEEDED",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY",
  "UNABLE_TO_DECRYPT_CERT_SIGNATURE",
  "UNABLE_TO_GET_CRL",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  // No common TLS version: the answer to our first message. Other alerts (EPROTO, handshake failure, certificate
  // required) are left out on purpose: with TLS 1.3 they may arrive after the request has left.
  "ERR_SSL_UNSUPPORTED_PROTOCOL",
  "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION",
]);

const DOUBT_CODES: Readonly<Record<string, string>> = {
  ABORT_ERR: "aborted",
  ECONNABORTED: "aborted",
  ECONNECTION: "connection closed",
  ECONNRESET: "connection reset",
  EHOSTUNREACH: "network unreachable",
  ENETUNREACH: "network unreachable",
  EPIPE: "connection closed while sending",
  ERR_CANCELED: "aborted",
  ERR_STREAM_PREMATURE_CLOSE: "answer cut short",
  ESOCKET: "connection failed",
  ESOCKETTIMEDOUT: "timed out",
  ETIMEDOUT: "timed out",
  UND_ERR_ABORTED: "aborted",
  UND_ERR_BODY_TIMEOUT: "timed out",
  UND_ERR_HEADERS_TIMEOUT: "timed out",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "answer cut short",
  UND_ERR_SOCKET: "connection closed",
};

function byNetwork(error: object): Verdict | undefined {
  // nodemailer replaces the system's code by its own and keeps the first one here.
  const code = get(error, "originalCode") ?? get(error, "code");
  const syscall = get(error, "syscall");
  // No connection, no bytes; and no address, no connection.
  if (syscall === "connect" || syscall === "getaddrinfo") return surelyNotSent(error);
  if (typeof code !== "string") return undefined;
  // On a connected UDP socket ECONNREFUSED (recvmsg) follows a packet that did leave.
  if (code === "ECONNREFUSED") return syscall === undefined ? surelyNotSent(error) : doubt("connection refused late");
  if (NOT_SENT_CODES.has(code)) return surelyNotSent(error);
  return Object.hasOwn(DOUBT_CODES, code) ? doubt(DOUBT_CODES[code] as string) : undefined;
}

const DOUBT_NAMES: Readonly<Record<string, string>> = {
  AbortError: "aborted",
  CanceledError: "aborted",
  CancelledError: "aborted",
  APIUserAbortError: "aborted",
  TimeoutError: "timed out",
  APIConnectionTimeoutError: "timed out",
};

/** These end the walk: what an abort or a timeout names as its cause is not what the wire said. */
function byName(error: object): Verdict | undefined {
  const name = get(error, "name");
  return typeof name === "string" && Object.hasOwn(DOUBT_NAMES, name) ? doubt(DOUBT_NAMES[name] as string) : undefined;
}

// ---- reading what others made --------------------------------------------------------------------------------------

function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function get(target: object, key: string): unknown {
  return safely(() => (target as Record<string, unknown>)[key]);
}

function dig(target: object, path: readonly string[]): unknown {
  let value: unknown = target;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = get(value, key);
  }
  return value;
}

/** `why` is stored and shown: class names and codes may pass, text that may hold a user's data or a secret may not. */
function label(name: unknown): string {
  return typeof name === "string" && /^[A-Za-z_$][\w$]{0,39}$/.test(name) && redact(name) === name ? name : "Error";
}

function kindOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return error === null ? "null" : typeof error;
  const constructed = dig(error, ["constructor"]);
  const className = typeof constructed === "function" ? get(constructed, "name") : undefined;
  return label(get(error, "name") ?? className);
}
