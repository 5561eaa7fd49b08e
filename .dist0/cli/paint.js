/** Colour where a person looks at a terminal, and nowhere else. */
const plain = (text) => text;
const ansi = (on, off) => (text) => text === "" ? text : `\u001b[${on}m${text}\u001b[${off}m`;
const NO_PAINT = { bold: plain, dim: plain, red: plain, green: plain, yellow: plain, cyan: plain };
const ANSI_PAINT = {
    bold: ansi(1, 22),
    dim: ansi(2, 22),
    red: ansi(31, 39),
    green: ansi(32, 39),
    yellow: ansi(33, 39),
    cyan: ansi(36, 39),
};
export function choosePaint(isTTY, env) {
    const unwanted = (env.NO_COLOR ?? "") !== "" || env.TERM === "dumb";
    return isTTY && !unwanted ? ANSI_PAINT : NO_PAINT;
}
//# sourceMappingURL=paint.js.map