const ERASE_LINE = "\r\u001b[2K";
export function showProgress({ stderr }, text) {
    if (stderr.isTTY)
        stderr.write(`${ERASE_LINE}${text}`);
}
export function endProgress({ stderr }) {
    if (stderr.isTTY)
        stderr.write(ERASE_LINE);
}
//# sourceMappingURL=progress.js.map