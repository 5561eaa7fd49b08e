/** From a store's name to the store: one list for programs, the command and the environment. */
import { configError } from "./core/errors.ts";
import type { Store } from "./core/store.ts";
import { memoryStore } from "./stores/memory.ts";
import { sqliteStore } from "./stores/sqlite.ts";
import { defaultLocation, prepareFolder } from "./stores/sqlite-location.ts";

export interface NamedStore {
  readonly store: Store;
  /** How the store was chosen: shown by doctor and --verbose. */
  readonly why: string;
}

export function openStore(given: string | Store | undefined): Store {
  return chooseStore(given, "store").store;
}

/** An explicit name wins over $NEVERTWICE_STORE, which wins over the embedded default. */
export function chooseStore(given: string | Store | undefined, option: "store" | "--store"): NamedStore {
  if (given !== undefined && typeof given !== "string") {
    if (!isStore(given))
      throw configError(
        'store is neither a string nor a store. Pass "sqlite:app.db", "memory:", or what a factory such as sqliteStore() returned.',
      );
    return { store: given, why: "passed by the program" };
  }
  if (given !== undefined) return { store: byName(given, option), why: `named by ${option}` };
  const fromEnv = process.env["NEVERTWICE_STORE"];
  if (fromEnv !== undefined && fromEnv.trim() !== "")
    return { store: byName(fromEnv, "$NEVERTWICE_STORE"), why: "named by $NEVERTWICE_STORE" };
  const { path, why } = defaultLocation();
  prepareFolder(path);
  return { store: sqliteStore({ path }), why };
}

function byName(name: string, from: string): Store {
  const scheme = /^([a-z0-9+]+):/i.exec(name)?.[1]?.toLowerCase();
  const rest = name.slice((scheme?.length ?? -1) + 1);
  // A single letter is a drive of Windows, not a scheme.
  if (scheme === undefined || scheme.length === 1) return bareName(name, from);
  switch (scheme) {
    case "memory":
      return memoryStore();
    case "sqlite":
      if (rest.trim() === "") throw configError(`${from}: "${name}" names no file. Write sqlite:path/to/ledger.db`);
      return sqliteStore({ path: decodePath(rest) });
    default:
      throw configError(
        `${from}: there is no store "${scheme}:" in this release. It takes sqlite:path/to/ledger.db or memory:, or a Store object.`,
      );
  }
}

function bareName(name: string, from: string): Store {
  if (/\.(db|sqlite3?)$/i.test(name)) return sqliteStore({ path: name });
  throw configError(`${from}: ${JSON.stringify(name)} is not a store. Write sqlite:path/to/ledger.db or memory:`);
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
