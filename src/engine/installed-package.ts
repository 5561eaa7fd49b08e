/**
 * Packages that are optional peers, loaded at the moment they are needed. Their names must not be visible to a bundler as
 * imports: it would fail where the package is not installed. A bundle has no reliable folder of its own either: in a
 * CommonJS bundle `import.meta.url` is undefined, in a webpack bundle it names the machine that built it. So a package
 * is looked for from several places, the module's own folder first.
 */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";

// Declared by Node in a CommonJS bundle only.
declare const __filename: string | undefined;

/** Throws Node's own error (MODULE_NOT_FOUND) where the package is in none of the places. */
export function requireInstalled(name: string): unknown {
  return requireFile(resolveInstalled(name));
}

/** The package's file, by which every thread of this process loads the same one; a module of Node by its name. */
export function resolveInstalled(name: string): string {
  let missing: unknown = Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
  for (const base of bases()) {
    try {
      return requireFrom(base).resolve(name);
    } catch (error) {
      missing = error;
    }
  }
  throw missing;
}

/** `file`: from resolveInstalled. */
export function requireFile(file: string): unknown {
  return requireFrom(process.execPath)(file);
}

/** Not by an import: webpack replaces createRequire where it sees it. */
function requireFrom(base: string): NodeJS.Require {
  return process.getBuiltinModule("node:module").createRequire(base);
}

/** This module and the program. Not the working folder: what is installed there may be somebody else's. */
function bases(): string[] {
  const [, program] = process.argv;
  const known = [ownLocation(), program !== undefined && isAbsolute(program) ? program : undefined];
  return known.filter((base) => base !== undefined);
}

/** Undefined in a bundle that does not know it. */
export function ownLocation(): string | undefined {
  // In these words: bundlers replace `import.meta.url`, and not every one of them a part of it.
  const url: string | undefined = import.meta.url;
  if (url?.startsWith("file:")) return url;
  if (typeof __filename === "string" && isAbsolute(__filename)) return pathToFileURL(__filename).href;
  return undefined;
}
