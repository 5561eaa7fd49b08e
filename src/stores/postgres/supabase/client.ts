/**
 * PostgreSQL through supabase-js alone: no connection, only calls of one function that runs the statements which our
 * migration put into a table. A statement goes by the digest of its text, so a release runs its own or none.
 */
import { createHash } from "node:crypto";
import { configError, NevertwiceError } from "../../../core/errors.ts";
import type { Driver } from "../client/connection.ts";
import { answerWithin } from "../client/timeout.ts";
import type { Row, SqlText } from "../sql/row.ts";
import { dollarQuoted, quoteName, quoteText } from "../sql/schema.ts";

interface RpcError {
  readonly code?: string;
  readonly message: string;
  readonly details?: string | null;
  readonly hint?: string | null;
}

/** By shape: what `createClient(url, serviceRoleKey)` of @supabase/supabase-js returns. */
export interface SupabaseClient {
  rpc(name: string, args: object): PromiseLike<{ readonly data: unknown; readonly error: unknown }>;
}

// More than any statement of ours has.
const MOST_PARAMETERS = 48;
// Hexadecimal digits of a statement's digest: its name.
const NAME_LENGTH = 32;
/** Raised by the function for a statement that the migration did not bring. */
export const UNKNOWN_STATEMENT = "NT001";

function statementName(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, NAME_LENGTH);
}

export function functionName(schema: string): string {
  return `${schema}_run`;
}

export function supabaseDriver(client: SupabaseClient, schema: string, timeoutMs: number): Driver {
  const query = async (text: string, values: readonly SqlText[] = []): Promise<Row[]> => {
    const call = client.rpc(functionName(schema), { statement: statementName(text), parameters: values });
    const { data, error } = await answerWithin(timeoutMs, call, () => {});
    if (error !== null) throw asError(error as RpcError, schema);
    return data as Row[];
  };
  return {
    uniform: true,
    query,
    transaction: (work) => work({ query, uniform: true }),
    listen: async () => null,
    close: async () => {},
  };
}

function asError({ code = "", message, details }: RpcError, schema: string): unknown {
  const install = `nevertwice migrate --supabase${schema === "nevertwice" ? "" : ` --schema ${schema}`}`;
  if (code === "PGRST202" || code === "PGRST106" || code === UNKNOWN_STATEMENT) {
    return configError(
      `the ledger's function ${functionName(schema)} is not there, or is of another release (${message}). Run ${install} --store <connection string>, or ${install} --dump-sql and paste what it prints into Supabase's SQL editor.`,
    );
  }
  if (code === "42501") {
    return configError(
      `this key may not use the ledger (${message}). Make the client on the server, with the service_role (secret) key: the anon key can do nothing with it, by design.`,
    );
  }
  if (/^PGRST30\d$/.test(code) || /invalid api key|jwt/i.test(message)) {
    return configError(`Supabase refused the key (${message}). Pass the project's service_role (secret) key.`);
  }
  if (/^PGRST/.test(code) || code === "") {
    return new NevertwiceError(
      "STORE_UNAVAILABLE",
      `Supabase did not answer (${code === "" ? message : `${code} ${message}`}). Nothing was run by this call. Look at the project's URL, at the network and at Supabase's status; it is tried again by the next call.`,
      { cause: new Error(details ?? message) },
    );
  }
  // PostgreSQL's own: what it means, and what to do, is said where all of them are.
  return Object.assign(new Error(message), { code });
}

/** What `nevertwice migrate --supabase` runs besides: the statements, the function, and who may call it. */
export function supabaseSql(schema: string, texts: readonly string[]): string[] {
  const name = quoteName(schema);
  const run = `public.${quoteName(functionName(schema))}(text, text[])`;
  const parameters = Array.from({ length: MOST_PARAMETERS }, (_, at) => `parameters[${at + 1}]`).join(", ");
  const rows = texts.map((text) => `('${statementName(text)}', ${quoteText(text)})`);
  return [
    `CREATE TABLE IF NOT EXISTS ${name}.statements (name text PRIMARY KEY, text text NOT NULL)`,
    `INSERT INTO ${name}.statements AS s (name, text) VALUES\n${rows.join(",\n")}\nON CONFLICT (name) DO UPDATE SET text = EXCLUDED.text WHERE s.text <> EXCLUDED.text`,
    `CREATE OR REPLACE FUNCTION public.${quoteName(functionName(schema))}(statement text, parameters text[]) RETURNS SETOF jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS ${dollarQuoted(`
DECLARE
  known text;
  answer record;
BEGIN
  SELECT s.text INTO known FROM ${name}.statements s WHERE s.name = statement;
  -- Whoever could write the table must not be able to have anything else run with the rights of its owner.
  IF known IS NULL OR left(encode(sha256(convert_to(known, 'UTF8')), 'hex'), ${NAME_LENGTH}) <> statement THEN
    RAISE EXCEPTION USING ERRCODE = '${UNKNOWN_STATEMENT}', MESSAGE = 'no such statement';
  END IF;
  FOR answer IN EXECUTE known USING ${parameters} LOOP
    RETURN NEXT to_jsonb(answer);
  END LOOP;
END `)}`,
    // Everybody may call a new function, and Supabase's default privileges name some roles besides. Nobody sees it before
    // the migration commits, and then only who is granted it here.
    `REVOKE ALL ON FUNCTION ${run} FROM PUBLIC CASCADE`,
    ...["records", "watch", "meta", "statements"].map(
      (table) => `ALTER TABLE ${name}.${table} ENABLE ROW LEVEL SECURITY`,
    ),
    `DO ${dollarQuoted(`DECLARE role text; BEGIN
  FOR role IN SELECT DISTINCT pg_get_userbyid(a.grantee) FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
    WHERE p.oid = ${quoteText(run)}::regprocedure AND a.grantee NOT IN (0, p.proowner) LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I CASCADE', ${quoteText(run)}, role);
  END LOOP;
  FOR role IN SELECT rolname FROM pg_roles WHERE rolname IN ('anon', 'authenticated') LOOP
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %I', ${quoteText(name)}, role);
    EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM %I', ${quoteText(name)}, role);
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'service_role') THEN
    GRANT EXECUTE ON FUNCTION ${run} TO service_role;
  END IF;
END `)}`,
  ];
}
