// A streaming standby of a PostgreSQL of ours, and its promotion.
import { join } from "node:path";
import { onFreePorts } from "./free-port.mjs";
import { configure, Postgres, SUPERUSER } from "./postgres.mjs";
import { program } from "./programs.mjs";
import { giveAway } from "./unprivileged.mjs";
import { until } from "./until.mjs";

/**
 * A copy of the primary that follows it, in step when this returns.
 * @param {import("./keep.mjs").Keep} keep
 * @param {Postgres} primary
 * @param {{ name?: string, synchronous?: boolean, port?: number }} [options] port: a proxy in front of the primary, to
 *   cut the stream; synchronous: the primary's commits wait for this standby from now on
 */
export async function startStandby(keep, primary, options = {}) {
  const { name = "standby", synchronous = false, port = primary.port } = options;
  const folder = keep.newFolder(name);
  giveAway(folder);
  const data = join(folder, "data");
  const source = `host=127.0.0.1 port=${port} user=${SUPERUSER} password=${primary.password} application_name=${name}`;
  await keep.run({
    name: `${name}-basebackup`,
    command: program("pg_basebackup"),
    args: ["-d", source, "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync"],
    asNobody: true,
  });
  configure(data, { unix_socket_directories: folder, wal_retrieve_retry_interval: "100ms" });
  const standby = await onFreePorts(1, async ([own]) => {
    const server = new Standby({ keep, name, folder, data, port: own, password: primary.password });
    await server.start();
    return server;
  });
  if (synchronous) await makeSynchronous(primary, name);
  await until(() => follows(primary, name, synchronous ? "sync" : "async"), {
    what: `${name} following ${primary.name}`,
  });
  return standby;
}

export class Standby extends Postgres {
  /** Makes it a primary of its own; the old one must not be written to any more. */
  async promote() {
    const [row] = await this.query("SELECT pg_promote(true, 20) AS done");
    if (!row?.done) throw new Error(`${this.name} was not promoted within 20 s`);
    // Or its own commits would wait for the standby it used to be.
    await this.query("ALTER SYSTEM SET synchronous_standby_names = ''");
    await this.query("SELECT pg_reload_conf()");
  }
}

async function makeSynchronous(primary, name) {
  await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '"${name}"'`);
  await primary.query("SELECT pg_reload_conf()");
}

async function follows(primary, name, syncState) {
  const [row] = await primary.query("SELECT state, sync_state FROM pg_stat_replication WHERE application_name = $1", [
    name,
  ]);
  return row?.state === "streaming" && row.sync_state === syncState;
}
