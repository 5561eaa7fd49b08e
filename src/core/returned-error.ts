/**
 * Some clients do not throw: supabase-js answers `{ data: null, error }`, and so do resend and others. Such an answer is
 * a failure; taken for a result it would be stored as done.
 */

/** The failure in an answer, as an error that the rules for thrown errors can read. */
export class ReturnedError extends Error {
  readonly code: unknown;
  readonly status: number | undefined;
  readonly details: unknown;
  readonly hint: unknown;
  /** What was returned. */
  readonly answer: unknown;

  constructor(answer: unknown, error: object, status: number | undefined) {
    super(String(get(error, "message")), { cause: error });
    const name = get(error, "name");
    this.name = typeof name === "string" && name !== "" ? name : "ReturnedError";
    this.code = get(error, "code");
    this.status = status;
    this.details = get(error, "details");
    this.hint = get(error, "hint");
    // Not among its own: the answer may hold a user's data, and errors are printed with their properties.
    Object.defineProperty(this, "answer", { value: answer, enumerable: false });
  }
}

/**
 * What a tool's result says, out of its wrapping: of a text that is JSON, and of a message that LangChain made of a result. Anything
 * else says what it is.
 */
export function unwrapped(value: unknown): unknown {
  if (typeof value === "string") return parsed(value) ?? value;
  if (typeof value !== "object" || value === null || !("tool_call_id" in value)) return value;
  const content = get(value, "content");
  const said = typeof content === "string" ? parsed(content) : Array.isArray(content) ? onlyJson(content) : null;
  return [said, get(value, "artifact")].find((one) => namedError(one) !== null) ?? value;
}

/** Null: it is no JSON object with a word that an error is named by. */
function parsed(text: string): object | null {
  if (!text.trimStart().startsWith("{") || !/"(?:error|isError|success)"/.test(text)) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** "unclear": it names an error, and does not say that there are no data. */
export function returnedError(value: unknown): ReturnedError | "unclear" | null {
  if (typeof value !== "object" || value === null || !("error" in value)) return null;
  const error = get(value, "error");
  if (typeof error !== "object" || error === null || typeof get(error, "message") !== "string") return null;
  if (!("data" in value)) return "unclear";
  // Supabase's sign-in answers { data: { user: null }, error }. All others have no data beside an error.
  const auth = get(error, "__isAuthError") === true;
  if (!auth && get(value, "data") !== null && get(value, "data") !== undefined) return null;
  return new ReturnedError(value, error, statusOf(value, error));
}

/**
 * How an answer names a failure that is no failure for the rules: it has no shape that a client is known by, so that it is
 * recorded as done. Null: it names none. Of an MCP tool's result, its structured content counts, and its only text where that is
 * JSON.
 */
export function namedError(given: unknown): "{ error: … }" | "{ isError: true }" | "{ success: false }" | null {
  const value = unwrapped(given);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  if (get(value, "isError") === true) return "{ isError: true }";
  if (get(value, "success") === false) return "{ success: false }";
  const error = get(value, "error");
  const isNamed =
    error === true || (typeof error === "string" && error !== "") || (typeof error === "object" && error !== null);
  // Data beside an error: a part that succeeded.
  const hasData = get(value, "data") !== null && get(value, "data") !== undefined;
  if (isNamed && !hasData) return "{ error: … }";
  const content = get(value, "content");
  return Array.isArray(content) ? namedError(saidIn(get(value, "structuredContent"), content)) : null;
}

/** What an MCP tool's result says, without `content` of its own. */
function saidIn(structured: unknown, content: readonly unknown[]): unknown {
  const said = typeof structured === "object" && structured !== null ? structured : onlyJson(content);
  return typeof said === "object" && said !== null ? { ...said, content: undefined } : null;
}

function onlyJson(content: readonly unknown[]): object | null {
  const [block] = content;
  const text = typeof block === "object" && block !== null ? get(block, "text") : undefined;
  return content.length === 1 && typeof text === "string" ? parsed(text) : null;
}

/** supabase-js has the status beside the error, its storage and resend inside of it, its functions in `context`. */
function statusOf(value: object, error: object): number | undefined {
  const context = get(error, "context");
  const response = get(value, "response");
  const found = [
    get(value, "status"),
    get(error, "status"),
    get(error, "statusCode"),
    typeof context === "object" && context !== null ? get(context, "status") : undefined,
    typeof response === "object" && response !== null ? get(response, "status") : undefined,
  ];
  for (const one of found) {
    const status = typeof one === "string" && /^\d{3}$/.test(one) ? Number(one) : one;
    if (typeof status === "number" && status >= 400 && status < 600) return status;
  }
  return undefined;
}

function get(target: object, key: string): unknown {
  try {
    return (target as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
