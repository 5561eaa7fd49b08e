/** Which ledger the command looks at. It never makes one: a typo in --store must not leave an empty file behind. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Store } from "../../core/store.ts";
import { chooseStore, ledgerFile } from "../../open-store.ts";
import type { ExitFolder } from "../../schedule/command/exit-file.ts";
import { realPathOf } from "../../stores/file/identity.ts";
import { modeBeside } from "../../stores/shared/private-files.ts";
import { stateFolder } from "../../stores/sqlite/location.ts";
import type { Context, Io, Ledger } from "../command.ts";
import { asUsage, ProblemError } from "../term/exit.ts";

export function findLedger(given: string | undefined, io: Io): Ledger {
  const around = surroundingsOf(io);
  // A name that names no store is a slip on the command line; a store that does not answer is found out later.
  return asUsage(() => {
    const file = ledgerFile(given, "--store", around);
    // With its id file still there, a missing ledger is a lost one: opening it says so.
    if (file !== null && !existsSync(file.path) && !existsSync(`${fileBehind(file.path)}.id`)) {
      return { exists: false, path: file.path, name: `${file.scheme}:${file.path}`, why: file.why };
    }
    const { store, why } = chooseStore(given, "--store", around);
    return { exists: true, store, name: store.name === "memory" ? "memory:" : store.name, why };
  });
}

/** The ledger's file without symbolic links: what belongs to it lies there. Links that lead nowhere fail when it is opened. */
export function fileBehind(path: string): string {
  try {
    return realPathOf(path);
  } catch {
    return path;
  }
}

/** For commands that act, and make a ledger where there is none. */
export function openLedger(given: string | undefined, io: Io): Store {
  return asUsage(() => chooseStore(given, "store", surroundingsOf(io)).store);
}

const OWNER_ONLY = 0o600;

/**
 * Where the exit codes of commands are kept: beside a ledger that is a file, otherwise in the user's state folder, in a folder
 * for this ledger. Undefined: the ledger itself is not kept.
 */
export function exitFolder(given: string | undefined, store: Store, io: Io): ExitFolder | undefined {
  if (store.traits.survives === "nothing") return undefined;
  const around = surroundingsOf(io);
  const file = ledgerFile(given, "store", around);
  if (file === null) {
    const ledger = createHash("sha256").update(store.name).digest("hex").slice(0, 16);
    return { path: join(stateFolder(around), "exits", ledger), mode: OWNER_ONLY };
  }
  const path = fileBehind(file.path);
  return {
    path: `${path}.exits`,
    // The ledger may not have been made yet.
    get mode() {
      return modeBeside(path);
    },
  };
}

/** What --store has to name for the ledger of a program's module; undefined: the command finds it without. */
export function storeToName({ name }: Store, io: Io): string | undefined {
  // A connection of the program's own has no URL that could be named.
  const named = /^[a-z0-9]+:\S+$/.test(name) ? name : "…";
  try {
    const file = ledgerFile(undefined, "--store", surroundingsOf(io));
    return file !== null && name === `${file.scheme}:${file.path}` ? undefined : named;
  } catch {
    return named;
  }
}

function surroundingsOf({ cwd, env, home, platform }: Io) {
  return { cwd, env, home, platform, uid: process.getuid?.() };
}

export function noLedgerYet(ledger: Ledger & { exists: false }): string {
  return `there is no ledger at ${ledger.path} yet (${ledger.why}): it is made at the first call`;
}

/** For commands that make no sense without records. */
export function requireStore(context: Context) {
  const ledger = context.ledger();
  if (ledger.exists) return ledger.store;
  throw new ProblemError(
    `${noLedgerYet(ledger)}. If it lies elsewhere, name it: --store sqlite:path/to/ledger.db, or NEVERTWICE_STORE.`,
  );
}

/** The part that every JSON document has. */
export function ledgerJson({ name, why, exists }: Ledger) {
  return { store: name, why, exists };
}
