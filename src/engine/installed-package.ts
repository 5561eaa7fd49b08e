/**
 * Packages that are optional peers, loaded at the moment they are needed. Their names must not be visible to a bundler as
 * imports: it would fail where the package is not installed. A bundle has no reliable folder of its own either: in a
 * CommonJS bundle `import.meta.url` is undefined, in a webpack bundle it names the machine that built it. So a package
 * is looked for from several places, the module's own folder first.
 */
import { createRequire } from "node:module";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";

type Require = ReturnType<typeof createRequire>;

// Declared by Node in a CommonJS bundle only.
declare const __filename: string | undefined;

/** Where this code is: a file URL, or undefined in a bundle that does not know. */
export function ownLocation(): string | undefined {
  const { url } = import.meta as { url?: string };
  if (url?.startsWith("file:")) return url;
  if (typeof __filename === "string" && isAbsolute(__filename)) return pathToFileURL(__filename).href;
  return undefined;
}

/** Throws Node's own error (MODULE_NOT_FOUND) where the package is in none of the places. */
export function requireInstalled(name: string): unknown {
  let missing: unknown = Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
  for (const base of bases()) {
    let load: Require;
    try {
      load = createRequire(base);
      load.resolve(name);
    } catch (error) {
      missing = error;
      continue;
    }
    return load(name);
  }
  throw missing;
}

/** This module and the program. Not the working folder: what is installed there may be somebody else's. */
function bases(): string[] {
  const [, program] = process.argv;
  const known = [ownLocation(), program !== undefined && isAbsolute(program) ? program : undefined];
  return known.filter((base) => base !== undefined);
}
