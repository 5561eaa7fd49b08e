/** The ledger's own words in a postgres:// URL, and the connection's, which go to the driver as they are. */
import { configError, messageOf } from "../../../core/errors.ts";
import { redact } from "../../../core/redact.ts";
import { flagParameter, refuseUnknownParameters } from "../../../core/store-url.ts";

export interface PostgresUrl {
  readonly url: string;
  /** Without a user and a password: it is shown in messages and logs. */
  readonly name: string;
  readonly schema: string | undefined;
  readonly migrate: string | undefined;
  readonly timeout: string | undefined;
  readonly listen: boolean | undefined;
}

const OWN = ["schema", "migrate", "timeout", "listen"];

// libpq's, as of PostgreSQL 18, whether or not a driver makes use of each: they are written by those who give out URLs.
const LIBPQ =
  `application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation gssencmode gsslib
  host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts max_protocol_version
  min_protocol_version options passfile password port replication require_auth requirepeer requiressl service ssl_max_protocol_version
  ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey sslmode sslnegotiation sslpassword sslrootcert
  sslsni target_session_attrs tcp_user_timeout user`.split(/\s+/);
// What pg and postgres.js read besides.
const DRIVERS =
  "ssl uselibpqcompat statement_timeout lock_timeout idle_in_transaction_session_timeout query_timeout database".split(
    " ",
  );

export function parsePostgresUrl(text: string): PostgresUrl {
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    throw wrong(
      `url cannot be read (${messageOf(error)}). Write postgres://user:password@host:5432/database, with special characters in the password percent-encoded`,
    );
  }
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:")
    throw wrong(`url begins with ${url.protocol}; write postgres://user:password@host:5432/database`);
  // Without them the user and the password would be read as the database's name.
  if (!/^postgres(?:ql)?:\/\//i.test(text.trim()))
    throw wrong("url has no // behind its scheme; write postgres://user:password@host:5432/database");
  const { searchParams: params, host, pathname } = url;
  refuseUnknownParameters("postgresStore", params.keys(), {
    own: OWN,
    driver: [...LIBPQ, ...DRIVERS],
    hint: " A setting of the server goes into options=-c%20name%3Dvalue. Parameters of other libraries, such as Prisma's pgbouncer and connection_limit, do not belong into this URL.",
  });
  const own = {
    schema: params.get("schema") ?? undefined,
    migrate: params.get("migrate") ?? undefined,
    timeout: params.get("timeout") ?? undefined,
    listen: flagParameter(params, "listen", "postgresStore") ?? undefined,
  };
  for (const name of OWN) params.delete(name);
  return { url: url.href, name: redact(`postgres://${host || "localhost"}${pathname}`), ...own };
}

function wrong(what: string) {
  return configError(`postgresStore: ${what}.`);
}
