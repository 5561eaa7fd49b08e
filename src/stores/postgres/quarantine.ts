/** Setting a damaged row aside: into a table of its own, byte for byte, in one transaction with its removal. */
import { requireDamaged } from "../../core/damaged-record.ts";
import type { Quarantined, Stored } from "../../core/store.ts";
import type { Driver } from "./client/connection.ts";
import { keyHex } from "./sql/key.ts";
import { type Row, selectList } from "./sql/row.ts";
import { quoteName } from "./sql/schema.ts";

interface Wanted {
  readonly key: string;
  readonly schema: string;
  readonly decode: (row: Row) => Stored;
}

export async function quarantineRow(
  driver: Driver,
  { key, schema: name, decode }: Wanted,
): Promise<Quarantined | null> {
  const schema = quoteName(name);
  const found = `FROM ${schema}.records r WHERE r.key = decode($1, 'hex')`;
  const hex = keyHex(key);
  return driver.transaction(async ({ query }) => {
    const rows = await query(`SELECT ${selectList("r")} ${found} FOR UPDATE`, [hex]);
    if (rows.length === 0) return null;
    requireDamaged(key, () => rows.map(decode));
    await query(
      `CREATE TABLE IF NOT EXISTS ${schema}.quarantine AS SELECT now() AS quarantined_at, r.* FROM ${schema}.records r WITH NO DATA`,
    );
    await query(`INSERT INTO ${schema}.quarantine SELECT now(), r.* ${found}`, [hex]);
    await query(`DELETE ${found}`, [hex]);
    return { key, keptIn: `the table ${name}.quarantine` };
  });
}
