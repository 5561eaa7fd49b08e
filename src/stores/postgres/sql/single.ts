/**
 * A lone caller's write: a statement as one would write it by hand, no arrays and no join. What a row usually holds stands
 * in the text, and a first claim has one time for four columns: half of its nineteen columns need no parameter, and each
 * costs a microsecond between here and there. So there are few texts, and each is prepared.
 */
import { COLUMNS, type Column, NAMING, REV, SAME_MARK, SETTLED, type SqlText, textOf } from "./row.ts";
import { quoteText } from "./schema.ts";
import { isChanged, type PlannedPut, REPLACED, type Statement } from "./write.ts";

const USUALLY: Readonly<Record<string, string>> = {
  tenant: "",
  attempt: "1",
  fence: "1",
  tries: "1",
  sent_mark: SAME_MARK,
};
const OFTEN_THE_CREATION = ["updated_at", "first_sent_at", "last_sent_at"];

/** `typed`: the client sends texts as they are, whatever the type of a parameter, and need not be told. */
export function singleWrite(table: string, planned: PlannedPut, now: number, typed = false): Statement {
  const values: string[] = [];
  const cast = typed ? "" : "::text";
  let created: { readonly text: string; readonly at: number } | null = null;
  const parameter = ({ name, type }: Column, text: string): string => {
    const isCreation = created?.text === text && OFTEN_THE_CREATION.includes(name);
    const at = isCreation && created !== null ? created.at : values.push(text);
    if (name === "created_at" && planned.way === "insert") created = { text, at };
    if (type === "bytea") return `decode($${at}::text, 'hex')`;
    return type === "text" ? `$${at}::text` : `$${at}${cast}::${type}`;
  };
  const sql = (column: Column, text: SqlText): string => {
    const { name, type } = column;
    if (text === null) return "NULL";
    // A driver that knows the type would take "f" for true.
    if (type === "boolean") return text === "t" ? "true" : "false";
    if (name === "state") return quoteText(text);
    if (text !== USUALLY[name]) return parameter(column, text);
    return type === "text" ? quoteText(text) : text;
  };
  const textAt = (column: Column) => textOf(column.type, column.value(planned, now));
  const equal = (column: Column, text: SqlText) => `${column.name} = ${sql(column, text)}`;
  if (planned.way === "insert") {
    const set = COLUMNS.map((column) => [column, textAt(column)] as const).filter(([, text]) => text !== null);
    const [names, given] = [set.map(([{ name }]) => name), set.map(([column, text]) => sql(column, text))];
    const text = `INSERT INTO ${table} (${names.join(", ")}) VALUES (${given.join(", ")}) ON CONFLICT (key, tenant) DO NOTHING`;
    return { text, values };
  }
  const columns = planned.way === "replace" ? REPLACED : SETTLED.filter((column) => isChanged(column, planned, now));
  const set = ["rev = rev + 1", ...columns.map((column) => equal(column, textAt(column)))];
  const found = [...NAMING.map((column) => equal(column, textAt(column))), equal(REV, String(planned.expected))];
  return { text: `UPDATE ${table} SET ${set.join(", ")} WHERE ${found.join(" AND ")}`, values };
}
