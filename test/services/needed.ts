/** Whether test files use the servers of the run: PostgreSQL, PgBouncer and Redis take some seconds to start, and most folders need none. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Whoever asks for a server's address imports it from there; programs that a test starts read the environment. */
const ADDRESSES = fileURLToPath(new URL("./addresses.ts", import.meta.url));
const READS_ENVIRONMENT = /NEVERTWICE_TEST_(POSTGRES|PGBOUNCER|REDIS)/;
const MODULE = /\.(ts|mjs|js)$/;

export function needServices(files: readonly string[]): boolean {
  const seen = new Set<string>();
  const waiting = [...files];
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (file === ADDRESSES) return true;
    if (seen.has(file) || !existsSync(file)) continue;
    seen.add(file);
    const text = readFileSync(file, "utf8");
    if (READS_ENVIRONMENT.test(text)) return true;
    waiting.push(...importedBy(file, text));
  }
  return false;
}

function importedBy(file: string, text: string): string[] {
  const found = text.matchAll(/\b(?:from\s*|import\s*\(?\s*|new URL\(\s*)"(\.[^"\s]+)"/g);
  return [...found].map(([, path]) => resolve(dirname(file), path as string)).filter((path) => MODULE.test(path));
}

/** The paths that a vitest command line names. A value of an option among them matches no file, and does no harm. */
export function namedFiles(argv: readonly string[]): string[] {
  return argv.slice(2).filter((arg) => !arg.startsWith("-") && arg !== "run" && arg !== "watch");
}
