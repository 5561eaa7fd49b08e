// Who may import whom, no circles of imports (types count), and no file named by a prefix that wants a folder. `npm run lint` runs it;
// test/architecture.test.ts plants one of each.
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, posix, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The one file that imports a package. */
export const CSV_READER = "cli/import/csv.ts";

/** Only these put things together. */
const ASSEMBLERS = new Set(["", "cli"]);
// More files than this with the same first word want a folder of that name.
const MOST_WITH_PREFIX = 5;

/** The sources below a folder, tests aside: what each imports, and what of it at once, with "/" in paths. */
export function sourcesIn(src) {
  const files = readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .map((file) => file.split(sep).join("/"));
  return files.map((file) => sourceOf(file, readFileSync(join(src, file), "utf8")));
}

export function sourceOf(file, text) {
  const atOnce = [...text.matchAll(/^(?:import|export)\b(?:[^;]*?\bfrom)?\s*"([^"\s]+)"/gms)].map((match) => match[1]);
  return { file, imports: importsOf(text), atOnce };
}

export function importsOf(text) {
  return [...text.matchAll(/\b(?:from\s*|import\s*\(?\s*)"([^"\s]+)"/g)].map((match) => match[1]);
}

/** "core" for core/x.ts, "" for x.ts. */
const folderOf = (file) => (file.includes("/") ? file.split("/")[0] : "");

const targetOf = (file, specifier) => posix.join(posix.dirname(file), specifier);

/** Whether a file must not import this. */
export function isForbidden(file, specifier) {
  const from = folderOf(file);
  if (specifier.startsWith("node:")) return from === "core" && specifier !== "node:crypto";
  // Drivers and schema libraries are accepted by shape and loaded lazily: nothing outside is imported by name.
  if (!specifier.startsWith(".")) return file !== CSV_READER || specifier !== "csv-parse";
  const to = folderOf(targetOf(file, specifier));
  if (from === to || ASSEMBLERS.has(from)) return false;
  if (from === "core") return true;
  if (from === "engine") return to !== "core";
  return to !== "core" && to !== "engine";
}

function forbiddenImports(sources) {
  return sources.flatMap(({ file, imports }) =>
    imports.filter((one) => isForbidden(file, one)).map((one) => `${file} must not import ${one}`),
  );
}

/** Groups of files that import each other, by Tarjan's algorithm. What is imported on demand may lead back. */
function circles(sources) {
  const graph = new Map(sources.map(({ file, atOnce }) => [file, relatives(file, atOnce)]));
  const [order, lowest, path, onPath, found] = [new Map(), new Map(), [], new Set(), []];
  const visit = (file) => {
    order.set(file, order.size);
    lowest.set(file, order.get(file));
    path.push(file);
    onPath.add(file);
    for (const next of graph.get(file)) {
      if (!graph.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (onPath.has(next)) lowest.set(file, Math.min(lowest.get(file), lowest.get(next)));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const group = path.splice(path.indexOf(file));
    for (const one of group) onPath.delete(one);
    if (group.length > 1) found.push(`import each other: ${group.toSorted().join(", ")}`);
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return found;
}

const relatives = (file, imports) => imports.filter((one) => one.startsWith(".")).map((one) => targetOf(file, one));

function prefixes(sources) {
  const named = sources.map(({ file }) => ({ file, room: basename(dirname(file)), folder: posix.dirname(file) }));
  const own = named
    .filter(({ file, room }) => basename(file).startsWith(`${room}-`))
    .map(({ file, room }) => `${file}: a file in ${room}/ need not be named ${room}-…`);
  const counts = new Map();
  for (const { file, folder } of named) {
    const [word, ...rest] = basename(file, ".ts").split("-");
    if (rest.length > 0) counts.set(`${folder}/${word}`, (counts.get(`${folder}/${word}`) ?? 0) + 1);
  }
  const many = [...counts].filter(([, count]) => count > MOST_WITH_PREFIX);
  return [...own, ...many.map(([name, count]) => `${name}-*: ${count} files want a folder of their own`)];
}

/** What is wrong with the sources; empty: nothing. */
export function findings(sources) {
  return [...forbiddenImports(sources), ...circles(sources), ...prefixes(sources)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const wrong = findings(sourcesIn(fileURLToPath(new URL("../src", import.meta.url))));
  for (const one of wrong) console.error(one);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}
