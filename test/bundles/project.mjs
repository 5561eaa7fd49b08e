// A project as a user has it: nevertwice copied into its node_modules, none of the optional peers beside it.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export function makeProject() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "nevertwice-bundle-")));
  installNevertwice(folder);
  const entry = join(folder, "program.mjs");
  cpSync(fileURLToPath(new URL("program.mjs", import.meta.url)), entry);
  return { folder, entry, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A copy of its own, as npm would install it. */
export function installNevertwice(folder) {
  const place = join(folder, "node_modules", "nevertwice");
  cpSync(join(root, "dist"), join(place, "dist"), { recursive: true });
  cpSync(join(root, "package.json"), join(place, "package.json"));
  return place;
}

/** Packages of the repository, for a bundle that is run in the folder: native ones cannot be inside of it. */
export function linkPackages(folder, names) {
  for (const name of names) {
    const target = join(folder, "node_modules", name);
    mkdirSync(join(target, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), target);
  }
}

/** The bundle, and nothing else of what it was made from, in a folder of its own. */
export function moveElsewhere(bundleFolder) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "nevertwice-moved-")));
  for (const name of readdirSync(bundleFolder)) cpSync(join(bundleFolder, name), join(folder, name));
  rmSync(bundleFolder, { recursive: true });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
