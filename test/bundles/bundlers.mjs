// Every way a program is bundled here: from the source to one file (or a folder of chunks) and the bundler's warnings.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import commonjs from "@rollup/plugin-commonjs";
import nodeResolve from "@rollup/plugin-node-resolve";
import terser from "@rollup/plugin-terser";
import * as esbuild from "esbuild";
import { rollup } from "rollup";
import webpack from "webpack";

const extensionOf = { esm: "mjs", cjs: "cjs" };

/** Each takes the entry and a folder, and resolves to `{ file, warnings }`. */
export const BUNDLERS = {
  "esbuild, esm": withEsbuild({ format: "esm" }),
  "esbuild, cjs": withEsbuild({ format: "cjs" }),
  "esbuild, esm, minified": withEsbuild({ format: "esm", minify: true }),
  "esbuild, cjs, minified": withEsbuild({ format: "cjs", minify: true }),
  "esbuild, esm, splitting": withEsbuild({ format: "esm", splitting: true }),
  "rollup, esm": withRollup({ format: "esm" }),
  "rollup, cjs, minified": withRollup({ format: "cjs", minify: true }),
  "webpack, cjs": withWebpack({ format: "cjs" }),
  "webpack, esm": withWebpack({ format: "esm" }),
  "bun, esm": withBun({ format: "esm" }),
  "bun, cjs": withBun({ format: "cjs" }),
  "bun, esm, minified": withBun({ format: "esm", minify: true }),
};

function withEsbuild({ format, minify = false, splitting = false }) {
  return async (entry, folder) => {
    const { warnings } = await esbuild.build({
      entryPoints: { program: entry },
      bundle: true,
      platform: "node",
      format,
      minify,
      splitting,
      outdir: folder,
      outExtension: { ".js": `.${extensionOf[format]}` },
      logLevel: "silent",
    });
    return { file: join(folder, `program.${extensionOf[format]}`), warnings: warnings.map(({ text }) => text) };
  };
}

function withRollup({ format, minify = false }) {
  return async (entry, folder) => {
    const warnings = [];
    const plugins = [nodeResolve({ preferBuiltins: true }), commonjs()];
    const bundle = await rollup({ input: entry, plugins, onwarn: ({ message }) => warnings.push(message) });
    const file = join(folder, `program.${extensionOf[format]}`);
    await bundle.write({ file, format, plugins: minify ? [terser()] : [] });
    await bundle.close();
    return { file, warnings };
  };
}

function withWebpack({ format }) {
  return async (entry, folder) => {
    const filename = `program.${extensionOf[format]}`;
    const asModule = format === "esm" && { experiments: { outputModule: true } };
    const output = { path: folder, filename, ...(asModule && { module: true, chunkFormat: "module" }) };
    const options = { entry, mode: "production", target: "node", ...asModule, output };
    const stats = await new Promise((resolve, reject) => {
      webpack(options, (error, done) => (error ? reject(error) : resolve(done)));
    });
    const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
    if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join("\n"));
    return { file: join(folder, filename), warnings: warnings.map(({ message }) => message) };
  };
}

function withBun({ format, minify = false }) {
  return async (entry, folder) => {
    const file = join(folder, `program.${extensionOf[format]}`);
    const args = ["build", entry, "--target=node", `--format=${format}`, `--outfile=${file}`];
    // Its report of what it wrote goes to the one stream, complaints to the other.
    const said = execFileSync(bun(), minify ? [...args, "--minify"] : args, { encoding: "utf8", cwd: dirname(entry) });
    return { file, warnings: said.split("\n").filter((line) => /warn/i.test(line)) };
  };
}

/** The binary itself: the package's own script, which would put it into place, is not run here. */
export function bun() {
  const require = createRequire(import.meta.url);
  const scope = join(dirname(require.resolve("bun/package.json")), "..", "@oven");
  const places = [
    ...readdirSync(scope).map((name) => join(scope, name, "bin", "bun")),
    join(scope, "..", "bun", "bin", "bun.exe"),
  ];
  const found = places.find((place) => existsSync(place));
  if (found === undefined) throw new Error("no binary of bun was installed for this platform");
  return found;
}
