// Finds the server programs, and installs what is missing where that is ours to do (root, with apt).
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const packageOf = {
  initdb: "postgresql",
  postgres: "postgresql",
  pg_basebackup: "postgresql",
  psql: "postgresql",
  "redis-server": "redis-server",
  "valkey-server": "valkey-server",
  pgbouncer: "pgbouncer",
  openssl: "openssl",
};
/** Valkey instead of Redis: NEVERTWICE_TEST_REDIS_SERVER=valkey-server. */
export const redisServer = process.env.NEVERTWICE_TEST_REDIS_SERVER ?? "redis-server";
const variableOf = {
  postgresql: "NEVERTWICE_TEST_POSTGRES=postgres://user:password@host:5432/database",
  "redis-server": "NEVERTWICE_TEST_REDIS=redis://host:6379 and NEVERTWICE_TEST_REDIS_CLUSTER=host:port,host:port,…",
  pgbouncer: "NEVERTWICE_TEST_PGBOUNCER=postgres://user:password@host:6432/database",
};
const DEBIAN_POSTGRES = "/usr/lib/postgresql";
const POLICY = "/usr/sbin/policy-rc.d";
const INSTALL_MS = 300_000;

/** @param {string} name @returns {string} */
export function program(name) {
  const path = find(name);
  if (path === undefined) throw new Error(howTo([packageOf[name] ?? name]));
  return path;
}

/** @param {string} name @returns {string | undefined} */
export function find(name) {
  // Debian keeps PostgreSQL's programs off the PATH, and pgbouncer in a folder that only root has on it.
  const folders = [...debianPostgres(), ...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find(isProgram);
}

/** Installs the missing ones, or says what to do. @param {readonly string[]} names */
export function ensurePrograms(names) {
  const missing = () => [...new Set(names.filter((name) => !find(name)).map((name) => packageOf[name]))];
  const packages = missing();
  if (packages.length === 0) return;
  if (process.getuid?.() !== 0 || !find("apt-get")) throw new Error(howTo(packages));
  process.stderr.write(`installing ${packages.join(", ")} for the tests\n`);
  installQuietly(packages);
  if (missing().length > 0) throw new Error(howTo(missing()));
}

function installQuietly(packages) {
  // Debian starts a server when it installs one, on the usual port; ours are private. 101 means "not allowed".
  const ours = !existsSync(POLICY);
  if (ours) writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    apt("update");
    apt("install", "-y", "--no-install-recommends", ...packages);
  } finally {
    if (ours) rmSync(POLICY, { force: true });
  }
  // A policy that was there before may have allowed it.
  const service = find("service");
  if (!ours && service) for (const name of packages) spawnSync(service, [name, "stop"], { timeout: 30_000 });
}

function apt(...args) {
  const done = spawnSync(program("apt-get"), ["-o", "DPkg::Lock::Timeout=120", ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    encoding: "utf8",
    timeout: INSTALL_MS,
  });
  if (done.status !== 0) throw new Error(`apt-get ${args.join(" ")} failed:\n${done.stderr || done.error?.message}`);
}

function howTo(packages) {
  // Not everything that is missing is a server.
  const variables = packages.flatMap((name) => variableOf[name] ?? []);
  return [
    `the tests need ${packages.join(", ")}. Install them (Debian, Ubuntu):`,
    `  sudo apt-get install -y --no-install-recommends ${packages.join(" ")}`,
    ...(variables.length > 0 ? ["or name servers that already run:", ...variables.map((one) => `  ${one}`)] : []),
    "or leave out what needs them: NEVERTWICE_TEST_SERVICES=off",
  ].join("\n");
}

function debianPostgres() {
  if (!existsSync(DEBIAN_POSTGRES)) return [];
  const versions = readdirSync(DEBIAN_POSTGRES).sort((a, b) => Number(b) - Number(a));
  return versions.map((version) => join(DEBIAN_POSTGRES, version, "bin"));
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
