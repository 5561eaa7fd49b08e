/** The examples of docs/outbox.md, one per library, run as they stand against a real server. */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freshDatabase } from "../services/addresses.ts";

const exec = promisify(execFile);
const examples = fileURLToPath(new URL("../../examples/outbox", import.meta.url));
const modules = fileURLToPath(new URL("node_modules", import.meta.url));
const linked = join(examples, "node_modules");
const generated = join(examples, "prisma/client");

/** The libraries are installed beside this test, not at the root; Prisma's client is generated. */
beforeAll(() => {
  rmSync(linked, { recursive: true, force: true });
  symlinkSync(modules, linked);
  const generate = [join(modules, "prisma/build/index.js"), "generate", "--schema", "prisma/schema.prisma"];
  const env = {
    PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
    PRISMA_HIDE_UPDATE_MESSAGE: "1",
    CHECKPOINT_DISABLE: "1",
  };
  const made = spawnSync(process.execPath, generate, {
    cwd: examples,
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  if (made.status !== 0) throw new Error(`prisma generate: ${made.stdout}${made.stderr}`);
});

afterAll(() => {
  rmSync(linked, { force: true });
  rmSync(generated, { recursive: true, force: true });
});

const LIBRARIES = ["pg", "postgres-js", "kysely", "drizzle", "knex", "typeorm", "prisma"];

it.each(LIBRARIES)("B1 F35 the example of %s prints what it says", async (library) => {
  const file = join(examples, `${library}.mjs`);
  expect(existsSync(file)).toBe(true);
  const { url } = await freshDatabase();
  const { stdout } = await exec(process.execPath, [file], {
    cwd: examples,
    env: { ...process.env, DATABASE_URL: url },
    timeout: 50_000,
  });
  const promised = [...readFileSync(file, "utf8").matchAll(/^\/\/ → (.*)$/gm)].map(([, line]) => line);
  expect(promised.length).toBeGreaterThan(0);
  expect(stdout.trimEnd().split("\n")).toEqual(promised);
});
