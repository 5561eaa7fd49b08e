/**
 * Who calls over HTTP, by the head of a request. A token is read and not verified: what is said here counts only once the
 * server has accepted the very credential (agents/mcp/http/beliefs.ts).
 */
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { parseExact, stringifyExact } from "../../../core/exact-json.ts";
import { readJson } from "../../../core/strict-json.ts";

export interface Who {
  /** "": nothing says who it is, one caller for the proxy. */
  readonly principal: string;
  /** The digest of all that the server may know the caller by; null: there is nothing. */
  readonly credential: string | null;
  /** The principal is the credential itself, so that a refreshed one looks like another caller. */
  readonly isOpaque: boolean;
  /** When the token ends, in epoch ms; null: it does not say. */
  readonly endsAt: number | null;
}

const CLAIM = "claim:";

/** Names of headers among what says who calls. */
export function headerNames(principal: readonly string[]): readonly string[] {
  return principal.filter((name) => !name.startsWith(CLAIM)).map((name) => name.toLowerCase());
}

/** null: it is a header's name, or claim: and a name. */
export function principalProblem(name: string): string | null {
  if (name.startsWith(CLAIM)) return name.length > CLAIM.length ? null : "a claim needs a name: claim:sub";
  return /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) ? null : "it takes the name of a header, or claim:sub";
}

/** By `principal` where given; otherwise by the token's issuer and subject, by credentials, by cookies where there is nothing else. */
export function whoCalls(headers: IncomingHttpHeaders, query: string, principal?: readonly string[]): Who {
  const authorization = authorizationOf(headers);
  const token = tokenOf(authorization);
  const found = credentialsOf(headers, authorization, headerNames(principal ?? []));
  const credential: readonly Part[] = [...found, ...(query === "" ? [] : [["?", query] as const])];
  const parts = principal === undefined ? byDefault(credential, token) : named(principal, headers, query, token, found);
  return {
    principal: parts.every(([, value]) => value === null) ? "" : JSON.stringify(parts),
    credential: credential.length === 0 ? null : digest(JSON.stringify(credential)),
    isOpaque: principal === undefined && credential.length > 0 && parts.every(([name]) => name !== "token"),
    endsAt: typeof token?.exp === "number" ? token.exp * 1000 : null,
  };
}

type Part = readonly [name: string, value: unknown];
type Claims = Readonly<Record<string, unknown>>;

/** The subject of a token is only one together with its issuer. Cookies change by the way: they count where nothing else is there. */
function byDefault(credentials: readonly Part[], token: Claims | null): readonly Part[] {
  const { iss, sub } = token ?? {};
  const isNamed = isText(iss) && isText(sub);
  const others = credentials.filter(([name]) => name !== "cookie" && !(isNamed && name === "authorization"));
  if (isNamed) return [["token", [iss, sub]], ...others.map(digested)];
  return (others.length > 0 ? others : credentials).map(digested);
}

/** A token without the claim is nobody's but its holder's. */
function named(
  names: readonly string[],
  headers: IncomingHttpHeaders,
  query: string,
  token: Claims | null,
  found: readonly Part[],
): readonly Part[] {
  const parts = names.map((name): Part => {
    if (!name.startsWith(CLAIM)) {
      const value = name.toLowerCase() === "authorization" ? authorizationOf(headers) : headers[name.toLowerCase()];
      return [name.toLowerCase(), value === undefined ? null : digest(String(value))];
    }
    const claim = claimOf(token, name.slice(CLAIM.length));
    return claim === null && found.length > 0 ? ["credential", found.map(digested)] : [name, claim];
  });
  const issuer: readonly Part[] = names.some((name) => name.startsWith(CLAIM)) ? [["iss", token?.iss ?? null]] : [];
  return [...parts, ...issuer, ...(query === "" ? [] : [["?", digest(query)] as const])];
}

function claimOf(token: Claims | null, name: string): string | null {
  const value = token !== null && Object.hasOwn(token, name) ? token[name] : null;
  return value === null || value === "" ? null : stringifyExact(value);
}

function digested([name, value]: Part): Part {
  return [name, digest(String(value))];
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

// By name: a server takes keys and tokens in headers of its own too. A token against forged requests changes with each page.
const CREDENTIAL = /authorization|api-?key|access-?key|token|secret|passw|credential|^x-auth|^x-.*-auth$/;
const NO_CREDENTIAL = /csrf|xsrf|^mcp-|^sec-/;

/** In the order of their names, so that the order they came in says nothing. */
function credentialsOf(
  headers: IncomingHttpHeaders,
  authorization: string | undefined,
  also: readonly string[],
): readonly Part[] {
  return Object.entries(headers)
    .filter(([name, value]) => value !== undefined && (isCredential(name) || also.includes(name)))
    .map(([name, value]): Part => [name, name === "authorization" ? authorization : String(value)])
    .sort(([one], [two]) => (one < two ? -1 : 1));
}

export function isCredential(name: string): boolean {
  return name === "cookie" || (CREDENTIAL.test(name) && !NO_CREDENTIAL.test(name));
}

/** A scheme's name is the same in any case (RFC 9110, 11.1). */
function authorizationOf({ authorization }: IncomingHttpHeaders): string | undefined {
  const [, scheme, rest] = /^\s*([^\s=]+)[ \t]+(.+?)\s*$/.exec(authorization ?? "") ?? [];
  return scheme === undefined ? authorization?.trim() : `${scheme.toLowerCase()} ${rest}`;
}

/**
 * The claims of a JWT (RFC 7519); null: it is none, or can be read in two ways, or nothing is signed in it. Then it is a text
 * like any other.
 */
function tokenOf(authorization: string | undefined): Claims | null {
  const [, head, body] = /^bearer ([\w-]+)\.([\w-]+)\.[\w-]+$/.exec(authorization ?? "") ?? [];
  const [header, claims] = [jsonOf(head), jsonOf(body)];
  if (header === null || claims === null || !isText(header.alg) || header.alg.toLowerCase() === "none") return null;
  return claims;
}

function jsonOf(part: string | undefined): Claims | null {
  if (part === undefined) return null;
  const reading = readJson(Buffer.from(part, "base64url").toString("utf8"), parseExact);
  const value = reading.ok ? reading.value : null;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Claims) : null;
}
