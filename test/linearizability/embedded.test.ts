/** Every key of a ledger in this process or on this host behaves like one register, read and swapped in turn. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "nevertwice/memory";
import { sqliteStore } from "nevertwice/sqlite";
import { onTestFinished } from "vitest";
import { describeHistories } from "./describe-histories.ts";

describeHistories({
  memory: async () => {
    const store = memoryStore();
    return () => store;
  },
  sqlite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "nevertwice-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return () => sqliteStore({ path: join(folder, "ledger.db") });
  },
});
