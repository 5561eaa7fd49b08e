/** Prisma's client is generated. Its engine is WebAssembly; only the migration engine, not used here, is downloaded. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PrismaPg } from "@prisma/adapter-pg";

interface PrismaLike {
  $transaction<T>(
    work: (tx: { $executeRawUnsafe(text: string, ...values: unknown[]): Promise<number> }) => Promise<T>,
  ): Promise<T>;
  $executeRawUnsafe(text: string, ...values: unknown[]): Promise<number>;
  readonly orders: { create(args: { data: { id: number } }): Promise<{ id: number }> };
  $disconnect(): Promise<void>;
}

const SCHEMA = `generator client {
  provider = "prisma-client-js"
  output = "./client"
}
datasource db {
  provider = "postgresql"
}
model orders {
  id Int @id
}
`;

export function prismaClient(url: string): { client: PrismaLike; end(): Promise<void> } {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-prisma-"));
  const modules = fileURLToPath(new URL("node_modules", import.meta.url));
  symlinkSync(modules, join(folder, "node_modules"));
  writeFileSync(join(folder, "schema.prisma"), SCHEMA);
  const generate = [join(modules, "prisma/build/index.js"), "generate", "--schema", "schema.prisma"];
  const made = spawnSync(process.execPath, generate, {
    cwd: folder,
    encoding: "utf8",
    env: {
      ...process.env,
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
      PRISMA_HIDE_UPDATE_MESSAGE: "1",
      CHECKPOINT_DISABLE: "1",
    },
  });
  if (made.status !== 0) throw new Error(`prisma generate: ${made.stdout}${made.stderr}`);
  const generated = createRequire(import.meta.url)(join(folder, "client")) as {
    PrismaClient: new (options: object) => PrismaLike;
  };
  const client = new generated.PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
  return {
    client,
    end: async () => {
      await client.$disconnect();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
