/**
 * Whether an error reads like a wait or a connection that ended early: a timeout, an abort, a lost connection, a 5xx. The
 * effect may have happened all the same. There is no list of all clients' errors, so this goes by words. A word too
 * many here costs a doubt that a person settles; a word too few runs an effect twice.
 */

// Errors are data from elsewhere: deep, wide and circular ones end here too.
const MAX_DEPTH = 8;
const MAX_NODES = 64;
const MAX_TEXT = 4_000;

/** Where clients keep the error behind an error, and where results keep what they say. */
const INNER = [
  "cause",
  "errors",
  "error",
  "suppressed",
  "originalError",
  "original",
  "parent",
  "lastError",
  "reason",
  "content",
] as const;
const OWN_WORDS = ["name", "code", "originalCode", "errno", "type", "rawType", "message", "text", "stderr"] as const;
const STATUS = ["status", "statusCode", "httpStatus", "httpStatusCode"] as const;

const HTTP_5XX = "5(?:0\\d|1[01]|2\\d|30|9[89])";
const PARTY =
  "(?:client|server|target|browser|page|session|channel|transport|stream|pipe|pool|peer|side|remote|host|worker|process|request|response|query|link)";
const ENDED =
  "(?:closed?|closing|lost|gone|reset|ended|destroyed|crash\\w*|exited|died|dropped|broken?|interrupted|refused)";

/** Matched against text whose identifiers are taken apart: MongoNetworkTimeoutError is "mongo network timeout error". */
const WORDS: readonly RegExp[] = [
  /time[ds]? ?out|\bdeadline|\btime limit|\btook too long|\betime/,
  /abort|cancel|\bkill|\bsig(?:term|kill|int|hup|quit|abrt|segv|pipe|alrm|bus)\b|terminat|interrupt|\beintr\b/,
  // "Connection", "socket" and "network" are reason enough, whatever is said of them.
  /connection|disconnect|socket|network|\beconn|\benotconn|\beshutdown|\benet|\behost|\beproto|\bepipe|broken pipe/,
  /\bfetch failed|failed to fetch|\bload failed|h[au]ng(?:ing)? ?up|goaway|\bhttp ?2\b|\bund err\b|\berr (?:stream|socket|ssl|tls|ipc|quic)\b|\bhpe\b/,
  new RegExp(`\\b${PARTY}s?\\b.{0,60}\\b${ENDED}\\b|\\b${ENDED}\\b.{0,30}\\b${PARTY}s?\\b|\\bstream error\\b`),
  /premature|unexpected(?:ly)? (?:end|clos)|unexpected server response|truncated|incomplete response|\beof\b|cut short|max ?buffer/,
  /\bno (?:response|answer|reply)\b|not respond|unreachable|can ?'?not reach|can't reach|offline|shut(?:ting)? ?down|went away/,
  /\bretried\b|\bretries\b|\bafter \d+ (?:attempts|tries)\b/,
  // 5xx in words, and what JSON-RPC and gRPC have in its place.
  /server error|internal error|bad gateway|stripe api error|\bapi error$|overloaded/,
  /(?:service|server|temporarily|currently|database|upstream|backend|api|system|gateway) (?:is )?(?:temporarily |currently )?(?:unavailable|down)\b|^unavailable\b/,
  /^(?:1 cancelled|2 unknown|4 deadline|10 aborted|13 internal|14 unavailable|15 data loss)\b/,
  new RegExp(
    `^\\W{0,3}${HTTP_5XX}\\b|\\b(?:http|status|code|error|response|responded|returned|answered|got|received|with)\\b[^\\d\\n]{0,20}\\b${HTTP_5XX}\\b|\\b${HTTP_5XX}\\b\\W{0,3}(?:error|internal|bad|service|gateway|status|not implemented|response)`,
  ),
  // Codes that hold no word: Prisma, and SQLSTATE's class 08 with an operator's intervention.
  /^p(?:1001|1002|1008|1011|1017|2024|2028|5\d{3}|6004|6008|6009)$|^08 ?[0-9a-z]{3}$|^57 ?(?:014|p\d\d)$|^40003$/,
  // JSON-RPC: the official MCP client's lost connection and timeout.
  /^ ?-?3200[01]$|\bmcp error -?3200[01]\b/,
];

// A text that names these tells, like the codes themselves, that no connection came about.
const NOT_CONNECTED = /\bconnect ECONNREFUSED\b|\bgetaddrinfo E[A-Z_]+\b/g;

/** Takes an error, a text, or what an error result says. */
export function soundsInterrupted(said: unknown): boolean {
  const seen = new Set<unknown>();
  const look = (value: unknown, depth: number): boolean => {
    if (typeof value === "string") return readsInterrupted(value);
    if (typeof value !== "object" || value === null || seen.has(value)) return false;
    seen.add(value);
    // What is not read to its end may hold anything.
    if (depth > MAX_DEPTH || seen.size > MAX_NODES) return true;
    if (Array.isArray(value)) return value.some((one) => look(one, depth + 1));
    return speaksForItself(value) || INNER.some((key) => look(get(value, key), depth + 1));
  };
  try {
    return look(said, 0);
  } catch {
    return true;
  }
}

/** The same of a result that says "error": a text, or MCP's and LangChain's content. Its other fields are not about the error. */
export function resultSoundsInterrupted(result: unknown): boolean {
  if (typeof result !== "object" || result === null) return soundsInterrupted(result);
  return soundsInterrupted([get(result, "content"), get(result, "structuredContent")]);
}

/** The same of a plain object that names an error: what it says of it. */
export function answerSoundsInterrupted(answer: unknown): boolean {
  if (typeof answer !== "object" || answer === null) return soundsInterrupted(answer);
  return soundsInterrupted(
    ["error", "errors", "code", "message", "reason", "content", "structuredContent"].map((field) => get(answer, field)),
  );
}

function speaksForItself(error: object): boolean {
  const { killed, signal, code } = {
    killed: get(error, "killed"),
    signal: get(error, "signal"),
    code: get(error, "code"),
  };
  // A process that was ended: by its parent, by a signal, by timeout(1), by a signal under a shell.
  if (killed === true || (typeof signal === "string" && signal !== "")) return true;
  if (typeof code === "number" && (code === 124 || (code > 128 && code < 160))) return true;
  if (STATUS.some((key) => new RegExp(`^${HTTP_5XX}$`).test(String(get(error, key))))) return true;
  const words = OWN_WORDS.map((key) => get(error, key)).filter(
    (word) => typeof word === "string" || typeof word === "number",
  );
  return [...words, ...classNames(error)].some((word) => readsInterrupted(String(word)));
}

/** Many clients never set `name`: their errors are told apart by class only. */
function classNames(error: object): string[] {
  const names: string[] = [];
  let prototype: unknown = Object.getPrototypeOf(error);
  for (let i = 0; i < MAX_DEPTH && typeof prototype === "object" && prototype !== null; i += 1) {
    const made = get(prototype, "constructor");
    if (typeof made === "function") names.push(made.name);
    prototype = Object.getPrototypeOf(prototype);
  }
  return names;
}

function readsInterrupted(text: string): boolean {
  const read = text.length > 2 * MAX_TEXT ? `${text.slice(0, MAX_TEXT)}\n${text.slice(-MAX_TEXT)}` : text;
  const plain = read
    .replace(NOT_CONNECTED, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .replace(/[_\s]+|(?<=[a-z])-(?=[a-z])/gi, " ")
    .toLowerCase();
  return WORDS.some((words) => words.test(plain));
}

function get(target: object, key: string): unknown {
  try {
    return (target as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
