// The package's JavaScript: every entry with what it loads, in few files. A module costs Node about half a millisecond
// however small it is, so that 270 of them took five times as long to import as the same code in one file.
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { rolldown } from "rolldown";
import { parseAst } from "rolldown/parseAst";
import { minifySync } from "rolldown/utils";

// Node's own modules, and the one dependency.
const EXTERNAL = [/^node:/, "csv-parse"];
// No white space, short names for local variables: without, the package would be half as large again. Classes keep their names, and
// functions in what every program loads, so that a stack says where it was.
const minifyOptions = (functions) => ({
  module: true,
  compress: { keepNames: { function: functions, class: true } },
  mangle: { keepNames: { function: functions, class: true } },
});
// Two forms of one module; "imports" in package.json says who gets which.
const SWITCHED = ["named-stores", "named-stores-bundled"];
const TRANSFORM = { target: "es2023" };

/**
 * Entries are files of `src`, without ".ts". What the main one loads is in two files, since all others share most of it; what the
 * command loads in addition is a third. What is imported on demand, and what one other entry adds, has a file of its own.
 */
export async function writeBundle({ src, to, main, command, others }) {
  const thread = await threadSource(src);
  const [ofMain, ofCommand, ofOthers] = [new Set(), new Set(), new Set()];
  const build = await rolldown({
    input: Object.fromEntries([main, command, ...others, ...SWITCHED].map((entry) => [entry, `${src}/${entry}.ts`])),
    platform: "node",
    external: EXTERNAL,
    transform: TRANSFORM,
    plugins: [
      {
        // Left to whoever loads the package: Node gets the one that imports on demand, bundlers the other.
        name: "named-stores",
        resolveId: (id, importer) =>
          importer !== undefined && id.endsWith("/named-stores.ts") ? { id: "#named-stores", external: true } : null,
      },
      {
        name: "thread-source",
        load: (id) =>
          id.endsWith("/stores/sqlite/thread-source.ts")
            ? `export const THREAD_SOURCE = ${JSON.stringify(thread)};`
            : null,
      },
      {
        // White space and comments of the SQL functions would be 5 KB.
        name: "sql-functions",
        transform: (code, id) =>
          id.includes("/stores/postgres/functions/") ? code.replace(/^ *-- .*\n/gm, "").replace(/^ +/gm, "") : null,
      },
      {
        name: "loaded-at-once",
        buildEnd() {
          const importsOf = (id) => this.getModuleInfo(id)?.importedIds ?? [];
          addReached(ofMain, `${src}/${main}.ts`, importsOf);
          addReached(ofCommand, `${src}/${command}.ts`, importsOf);
          for (const entry of others) addReached(ofOthers, `${src}/${entry}.ts`, importsOf);
          // What a program can import as well: it must not load the command for it.
          for (const id of ofCommand) if (ofOthers.has(id)) ofMain.add(id);
          // The entry itself holds nothing that others import: under a second path it would be a second command.
          ofCommand.delete(`${src}/${command}.ts`);
        },
      },
    ],
  });
  const { output } = await build.write({
    dir: to,
    format: "esm",
    // A program's bundler knows without them what has no effect; they are 4 KB.
    comments: { annotation: false },
    entryFileNames: "[name].js",
    chunkFileNames: (chunk) => `chunks/${placeOf(chunk, src)}.js`,
    codeSplitting: {
      groups: [
        { name: "main", test: (id) => ofMain.has(id) && dirname(id) !== src, priority: 2 },
        // Apart from what the stores share with it: it imports the stores, and a bundler would find a circle.
        { name: "nevertwice", test: (id) => ofMain.has(id), priority: 1 },
        { name: "command", test: (id) => ofCommand.has(id) },
      ],
    },
  });
  await build.close();
  const chunks = new Map(output.filter(({ type }) => type === "chunk").map((chunk) => [chunk.fileName, chunk]));
  const loadedAtOnce = new Set();
  addReached(loadedAtOnce, `${main}.js`, (file) => chunks.get(file)?.imports ?? []);
  for (const [file, { code }] of chunks) {
    const minified = minifySync(file, code, minifyOptions(loadedAtOnce.has(file)));
    if (minified.errors.length > 0) throw new Error(`${file}: ${minified.errors[0].message}`);
    writeFileSync(join(to, file), withLines(minified.code));
  }
}

/** "cli-mcp-proxy" for src/cli/mcp/proxy.ts: several folders have a file of the same name. */
function placeOf({ name, facadeModuleId }, src) {
  if (!facadeModuleId?.startsWith(`${src}/`)) return name;
  const place = facadeModuleId.slice(src.length + 1).replace(/\.ts$/, "");
  return place.replace(/\/index$/, "").replaceAll("/", "-");
}

const LINE = 400;

/**
 * Lines of a few statements. Node shows the line that threw an error above it, and a whole file in one line would bury the error. Line
 * breaks between statements change nothing.
 */
function withLines(code) {
  const starts = new Set();
  const visit = (node) => {
    if (Array.isArray(node)) for (const one of node) visit(one);
    if (node === null || typeof node !== "object" || Array.isArray(node)) return;
    for (const list of [node.body, node.consequent]) {
      if (Array.isArray(list)) for (const { start } of list) starts.add(start);
    }
    for (const value of Object.values(node)) if (typeof value === "object") visit(value);
  };
  visit(parseAst(code));
  let [text, from, lineStart] = ["", 0, 0];
  for (const start of [...starts].sort((a, b) => a - b)) {
    const before = code.slice(from, start);
    text += before;
    from = start;
    if (text.length - lineStart < LINE) continue;
    text += "\n";
    lineStart = text.length;
  }
  return text + code.slice(from);
}

/** A module and everything that it imports, but for what it imports on demand. */
function addReached(reached, id, importsOf) {
  if (reached.has(id)) return;
  reached.add(id);
  for (const imported of importsOf(id)) addReached(reached, imported, importsOf);
}

/**
 * The program of the SQLite thread as one text. A thread started from a file would be missing in every bundle of a program;
 * started from a text, it is part of it.
 */
export async function threadSource(src) {
  const build = await rolldown({
    input: `${src}/stores/sqlite/worker.ts`,
    platform: "node",
    external: EXTERNAL,
    // A thread has no place of its own: the main thread says which files it loads.
    transform: { ...TRANSFORM, define: { "import.meta.url": "undefined" } },
    treeshake: { moduleSideEffects: true },
  });
  const { output } = await build.generate({ format: "cjs", minify: true, codeSplitting: false });
  await build.close();
  return output[0].code;
}
