/**
 * One SQLite library per file in a process. SQLite locks files with POSIX locks, and those belong to the process: a second
 * library (another copy of the driver, or another driver) is granted every lock that the first one holds, and the first
 * `close` of either drops the locks of both. The file is damaged, and effects happen twice. So a file is claimed before it
 * is opened, and a claim beside another library's is refused. Two copies of nevertwice on one library are safe: SQLite
 * keeps the connections of one library apart itself.
 */

import { fstatSync, readdirSync, readFileSync, realpathSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { performance } from "node:perf_hooks";
import { configError } from "../../core/errors.ts";
import { PACKAGE_VERSION } from "../../core/package-version.ts";
import { ownLocation } from "../../engine/installed-package.ts";
import { identityFrom, identityOf } from "../file/identity.ts";
import type { SqliteDriver, SqliteHandle } from "../sqlite/driver.ts";

/** What every copy of nevertwice in this thread reads and writes: a change of its shape needs another name. */
interface Holder {
  /** Version and place of the copy of nevertwice. */
  readonly copy: string;
  readonly driver: string;
  /** Gone when the connection was collected without a close. */
  readonly connection: WeakRef<object>;
}

/** By device and inode. */
type Holders = Map<string, Set<Holder>>;

const HOLDERS = Symbol.for("nevertwice.openFiles.v1");

// A program whose calls are all refused asks thousands of times, and must not hold up the copy that works.
const REFUSED_FOR_MS = 250;
let refused: { inode: string; by: string; error: unknown; until: number } | null = null;

export interface Claim {
  /** The connection that the claim is for, once it is open. */
  hold(connection: SqliteHandle): void;
  release(): void;
}

/** To be called right before the driver opens the file, which exists. Throws where that would be unsafe. */
export function claimFile(path: string, driver: SqliteDriver): Claim {
  const inode = identityOf(path)?.inode;
  // Windows locks by handle, not by process.
  if (inode === undefined || process.platform === "win32") return { hold: () => {}, release: () => {} };
  if (refused?.inode === inode && refused.by === driver.file && performance.now() < refused.until) throw refused.error;
  const marker = openMarker(inode, driver);
  try {
    refuseOtherLibrary({ path, inode, driver, shared: isMarked(marker) });
    marker?.exec("CREATE TABLE IF NOT EXISTS claimed (x)");
  } catch (error) {
    marker?.close?.();
    refused = { inode, by: driver.file, error, until: performance.now() + REFUSED_FOR_MS };
    throw error;
  }
  let holder: Holder | null = null;
  return {
    hold: (connection) => {
      holder = { copy: thisCopy(), driver: describe(driver), connection: new WeakRef(connection) };
      const beside = holders().get(inode) ?? new Set();
      holders().set(inode, beside.add(holder));
    },
    release: () => {
      marker?.close?.();
      const beside = holders().get(inode);
      if (holder !== null) beside?.delete(holder);
      if (beside?.size === 0) holders().delete(inode);
    },
  };
}

/**
 * A database in memory that all connections of one library share, in every thread, and that is gone with the last of
 * them: whoever finds the mark is on the same library as whoever made it. Null: a library without such databases.
 */
function openMarker(inode: string, driver: SqliteDriver): SqliteHandle | null {
  try {
    const marker = driver.open(`file:/nevertwice-${inode.replace(":", "-")}?vfs=memdb`);
    marker.exec("PRAGMA busy_timeout = 1000");
    return marker;
  } catch {
    return null;
  }
}

function isMarked(marker: SqliteHandle | null): boolean {
  return marker !== null && marker.prepare("SELECT 1 FROM sqlite_schema").all().length > 0;
}

interface Opening {
  readonly path: string;
  readonly inode: string;
  readonly driver: SqliteDriver;
  /** Another connection of this library has claimed the file. */
  readonly shared: boolean;
}

function refuseOtherLibrary({ path, inode, driver, shared }: Opening): void {
  const [holder] = [...(holders().get(inode) ?? [])].filter(({ connection }) => connection.deref() !== undefined);
  if (shared) {
    // A library has one descriptor for the shared memory of a file. With two, another library is there as well.
    if (openDescriptors(`${path}-shm`).filter(isWritable).length > 1)
      throw refusal(path, driver, "another SQLite library");
    return;
  }
  if (holder !== undefined && holder.driver !== describe(driver)) {
    throw refusal(path, driver, `${holder.copy} with ${holder.driver}`);
  }
  // Open, and by nobody who claims files: a connection of the program's own, or another thread. Safe on this library.
  if (openDescriptors(path).length === 0) return;
  const [other] = otherLibraries(driver);
  if (other !== undefined) throw refusal(path, driver, `a connection of ${other}`);
}

function refusal(path: string, driver: SqliteDriver, theirs: string) {
  return configError(
    `the ledger ${path} is open in this process through another SQLite library: ${theirs}. This is ${thisCopy()} with ${describe(driver)}. Two libraries break each other's locks on one file, so that it is damaged and effects happen twice. Nothing was run. Use one: find copies with npm ls nevertwice @photostructure/sqlite and remove one (npm dedupe), or give the ledger the connection that is open: sqliteStore({ database: db }).`,
  );
}

function holders(): Holders {
  const shared = globalThis as { [HOLDERS]?: Holders };
  shared[HOLDERS] ??= new Map();
  return shared[HOLDERS];
}

function thisCopy(): string {
  const place = ownLocation()?.replace(/^file:\/\//, "") ?? process.argv[1] ?? "(unknown place)";
  return `nevertwice ${PACKAGE_VERSION} in ${place.replace(/\/dist\/chunks\/[^/]*$/, "")}`;
}

function describe({ name, file }: SqliteDriver): string {
  return name === file ? name : `${name} in ${packageOf(file)}`;
}

function packageOf(file: string): string {
  return realpathSync(dirname(file)).replace(/\/dist$/, "");
}

// ---- what the operating system knows of this process ----

/** The descriptors of this process that are open on the file. Nothing is opened for it: a close would drop locks. */
function openDescriptors(path: string): number[] {
  const inode = identityOf(path)?.inode;
  return inode === undefined ? [] : descriptors().filter((one) => inodeOf(one) === inode);
}

/** Libraries open the shared memory for writing. One for reading alone is ours: stores/sqlite/lost-wal.ts keeps it open. */
function isWritable(descriptor: number): boolean {
  try {
    // Of no bytes: it changes nothing, and fails where the descriptor is for reading alone.
    writeSync(descriptor, Buffer.alloc(0));
    return true;
  } catch {
    return false;
  }
}

function descriptors(): number[] {
  for (const folder of ["/proc/self/fd", "/dev/fd"]) {
    try {
      return readdirSync(folder).map(Number);
    } catch {
      // Another operating system, or no /proc in this container.
    }
  }
  return [];
}

function inodeOf(descriptor: number): string | null {
  try {
    return identityFrom(fstatSync(descriptor, { bigint: true })).inode;
  } catch {
    return null;
  }
}

/** Files of other SQLite libraries that are loaded, by name, on Linux. */
function otherLibraries(driver: SqliteDriver): string[] {
  const own = driver.name === driver.file ? null : packageOf(driver.file);
  const loaded = new Set(mappings().match(/\/\S*(?:sqlite|libsql)\S*\.(?:node|so)\S*/gi) ?? []);
  return [...loaded].filter((file) => own === null || !file.startsWith(`${own}/`));
}

function mappings(): string {
  try {
    return readFileSync("/proc/self/maps", "utf8");
  } catch {
    return "";
  }
}
