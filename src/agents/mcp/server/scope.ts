/** Whose call of an MCP server's tool it is. There is no default: an OAuth client's id is the same for all users of an app. */
import { configError, NevertwiceError } from "../../../core/errors.ts";

interface AuthInfo {
  readonly clientId?: string;
  /** What the token's verifier adds. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** What a callback gets beside its arguments: `extra` of SDK 1.x, `ctx` of 2.x. */
export interface McpExtra {
  readonly authInfo?: AuthInfo;
  readonly sessionId?: string;
  readonly http?: { readonly authInfo?: AuthInfo };
  readonly [field: string]: unknown;
}

/** A text, a function of the call, or null: an intent happens once, whoever asks. */
export type McpScope = string | null | ((extra: McpExtra) => string | null | undefined);

const SUBJECT = ["sub", "subject", "userId", "user_id"] as const;
const ISSUER = ["iss", "issuer"] as const;

/**
 * For `scope`: the subject of the call's access token, with its issuer where the verifier gives one. The SDKs' AuthInfo has no field
 * for it: a verifier puts it into `extra` (`sub`, `subject`, `userId`, or the token's `claims`).
 */
export function subjectOf(extra: McpExtra): string {
  const auth = extra.authInfo ?? extra.http?.authInfo;
  for (const claims of claimsIn(auth)) {
    const subject = textIn(claims, SUBJECT);
    if (subject === undefined) continue;
    const issuer = textIn(claims, ISSUER);
    // An issuer is a URL without a fragment.
    return issuer === undefined ? subject : `${issuer}#${subject}`;
  }
  throw new NevertwiceError(
    "INVALID_KEY",
    auth === undefined
      ? "scope: subjectOf found no access token with this call. Nothing was run: without a subject, one user would get another's result. Put the server behind a token verifier, or choose another scope."
      : "scope: subjectOf found no subject in this call's authInfo. Nothing was run: without a subject, one user would get another's result. Let verifyAccessToken return { extra: { sub } }, the user's stable id, or choose another scope.",
  );
}

/** For `scope`: the transport's session. A client that connects again has another one, and its calls are new intents. */
export function sessionOf({ sessionId }: McpExtra): string {
  if (typeof sessionId === "string" && sessionId.trim() !== "") return sessionId;
  throw new NevertwiceError(
    "INVALID_KEY",
    "scope: sessionOf found no session with this call. Nothing was run: without one, one conversation would get another's result. Give the HTTP transport a sessionIdGenerator; over stdio, where a process has one client, write a text or null.",
  );
}

export function requireScope(options: { readonly scope?: unknown }, where: string): void {
  if (options.scope !== undefined) return;
  const given = "scope" in options ? "scope is undefined" : "scope is missing";
  throw configError(
    `${where}: ${given}. There is no default, because an OAuth client's id is the same for all users of an app. Give scope: subjectOf (the access token's subject) or sessionOf (the transport's session), both in nevertwice/agents/mcp; or a text, a function of the call, or null where an intent happens once, whoever asks.`,
  );
}

function claimsIn(auth: AuthInfo | undefined): Readonly<Record<string, unknown>>[] {
  const { extra } = auth ?? {};
  return [extra, extra?.claims, extra?.payload, extra?.user, auth].filter(
    (one): one is Record<string, unknown> => typeof one === "object" && one !== null,
  );
}

function textIn(claims: Readonly<Record<string, unknown>>, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = claims[name];
    if (typeof value === "number") return String(value);
    if (typeof value === "string" && value.trim() !== "") return value;
  }
  return undefined;
}
