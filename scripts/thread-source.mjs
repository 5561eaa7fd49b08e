// The SQLite thread's program as one text: its modules as CommonJS, each in a function, and a require for them.
// A thread started from a file would be missing in every bundle; started from a text, it is part of the bundle.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ENTRY = "stores/sqlite-worker.js";

/** `folder`: what tsc made of tsconfig.thread.json. */
export function threadSource(folder) {
  const modules = readdirSync(folder, { recursive: true })
    .filter((path) => path.endsWith(".js"))
    .map((path) => path.replaceAll("\\", "/"))
    .sort();
  if (!modules.includes(ENTRY)) throw new Error(`${ENTRY} was not compiled`);
  const bodies = modules.map((path) => {
    const body = readFileSync(join(folder, path), "utf8").replaceAll("import.meta", "importMeta");
    return `${JSON.stringify(path)}(exports, require) {\n${body}}`;
  });
  return `"use strict";
// A thread has no place of its own: the main thread says which files it loads.
const importMeta = {};
const modules = {
${bodies.join(",\n")}
};
const loaded = {};
function load(path) {
  if (loaded[path]) return loaded[path];
  const exports = (loaded[path] = {});
  modules[path](exports, (name) => name.startsWith(".") ? load(new URL(name, "file:///" + path).pathname.slice(1)) : require(name));
  return exports;
}
load(${JSON.stringify(ENTRY)});
`;
}
