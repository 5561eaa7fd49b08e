/**
 * What stands between supabase-js and PostgreSQL, as far as functions and inserts go: PostgREST's way of calling them. Each call is
 * one transaction of the real server, under the role that the key stands for; errors come back as PostgREST words them.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import pg from "pg";
import { afterwards } from "../services/on-demand.ts";

export interface Postgrest {
  readonly url: string;
  readonly keys: Readonly<Record<Role, string>>;
  /** Until told otherwise nothing answers but 503. */
  down(is: boolean): void;
}

export type Role = "anon" | "authenticated" | "service_role";

const ROLES: readonly Role[] = ["anon", "authenticated", "service_role"];

/** The roles of every Supabase project, and what it grants them without being asked. As a superuser. */
export async function supabaseRoles(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    // Roles belong to the whole server, and two test files may come at once.
    await client.query("BEGIN; SELECT pg_advisory_xact_lock(7531)");
    for (const role of ROLES) {
      await client.query(
        `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '${role}') THEN CREATE ROLE ${role} NOLOGIN${role === "service_role" ? " BYPASSRLS" : ""}; END IF; END $$`,
      );
    }
    const everybody = ROLES.join(", ");
    await client.query(`GRANT USAGE ON SCHEMA public TO ${everybody}`);
    for (const owner of ["postgres", "nevertwice"])
      for (const kind of ["FUNCTIONS", "TABLES"])
        await client.query(
          `ALTER DEFAULT PRIVILEGES FOR ROLE ${owner} IN SCHEMA public GRANT ALL ON ${kind} TO ${everybody}`,
        );
    await client.query(`GRANT CREATE ON SCHEMA public TO nevertwice; COMMIT`);
  } finally {
    await client.end();
  }
}

export async function startPostgrest(adminUrl: string): Promise<Postgrest> {
  const pool = new pg.Pool({ connectionString: adminUrl, max: 8 });
  pool.on("error", () => {});
  const keys = { anon: "key-of-anon", authenticated: "key-of-a-user", service_role: "key-of-the-service" };
  let isDown = false;
  const server = createServer((request, response) => {
    if (isDown) return reply(response, 503, { code: "PGRST000", message: "Could not connect with the database" });
    serve(pool, keys, request, response).catch((error: unknown) => reply(response, 500, { message: String(error) }));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  afterwards(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
    await pool.end();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    keys,
    down: (is) => {
      isDown = is;
    },
  };
}

async function serve(pool: pg.Pool, keys: Postgrest["keys"], request: IncomingMessage, response: ServerResponse) {
  const [, rpc, name] = /^\/rest\/v1\/(rpc\/)?([^/?]+)(?:\?.*)?$/.exec(request.url ?? "") ?? [];
  if (name === undefined || request.method !== "POST")
    return reply(response, 404, { code: "PGRST125", message: "Invalid path specified in request URL" });
  const token = String(request.headers.authorization ?? "").replace(/^Bearer /, "");
  const role = ROLES.find((one) => keys[one] === token);
  if (role === undefined || request.headers.apikey !== token)
    return reply(response, 401, { message: "Invalid API key", hint: "Double check your Supabase API key." });
  const args = JSON.parse(await textOf(request)) as Record<string, unknown>;
  const work = rpc === undefined ? insertAs : callAs;
  const { status, body } = await work(pool, role, decodeURIComponent(name), args);
  reply(response, status, body);
}

/** As PostgREST does it: the body is a record with the types of the function's parameters, and what it has not is a default. */
async function callAs(pool: pg.Pool, role: Role, name: string, args: Record<string, unknown>) {
  const client = await pool.connect();
  try {
    const found = await client.query(
      `SELECT p.proretset AS many, (SELECT jsonb_object_agg(a.name, format_type(a.type, NULL))
         FROM unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[]), coalesce(p.proargmodes, array_fill('i'::"char", ARRAY[p.pronargs])))
           AS a(name, type, mode) WHERE a.mode = 'i') AS types
       FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname = $1`,
      [name],
    );
    const [known] = found.rows as { many: boolean; types: Record<string, string> | null }[];
    const names = Object.keys(args);
    if (known === undefined || names.some((arg) => known.types?.[arg] === undefined))
      return failure({ code: "42883", message: "" }, name, role);
    await client.query(`BEGIN; SET LOCAL ROLE ${role}`);
    const list = names.map((arg) => `${quoted(arg)} => b.${quoted(arg)}`).join(", ");
    const columns = names.map((arg) => `${quoted(arg)} ${known.types?.[arg]}`).join(", ");
    const body = names.length === 0 ? "" : `json_to_record($1::json) AS b(${columns}), LATERAL `;
    const { rows } = await client.query(
      `SELECT to_jsonb(x) AS answer FROM ${body}public.${quoted(name)}(${list}) AS x`,
      names.length === 0 ? [] : [JSON.stringify(args)],
    );
    await client.query("COMMIT");
    const answers = rows.map(({ answer }) => answer as unknown);
    return { status: 200, body: known.many ? answers : answers[0] };
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    return failure(error as { code?: string; message: string; detail?: string }, name, role);
  } finally {
    client.release();
  }
}

/** As with `.insert(row).select()`: the row comes back. */
async function insertAs(pool: pg.Pool, role: Role, table: string, row: Record<string, unknown>) {
  const client = await pool.connect();
  const columns = Object.keys(row);
  const values = columns.map((_, at) => `$${at + 1}`).join(", ");
  try {
    await client.query(`BEGIN; SET LOCAL ROLE ${role}`);
    const { rows } = await client.query(
      `INSERT INTO public.${quoted(table)} (${columns.map(quoted).join(", ")}) VALUES (${values}) RETURNING *`,
      Object.values(row),
    );
    await client.query("COMMIT");
    return { status: 201, body: rows };
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    return failure(error as { code?: string; message: string }, table, role);
  } finally {
    client.release();
  }
}

function failure(
  { code, message, detail }: { code?: string; message: string; detail?: string },
  name: string,
  role: Role,
) {
  if (code === "42883")
    return { status: 404, body: { code: "PGRST202", message: `Could not find the function public.${name}` } };
  const status = statusOf(code, role);
  return { status, body: { code, message, details: detail ?? null, hint: null } };
}

/** PostgREST's own table, as far as it is needed. */
function statusOf(code: string | undefined, role: Role): number {
  if (code === "42501") return role === "anon" ? 401 : 403;
  if (code === "23503" || code === "23505") return 409;
  if (code?.startsWith("40") || code?.startsWith("55")) return 500;
  return code?.startsWith("57") || code?.startsWith("53") ? 503 : 400;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  request.setEncoding("utf8");
  for await (const chunk of request) text += chunk;
  return text;
}
