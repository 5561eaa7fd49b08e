// PgBouncer in transaction mode: between two transactions a client may get another session.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { onFreePorts } from "./free-port.mjs";
import { program } from "./programs.mjs";
import { giveAway } from "./unprivileged.mjs";
import { GiveUp, until } from "./until.mjs";

/**
 * @param {import("./keep.mjs").Keep} keep
 * @param {{ url: string }} upstream whose user and password are the ones PgBouncer accepts and uses
 * @param {{ name?: string, settings?: Record<string, string | number> }} [options] settings as in pgbouncer.ini
 */
export async function startPgBouncer(keep, upstream, { name = "pgbouncer", settings = {} } = {}) {
  const folder = keep.newFolder(name);
  const to = new URL(upstream.url);
  return onFreePorts(1, async ([port]) => {
    const config = writeConfig(folder, to, port, settings);
    const server = await keep.start({ name, command: program("pgbouncer"), args: [config], asNobody: true });
    const url = Object.assign(new URL(to), { hostname: "127.0.0.1", port: String(port) }).href;
    await until(() => answers(server, url), { what: `${name} on port ${port}` });
    return {
      port,
      url,
      get pid() {
        return server.pid;
      },
      stop: () => server.end("SIGTERM"),
    };
  });
}

function writeConfig(folder, to, port, settings) {
  const users = join(folder, "users.txt");
  const config = join(folder, "pgbouncer.ini");
  const [user, password] = [to.username, to.password].map(decodeURIComponent);
  const merged = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "scram-sha-256",
    auth_file: users,
    admin_users: user,
    pool_mode: "transaction",
    // Few, so that clients really share sessions and code that keeps session state shows it.
    default_pool_size: 8,
    max_client_conn: 500,
    server_round_robin: 1,
    ...settings,
  };
  const lines = Object.entries(merged).map(([name, value]) => `${name} = ${value}`);
  const target = `* = host=${to.hostname} port=${to.port || 5432}`;
  writeFileSync(config, ["[databases]", target, "[pgbouncer]", ...lines, ""].join("\n"), { mode: 0o600 });
  writeFileSync(users, `${quoted(user)} ${quoted(password)}\n`, { mode: 0o600 });
  for (const path of [folder, config, users]) giveAway(path);
  return config;
}

function quoted(text) {
  return `"${text.replaceAll('"', '""')}"`;
}

async function answers(server, url) {
  if (!server.alive) throw new GiveUp(`PgBouncer ended at its start:\n${server.tail()}`);
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, query_timeout: 5_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } finally {
    await client.end().catch(() => {});
  }
}
