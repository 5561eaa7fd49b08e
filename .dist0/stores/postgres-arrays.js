// Control characters that JSON never holds unescaped.
const SEPARATOR = "\u001e";
const NULL_MARK = "\u001d";
/** Collects the parameters of one statement. */
export class Parameters {
    values = [];
    #separators = null;
    add(value) {
        this.values.push(value);
        return `$${this.values.length}::text`;
    }
    /**
     * A FROM item that yields the rows. Behind OFFSET 0 the planner does not see how many rows there are and takes ten:
     * with the real number (500) it would rather read a table of 30 MB from end to end than look 500 keys up.
     */
    rows(alias, columns, rows) {
        const arrays = columns.map(({ type }, at) => `${this.#array(type, rows, at)} AS a${at}`);
        const names = columns.map(({ name }) => name).join(", ");
        const all = columns.map((_, at) => `p.a${at}`).join(", ");
        return `(SELECT ${arrays.join(", ")} OFFSET 0) p CROSS JOIN LATERAL unnest(${all}) AS ${alias}(${names})`;
    }
    #array(type, rows, at) {
        if (rows.every((row) => row[at] === null))
            return `NULL::${type}[]`;
        if (type === "text")
            return this.#texts(rows.map((row) => row[at]));
        const literal = type === "bytea" ? byteaArray(rows, at) : plainArray(rows, at);
        return `${this.add(literal)}::${type}[]`;
    }
    #texts(texts) {
        // string_to_array takes an empty string for no element at all: one row goes as a row of its own.
        if (texts.length === 1)
            return `ARRAY[${this.add(texts[0])}]`;
        if (texts.some((text) => text !== null && (text.includes(SEPARATOR) || text.includes(NULL_MARK)))) {
            return `${this.add(escapedArray(texts))}::text[]`;
        }
        const joined = texts.map((text) => text ?? NULL_MARK).join(SEPARATOR);
        this.#separators ??= { separator: this.add(SEPARATOR), nullMark: this.add(NULL_MARK) };
        return `string_to_array(${this.add(joined)}, ${this.#separators.separator}, ${this.#separators.nullMark})`;
    }
}
/** Numbers and booleans need no quotes. */
function plainArray(rows, at) {
    let text = "";
    for (const row of rows)
        text += `,${row[at] ?? "NULL"}`;
    return `{${text.slice(1)}}`;
}
function byteaArray(rows, at) {
    let text = "";
    for (const row of rows)
        text += `,"\\\\x${row[at]}"`;
    return `{${text.slice(1)}}`;
}
export function escapedArray(texts) {
    const quoted = texts.map((text) => (text === null ? "NULL" : `"${text.replace(/["\\]/g, "\\$&")}"`));
    return `{${quoted.join(",")}}`;
}
//# sourceMappingURL=postgres-arrays.js.map