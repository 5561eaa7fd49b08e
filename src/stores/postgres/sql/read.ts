/** Rows by their names, in one statement. */

import { CLOCK } from "../migrate.ts";
import { type GivenColumn, Parameters } from "./arrays.ts";
import { selectList } from "./row.ts";
import type { Statement } from "./write.ts";

export interface RowNames {
  readonly hex: string;
  /** Undefined in all of them: whosever they are. */
  readonly tenant: string | undefined;
}

export function readRows(table: string, names: readonly RowNames[]): Statement {
  const parameters = new Parameters();
  const [only] = names;
  const from = names.length === 1 && only ? one(table, parameters, only) : several(table, parameters, names);
  return { text: `SELECT ${CLOCK} AS clock, ${selectList("r")} FROM ${from}`, values: parameters.values };
}

function one(table: string, parameters: Parameters, { hex, tenant }: RowNames): string {
  const key = `${table} r WHERE r.key = decode(${parameters.add(hex)}, 'hex')`;
  return tenant === undefined ? key : `${key} AND r.tenant = ${parameters.add(tenant)}`;
}

function several(table: string, parameters: Parameters, names: readonly RowNames[]): string {
  const columns: GivenColumn[] = [{ name: "key", type: "bytea", given: { each: names.map(({ hex }) => hex) } }];
  const tenants = names.flatMap(({ tenant }) => (tenant === undefined ? [] : [tenant]));
  const [first] = tenants;
  if (first !== undefined) {
    const given = tenants.every((tenant) => tenant === first) ? { same: first } : { each: tenants };
    columns.push({ name: "tenant", type: "text", given });
  }
  const { from, column } = parameters.rows(columns);
  return `${from} ${lookedUp(table, columns.map(({ name }) => `r.${name} = ${column(name)}`).join(" AND "))}`;
}

/**
 * Row by row. Of a table that was never analysed the planner expects many rows for each key, and would rather read all of
 * it than join the few that are asked for; behind OFFSET 0 it has no such choice.
 */
export function lookedUp(table: string, condition: string): string {
  return `CROSS JOIN LATERAL (SELECT * FROM ${table} r WHERE ${condition} OFFSET 0) r`;
}
