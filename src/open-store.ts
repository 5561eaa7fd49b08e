/** From a store's name to the store: one list for programs, the command and the environment. */
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { configError } from "./core/errors.ts";
import type { Store } from "./core/store.ts";
import { refuseUnknownParameters } from "./core/store-url.ts";
import { loadFile, loadPostgres, loadRedis, loadS3 } from "./named-stores.ts";
import { memoryStore } from "./stores/memory.ts";
import { postgresClock } from "./stores/postgres/clock.ts";
import { POSTGRES_ROWS, POSTGRES_TRAITS } from "./stores/postgres/known.ts";
import { checkOptions, type PostgresStoreOptions } from "./stores/postgres/options.ts";
import { redisClock } from "./stores/redis/clock.ts";
import { readLocation } from "./stores/redis/location.ts";
import { S3Clock } from "./stores/s3/clock.ts";
import { credentialsFrom, S3_TRAITS, s3Name, s3Place } from "./stores/s3/location.ts";
import { hostInstant } from "./stores/shared/host-clock.ts";
import { storeOnDemand } from "./stores/shared/on-demand.ts";
import { hasDriver } from "./stores/sqlite/driver.ts";
import { sqliteStore } from "./stores/sqlite/index.ts";
import { defaultLocation, prepareFolder, type Surroundings, surroundings } from "./stores/sqlite/location.ts";

// As the stores themselves say it, once they are loaded.
const REDIS_BATCH_ROWS = 128;
const FILE_BATCH_ROWS = 256;

export interface NamedStore {
  readonly store: Store;
  /** How the store was chosen: shown by doctor and --verbose. */
  readonly why: string;
}

export function openStore(given: string | Store | undefined): Store {
  return chooseStore(given, "store").store;
}

/** An explicit name wins over $NEVERTWICE_STORE, which wins over the embedded default. */
export function chooseStore(
  given: string | Store | undefined,
  option: "store" | "--store",
  around: Surroundings = surroundings(),
): NamedStore {
  if (given !== undefined && typeof given !== "string") {
    if (!isStore(given))
      throw configError(
        'store is neither a string nor a store. Pass "sqlite:app.db", "memory:", or what a factory such as sqliteStore() returned.',
      );
    return { store: given, why: "passed by the program" };
  }
  const named = nameOf(given, option, around);
  if (named !== null) {
    // The command looks at a ledger and never makes one; `nevertwice migrate` does. Else the URL may say it.
    const migrate = option === "--store" ? "manual" : undefined;
    return { store: byName(named.name, named.from, around.cwd, migrate), why: `named by ${named.from}` };
  }
  const { path, why, foreign = [] } = defaultLocation(around);
  warnOfForeign(foreign, path);
  // Without a driver the first call says which one to install; until then nothing is left behind.
  if (existsSync(dirname(path)) || hasDriver()) prepareFolder(path);
  return { store: sqliteStore({ path }), why };
}

const warned = new Set<string>();

function warnOfForeign(folders: readonly string[], path: string): void {
  for (const folder of folders) {
    if (warned.has(folder)) continue;
    warned.add(folder);
    process.emitWarning(
      `${folder} belongs to another user, and is not used: the ledger is ${path}. If you trust that folder, name it: NEVERTWICE_STORE=sqlite:${folder}/ledger.db`,
      { type: "NevertwiceWarning", code: "NEVERTWICE_FOREIGN_LEDGER" },
    );
  }
}

function nameOf(given: string | undefined, option: string, { env }: Surroundings) {
  if (given !== undefined) return { name: given, from: option };
  const fromEnv = env.NEVERTWICE_STORE;
  return fromEnv === undefined || fromEnv.trim() === "" ? null : { name: fromEnv, from: "$NEVERTWICE_STORE" };
}

/**
 * The file that `chooseStore` would open, for those who only want to look: opening makes it where there is none.
 * Null: the store is not a file of its own.
 */
export function ledgerFile(
  given: string | undefined,
  option: "store" | "--store",
  around: Surroundings = surroundings(),
): { readonly path: string; readonly why: string; readonly scheme: "sqlite" | "file" } | null {
  const named = nameOf(given, option, around);
  if (named === null) return { ...defaultLocation(around), scheme: "sqlite" };
  const { scheme, rest } = splitName(named.name);
  refuseParametersOfFile(named.name, named.from);
  const isFile =
    scheme === null ? looksLikeFile(rest) : (scheme === "sqlite" || scheme === "file") && rest.trim() !== "";
  return isFile
    ? {
        path: resolve(around.cwd, decodePath(rest)),
        why: `named by ${named.from}`,
        scheme: scheme === "file" ? scheme : "sqlite",
      }
    : null;
}

/** A single letter is a drive of Windows, not a scheme. */
function splitName(name: string): { scheme: string | null; rest: string } {
  const scheme = /^([a-z0-9+]{2,}):/i.exec(name)?.[1]?.toLowerCase() ?? null;
  return { scheme, rest: scheme === null ? name : name.slice(scheme.length + 1) };
}

