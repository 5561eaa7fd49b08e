import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../../test/support/database-sync.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import type { State } from "../../core/record.ts";
import type { ListQuery } from "../../core/store.ts";
import type { SqliteHandle } from "./driver.ts";
import { LARGE_SLICE, type Slice, SMALL_SLICE, type Source, SqliteLook } from "./look.ts";
import { migrate, SCHEMA_VERSION } from "./schema.ts";

const AT = { now: 1_000, steady: 1_000, epoch: "boot" };

function ledger(): SqliteHandle {
  const db = new DatabaseSync(join(temporaryFolder(), "ledger.db")) as SqliteHandle;
  onTestFinished(() => db.close?.());
  migrate(db, "a test");
  return db;
}

/** What the look asks, and how SQLite goes about it. */
function plansOf(db: SqliteHandle, slices: readonly Slice[]): Map<string, string> {
  const asked = new Set<string>();
  const listening: SqliteHandle = {
    exec: (sql) => db.exec(sql),
    prepare: (sql) => {
      asked.add(sql);
      return db.prepare(sql);
    },
  };
  const look = new SqliteLook(listening);
  for (const slice of slices) for (const size of [SMALL_SLICE, LARGE_SLICE]) look.answer(slice, size);
  return new Map(
    [...asked].map((sql) => {
      const parameters = sql.split("?").length - 1;
      const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...Array(parameters).fill(1)) as { detail: string }[];
      return [sql, steps.map(({ detail }) => detail).join("\n")];
    }),
  );
}

function combinations(): ListQuery[] {
  const parts: Partial<ListQuery>[] = [
    { tenant: "acme" },
    { action: "mail" },
    { scope: "run" },
    { states: ["failed"] },
    { keyPrefix: "nt1_0123456789" },
    { order: "oldest" },
    { lapsed: true },
  ];
  return Array.from({ length: 2 ** parts.length }, (_, bits) =>
    Object.assign({ limit: 10 }, ...parts.filter((_, i) => (bits >> i) & 1)),
  );
}

it("no list, count or sweep of any filter walks more rows than its slice", () => {
  const db = ledger();
  db.exec(
    "INSERT INTO nevertwice_records (id, key, rev, tenant, action, state, created_at, doc, sum) VALUES (1, 'k', 1, '', 'a', 'confirmed', 1, '{}', 1)",
  );
  const sources: Source[] = [
    { from: "rows" },
    { from: "young" },
    { from: "watched" },
    { from: "keys" },
    ...(["pending", "failed", "unknown"] as State[]).map((state) => ({ from: "state", state }) as const),
  ];
  const lists = combinations().flatMap((query) =>
    sources
      .filter(({ from }) => from !== "keys" || query.keyPrefix !== undefined)
      .flatMap((source) =>
        [null, 500].map((after) => ({ op: "list", source, query, at: AT, after, most: 11 }) as const),
      ),
  );
  const others = [{}, { tenant: "acme" }].flatMap((of): Slice[] => [
    { op: "count", at: AT, after: 0, ...of },
    { op: "waiting", at: AT, ...of },
    { op: "expired", query: { limit: 10, ...of }, at: AT, after: 0 },
  ]);
  const plans = plansOf(db, [...lists, ...others]);
  expect(plans.size).toBeGreaterThan(100);
  // A scan of an index of what waits or is leased is as long as that is; an OFFSET ends a scan by itself.
  const unbounded = [...plans].filter(
    ([sql, plan]) =>
      /SCAN nevertwice_records(?! USING (COVERING )?INDEX nevertwice_(attention|leases))/.test(plan) &&
      !/LIMIT 1 OFFSET \?$/.test(sql),
  );
  expect(unbounded).toEqual([]);
  // Walked in the order that is asked for: nothing is gathered and sorted.
  const sorted = [...plans].filter(
    ([sql, plan]) => /ORDER BY/.test(plan) && !/key >= \?|lease_watch IS NOT NULL/.test(sql.replaceAll("+key", "")),
  );
  expect(sorted).toEqual([]);
});

it.each([1, 2, 3])("a ledger of schema %i gets the index for pages of what waits, and keeps its rows", (version) => {
  const db = ledger();
  db.exec(
    "INSERT INTO nevertwice_records (id, key, rev, tenant, action, state, attention_at, created_at, doc, sum) VALUES (7, 'k', 1, '', 'a', 'failed', 5, 1, '{}', 1)",
  );
  db.exec("DROP INDEX nevertwice_attention_order");
  if (version < 3) {
    db.exec("DROP INDEX nevertwice_attention");
    db.exec(
      "CREATE INDEX nevertwice_attention ON nevertwice_records (state, attention_at) WHERE attention_at IS NOT NULL",
    );
  }
  db.exec(`UPDATE nevertwice_meta SET value = '${version}' WHERE name = 'schema_version'`);
  expect(migrate(db, "a test").version).toBe(SCHEMA_VERSION);
  const indexes = db.prepare("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'nevertwice_%'").all();
  expect(indexes).toEqual(
    expect.arrayContaining([{ name: "nevertwice_attention" }, { name: "nevertwice_attention_order" }]),
  );
  const list = { op: "list", source: { from: "state", state: "failed" }, at: AT, after: null, most: 5 } as const;
  const page = new SqliteLook(db).answer({ ...list, query: { limit: 5, states: ["failed"] } }, LARGE_SLICE);
  expect(page?.rows.map(({ id }) => id)).toEqual([7]);
});
