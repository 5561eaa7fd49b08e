// The declarations that users see: of tsc's .d.ts files, what the entries of the package export and what those refer to.
// Everything else is internal, and would be half of the declarations.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseSync } from "rolldown/utils";

/** `from`: tsc's output; `entries`: files in it, without ".d.ts". Writes the same tree to `to`, reduced. */
export function writeDeclarations(from, to, entries) {
  const modules = new Map();
  const load = (file) => {
    if (!modules.has(file)) modules.set(file, new Declarations(file, (path, name) => load(path).need(name)));
    return modules.get(file);
  };
  for (const entry of entries) load(join(from, `${entry}.d.ts`)).needAll();
  for (const [file, declarations] of modules) {
    const target = join(to, file.slice(from.length));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, declarations.text());
  }
}

class Declarations {
  #text;
  #kept = new Set();
  #statements;
  /** From a name in this file to the import or the declarations of it. */
  #imports = new Map();
  #local = new Map();
  #exports = new Map();
  #needIn;

  constructor(file, needIn) {
    this.#text = readFileSync(file, "utf8");
    this.#needIn = (source, name) => needIn(resolve(dirname(file), source.replace(/\.[jt]s$/, ".d.ts")), name);
    const { program, errors } = parseSync(file, this.#text, { lang: "dts", sourceType: "module" });
    if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
    this.#statements = program.body.map((node, i) => ({ node, before: program.body[i - 1]?.end ?? 0, names: [] }));
    for (const statement of this.#statements) this.#read(statement, file);
  }

  #read(statement, file) {
    const { node } = statement;
    if (node.type === "ImportDeclaration") {
      for (const one of node.specifiers) {
        if (one.type !== "ImportSpecifier") throw new Error(`${file}: only named imports are understood here`);
        this.#imports.set(one.local.name, { statement, name: one.imported.name });
      }
    } else if (node.type === "ExportNamedDeclaration" && node.declaration === null) {
      for (const one of node.specifiers) this.#exports.set(one.exported.name, { statement, name: one.local.name });
    } else {
      const exported = node.type === "ExportNamedDeclaration";
      const declaration = exported ? node.declaration : node;
      const ids = declaration.declarations?.map(({ id }) => id) ?? [declaration.id];
      if (ids.some((id) => id?.type !== "Identifier")) throw new Error(`${file}: ${node.type} is not understood here`);
      for (const { name } of ids) {
        this.#local.set(name, [...(this.#local.get(name) ?? []), statement]);
        if (exported) this.#exports.set(name, { statement: null, name });
      }
    }
  }

  needAll() {
    for (const name of this.#exports.keys()) this.need(name);
  }

  /** What another file imports from this one. */
  need(name) {
    const found = this.#exports.get(name);
    if (found === undefined) throw new Error(`there is no declaration of ${name}`);
    if (found.statement === null) this.#use(name);
    else if (found.statement.node.source === null) {
      this.#list(found.statement, name);
      this.#use(found.name);
    } else if (this.#list(found.statement, name)) this.#follow(found.statement, found.name);
  }

  #follow({ node }, name) {
    if (node.source.value.startsWith(".")) this.#needIn(node.source.value, name);
  }

  /** Whether it was not listed before. */
  #list(statement, name) {
    if (statement.names.includes(name)) return false;
    statement.names.push(name);
    return true;
  }

  /** A name that something in this file refers to. */
  #use(name) {
    for (const statement of this.#local.get(name) ?? []) this.#keep(statement);
    const imported = this.#imports.get(name);
    if (imported && this.#list(imported.statement, name)) this.#follow(imported.statement, imported.name);
  }

  #keep(statement) {
    if (this.#kept.has(statement)) return;
    this.#kept.add(statement);
    const code = this.#text.slice(statement.node.start, statement.node.end).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    for (const [, source, name] of code.matchAll(/\bimport\("(\.[^"]+)"\)\.(\w+)/g)) this.#needIn(source, name);
    // Every word of it: a member that has the name of a declaration keeps one too many, which does no harm.
    for (const [name] of code.matchAll(/[\w$]+/g)) this.#use(name);
  }

  text() {
    const references = this.#text.match(/^\/\/\/ <reference .*$/gm) ?? [];
    const parts = this.#statements.flatMap((statement) => this.#print(statement));
    if (!parts.some((part) => /^(import|export)\b/m.test(part))) parts.push("export {};");
    const text = [...references, ...parts].join("\n");
    // A tab for a step, where tsc writes four spaces.
    return `${text.replace(/^(?: {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4))}\n`;
  }

  #print(statement) {
    const { node, before, names } = statement;
    if (node.type === "ImportDeclaration" || (node.type === "ExportNamedDeclaration" && node.declaration === null)) {
      if (names.length === 0) return [];
      const lists = node.specifiers
        .filter((one) => names.includes((one.exported ?? one.local).name))
        .map((one) => this.#text.slice(one.start, one.end));
      const word = node.type === "ImportDeclaration" ? "import" : node.exportKind === "type" ? "export type" : "export";
      const source = node.source === null ? "" : ` from ${JSON.stringify(asJs(node.source.value))}`;
      return [`${word} { ${lists.join(", ")} }${source};`];
    }
    if (!this.#kept.has(statement)) return [];
    const comment = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*$/.exec(this.#text.slice(before, node.start))?.[0].trimEnd();
    const code = this.#text.slice(node.start, node.end).replace(/\bimport\("(\.[^"]+)"\)/g, (_, source) => {
      return `import(${JSON.stringify(asJs(source))})`;
    });
    return comment === undefined ? [code] : [comment, code];
  }
}

const asJs = (source) => (source.startsWith(".") ? source.replace(/\.ts$/, ".js") : source);
