import { cutTo, padEnd, padStart, widthOf, wrap } from "./text.js";
const GAP = 2;
export function renderTable(columns, rows, { width, paint, indent = 0 }) {
    const widths = shrink(columns, naturalWidths(columns, rows), width - indent);
    const line = (cells) => {
        const last = cells.length - 1;
        const parts = cells.map((cell, i) => renderCell(cell, columns[i], widths[i], i === last));
        return " ".repeat(indent) + parts.join(" ".repeat(GAP));
    };
    const head = columns.map(({ title }) => ({ text: title, paint: paint.dim }));
    const wraps = columns.at(-1)?.wraps === true;
    return [line(head), ...rows.flatMap((row) => (wraps ? unrolled(row, widths.at(-1)) : [row])).map(line)];
}
/** One row as several, the text of its last cell spread over them. */
function unrolled(row, width) {
    const first = row.slice(0, -1);
    return wrap(textOf(row.at(-1) ?? ""), width).map((text, i) => [...(i === 0 ? first : first.map(() => "")), text]);
}
function naturalWidths(columns, rows) {
    return columns.map(({ title }, i) => Math.max(widthOf(title), ...rows.map((row) => widthOf(textOf(row[i] ?? "")))));
}
function shrink(columns, natural, room) {
    const widths = [...natural];
    const used = () => widths.reduce((sum, width) => sum + width, GAP * (widths.length - 1));
    for (let over = used() - room; over > 0; over -= 1) {
        let widest = -1;
        columns.forEach(({ min }, i) => {
            const width = widths[i];
            if (min !== undefined && width > min && width >= (widths[widest] ?? 0))
                widest = i;
        });
        if (widest === -1)
            break;
        widths[widest] = widths[widest] - 1;
    }
    return widths;
}
function renderCell(cell, { align }, width, last) {
    const cut = cutTo(textOf(cell), width);
    // No blanks at a line's end: they wrap in a terminal that is exactly as wide.
    const padded = align === "right" ? padStart(cut, width) : last ? cut : padEnd(cut, width);
    return typeof cell === "string" ? padded : cell.paint(padded);
}
function textOf(cell) {
    return typeof cell === "string" ? cell : cell.text;
}
//# sourceMappingURL=table.js.map