function byName(name: string, from: string, cwd: string, migrate: "manual" | undefined): Store {
  const { scheme, rest } = splitName(name);
  switch (scheme) {
    case null:
      return bareName(name, from, cwd);
    case "memory":
      if (!/^(?:\/\/)?$/.test(rest))
        throw configError(
          `${from}: ${JSON.stringify(name)} names something, and a ledger in memory has no name and no parameters: each program has its own. Write memory:`,
        );
      return memoryStore();
    case "sqlite":
      if (rest.trim() === "") throw configError(`${from}: "${name}" names no file. Write sqlite:path/to/ledger.db`);
      return sqliteStore({ path: fileOf(name, rest, from, cwd) });
    case "file":
      if (rest.trim() === "") throw configError(`${from}: "${name}" names no file. Write file:path/to/ledger.jsonl`);
      return fileByPath(fileOf(name, rest, from, cwd));
    case "postgres":
    case "postgresql":
      return postgresByUrl({ url: name, ...(migrate !== undefined && { migrate }) });
    case "redis":
    case "rediss":
      return redisByUrl(name);
    case "s3":
      return s3ByUrl(name);
    default:
      throw configError(
        `${from}: there is no store "${scheme}:" in this release. It takes sqlite:path/to/ledger.db, file:path/to/ledger.jsonl, postgres://user:password@host/database, redis://host:6379, s3://bucket/prefix or memory:, or a Store object.`,
      );
  }
}

/** Options are checked here and now, so that a wrong name is refused by nevertwice() itself. */
function postgresByUrl(options: PostgresStoreOptions): Store {
  const { name } = checkOptions(options);
  const clock = postgresClock();
  return storeOnDemand({ name, traits: POSTGRES_TRAITS, clock, ...POSTGRES_ROWS, has: ["watch", "within"] }, async () =>
    (await loadPostgres()).postgresStore(options, clock),
  );
}

function redisByUrl(url: string): Store {
  const { where: name } = readLocation({ url });
  const clock = redisClock();
  // What the server survives is not known before it was asked.
  const traits = { hosts: "many", survives: "best-effort", clock: "store", dueIndex: true } as const;
  return storeOnDemand({ name, traits, clock, batchRows: REDIS_BATCH_ROWS, has: ["watch", "refuses"] }, async () =>
    (await loadRedis()).redisStore({ url }, clock),
  );
}

function s3ByUrl(url: string): Store {
  const name = s3Name(s3Place({ url }, process.env));
  const credentials = credentialsFrom(process.env);
  const clock = new S3Clock();
  return storeOnDemand({ name, traits: S3_TRAITS, clock, has: ["refuses"] }, async () =>
    (await loadS3()).s3Store({ url, credentials }, clock),
  );
}

function fileByPath(path: string): Store {
  const traits = { hosts: "one", survives: "power-loss", clock: "client", dueIndex: true } as const;
  const known = { name: `file:${path}`, traits, clock: { instant: hostInstant }, batchRows: FILE_BATCH_ROWS, has: [] };
  return storeOnDemand(known, async () => (await loadFile()).fileStore({ path }));
}

function bareName(name: string, from: string, cwd: string): Store {
  if (looksLikeFile(name)) return sqliteStore({ path: resolve(cwd, name) });
  throw configError(`${from}: ${JSON.stringify(name)} is not a store. Write sqlite:path/to/ledger.db or memory:`);
}

function looksLikeFile(name: string): boolean {
  return /\.(db|sqlite3?)$/i.test(name);
}

/** They would become a part of the file's name, and an empty ledger would be made under it. */
function refuseParametersOfFile(name: string, from: string): void {
  const { scheme, rest } = splitName(name);
  if ((scheme !== "sqlite" && scheme !== "file") || !rest.includes("?")) return;
  refuseUnknownParameters(from, [/[?]([^=&]*)/.exec(rest)?.[1] ?? ""], {
    own: [],
    driver: [],
    hint: ` Write ${scheme}:path/to/ledger.${scheme === "file" ? "jsonl" : "db"}. A file that really has a "?" in its name is opened by ${scheme}Store({ path }).`,
  });
}

function fileOf(name: string, rest: string, from: string, cwd: string): string {
  refuseParametersOfFile(name, from);
  if (/[/\\]$/.test(rest))
    throw configError(
      `${from}: ${JSON.stringify(name)} names a folder, and a ledger is a file. Write sqlite:path/to/ledger.db or file:path/to/ledger.jsonl`,
    );
  return resolve(cwd, decodePath(rest));
}

/** sqlite:app.db, sqlite:./app.db, sqlite:/abs/app.db and sqlite:///abs/app.db all mean what they look like. */
function decodePath(rest: string): string {
  return rest.startsWith("///") ? rest.slice(2) : rest.startsWith("//") ? rest.slice(2) : rest;
}

function isStore(value: unknown): value is Store {
  const store = value as Partial<Store>;
  return (
    typeof store === "object" &&
    store !== null &&
    typeof store.read === "function" &&
    typeof store.write === "function" &&
    typeof store.traits === "object"
  );
}
