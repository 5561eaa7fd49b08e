/** Every text that a store sends where it may only send known ones: asked for here as the store itself asks for them. */
import { BLANK_RECORD } from "../../../core/record.ts";
import type { ListQuery } from "../../../core/store.ts";
import type { Connection } from "../client/connection.ts";
import { inspectServer } from "../inspect.ts";
import { look } from "../migrate.ts";
import { checkOptions } from "../options.ts";
import { leaseDue, leaseLapsed } from "../sql/lease.ts";
import { listStatement } from "../sql/list.ts";
import type { Row } from "../sql/row.ts";
import { quoteName } from "../sql/schema.ts";
import { ledgerStats } from "../sql/stats.ts";
import { sweepStatement, sweptStatement, watchStatement } from "../sql/sweep.ts";
import { planPut } from "../sql/write.ts";
import { uniformRead, uniformWrite } from "./uniform.ts";

export async function knownStatements(schema: string): Promise<readonly string[]> {
  const name = quoteName(schema);
  const tables = { table: `${name}.records`, watch: `${name}.watch` };
  const texts = new Set<string>();
  /** Answers as a small ledger does, or as a large one, and keeps what it was asked. */
  const listener = (pages: string): Connection => ({
    uniform: true,
    query: async (text) => {
      texts.add(text);
      return [{ c0: pages, c1: "1", c2: "1", c3: "true" } as Row];
    },
  });
  const note = ({ text }: { readonly text: string }) => texts.add(text);
  const settings = checkOptions({ url: "postgres://localhost/", schema });
  await inspectServer(listener("1"), { tables, settings, waiting: "" });
  await look(listener("1"), schema);
  note(watchStatement(tables, 0));
  note(sweptStatement(tables, { now: 0, from: 0 }));
  note(uniformRead(tables.table, [{ hex: "00", tenant: undefined }]));
  note(uniformWrite(tables.table, [planPut({ record: BLANK_RECORD, expected: null }, { hex: "00", now: 0 })], 0));
  for (const query of LISTS) note(listStatement(tables, query, 0));
  for (const tenant of [undefined, "t"]) {
    note(sweepStatement(tables, { limit: 1, now: 0, tenant, from: 0 }));
    for (const pages of ["1", "1000000"]) await ledgerStats(listener(pages), tables, 0, tenant);
    for (const actions of [undefined, ["a"]])
      for (const to of ["claimed", "sent"] as const) {
        const asked = { holder: "h", limit: 1, leaseMs: 1, to, ...(tenant && { tenant }), ...(actions && { actions }) };
        note(leaseDue(tables, asked, 0));
        note(leaseLapsed(tables, asked, 0));
      }
  }
  return [...texts];
}

const SOURCES: readonly Partial<ListQuery>[] = [{}, { lapsed: true }, { scope: "s" }, { states: ["unknown"] }];
const LISTS = SOURCES.flatMap((source) =>
  (["newest", "oldest"] as const).map((order): ListQuery => ({ limit: 1, order, ...source })),
);
