/** What can be wrong with a server, and what to do about it. Messages name no password and no value of a row. */
import { configError, isNevertwiceError, messageOf, NevertwiceError } from "../../core/errors.ts";
import { QueryTimeout } from "./client/timeout.ts";
import { NOT_OURS } from "./ownership.ts";
import { grantSql } from "./sql/schema.ts";

export interface Place {
  /** The store's name: host and database. */
  readonly where: string;
  readonly schema: string;
}

// Not EPIPE, and not Prisma's own P2010: what PostgreSQL said stands behind that.
const SQLSTATE = /^(?:[0-57]\d|[0-9F][0-9A-Z]|HV|XX|P0|NT)[0-9A-Z]{3}$/;

/** The SQLSTATE, also where a query builder wrapped the error. */
export function sqlState(error: unknown): string | null {
  for (let at = error, depth = 0; typeof at === "object" && at !== null && depth < 5; depth += 1) {
    const { code, cause, originalCode, meta, driverError } = at as Record<string, unknown>;
    const inner = (meta as Record<string, unknown> | undefined)?.code;
    for (const candidate of [originalCode, inner, code]) {
      if (typeof candidate === "string" && SQLSTATE.test(candidate)) return candidate;
    }
    at = cause ?? driverError ?? (meta as Record<string, unknown> | undefined)?.driverAdapterError;
  }
  return null;
}

/** Lost a race that only one can win, or chosen as a deadlock's victim: nothing was written, and another try may do. */
export function isTransient(error: unknown): boolean {
  const code = sqlState(error);
  return code === "40001" || code === "40P01";
}

export function storeError(error: unknown, place: Place): unknown {
  if (isNevertwiceError(error)) return error;
  if (error instanceof QueryTimeout) return unavailable(place, error, "did not answer in time", TIMEOUT_REMEDY);
  const code = sqlState(error);
  return code === null ? connectionError(error, place) : serverError(code, error, place);
}

const TIMEOUT_REMEDY =
  "Look for locks and load on the server (pg_stat_activity), or allow more time: postgresStore({ timeout }).";

function serverError(code: string, error: unknown, place: Place): unknown {
  const { where, schema } = place;
  switch (code) {
    case "28P01":
    case "28000":
      return configError(
        `${where} refused the login: ${said(error)}. Correct the user and password in the URL.`,
        error,
      );
    case "3D000":
      return configError(`${where}: ${said(error)}. Create the database (createdb), or correct the URL.`, error);
    case "3F000":
    case "42P01":
    case "42703":
      return configError(
        `the ledger's tables are not as this release left them in ${where} (${said(error)}): the schema "${schema}" was dropped or changed. Nothing was run. Restore it from a backup: in an empty ledger, what was done may be done again. A new one is made by: nevertwice migrate`,
        error,
      );
    case "42501":
      return configError(
        `this role may not use the ledger in ${where} (${said(error)}). As its owner run: nevertwice migrate --store <the owner's URL>${schema === "nevertwice" ? "" : ` --schema ${schema}`} --grant <role> (--dump-sql --grant <role> prints the SQL). Or run these yourself: ${grantSql(schema, "<role>").join("; ")};`,
        error,
      );
    case NOT_OURS:
      return configError(said(error), error);
    case "25006":
      return unavailable(place, error, "is read-only", "Connect to the primary; a replica cannot hold claims.");
    case "22021":
    case "22P05":
      return new NevertwiceError(
        "INVALID_INPUT",
        "a tenant, action, scope or holder has a character that PostgreSQL text cannot hold (U+0000). Take it out.",
        { cause: error },
      );
    case "57014":
      return unavailable(place, error, "cancelled the query", TIMEOUT_REMEDY);
    case "40001":
    case "40P01":
      return unavailable(place, error, "gave way to another transaction", "Run your transaction again.");
    case "53300":
      return unavailable(
        place,
        error,
        "has no connection left",
        "Raise max_connections, or put PgBouncer before it (transaction mode will do).",
      );
    case "53100":
      return unavailable(place, error, "has a full disk", "Make room on it.");
    default:
      return /^(08|53|57|58|XX)/.test(code)
        ? unavailable(place, error, "cannot serve now", "It may be starting, stopping or failing over.")
        : error;
  }
}

const NETWORK: Readonly<Record<string, readonly [what: string, remedy: string]>> = {
  ECONNREFUSED: ["refuses connections", "Start the server, or correct host and port in the URL."],
  ENOTFOUND: ["cannot be found", "Correct the host name in the URL, or look at DNS."],
  EAI_AGAIN: ["cannot be found", "DNS does not answer; look at the network."],
  ETIMEDOUT: ["cannot be reached", "Look at the network and at firewalls, and correct the host in the URL."],
  EHOSTUNREACH: ["cannot be reached", "Look at the network and at firewalls."],
  CONNECT_TIMEOUT: ["cannot be reached", "Look at the network and at firewalls, and correct the host in the URL."],
};

function connectionError(error: unknown, place: Place): NevertwiceError {
  const { code, errors } = (error ?? {}) as { code?: unknown; errors?: unknown[] };
  // A name with several addresses fails with all of them at once.
  const first = (errors?.[0] as { code?: unknown } | undefined)?.code;
  const known = NETWORK[String(code)] ?? NETWORK[String(first)];
  if (known !== undefined) return unavailable(place, error, ...known);
  if (/SSL|TLS|certificate/i.test(messageOf(error))) {
    return configError(
      `${place.where} and this program do not agree on TLS (${said(error)}). Set sslmode in the URL: require, verify-full, or disable on a trusted network; for a certificate of an authority of your own, pg is told of it with sslrootcert=FILE.`,
      error,
    );
  }
  return unavailable(
    place,
    error,
    `lost the connection or failed (${said(error)})`,
    "It is tried again by the next call.",
  );
}

function unavailable({ where }: Place, cause: unknown, what: string, remedy: string): NevertwiceError {
  return new NevertwiceError("STORE_UNAVAILABLE", `${where} ${what}. Nothing was run by this call. ${remedy}`, {
    cause,
  });
}

function said(error: unknown): string {
  return messageOf(error).split("\n")[0] as string;
}
