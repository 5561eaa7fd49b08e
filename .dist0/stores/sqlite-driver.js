/** SQLite by shape: node:sqlite, @photostructure/sqlite, better-sqlite3, or whatever offers the same few methods. */
import { createRequire } from "node:module";
import { configError, messageOf } from "../core/errors.js";
const require = createRequire(import.meta.url);
/** The SQLite that Node brings along; on Node 20, the same API as an optional package. */
export function loadDriver() {
    const failures = [];
    for (const name of ["node:sqlite", "@photostructure/sqlite"]) {
        try {
            const { DatabaseSync } = require(name);
            return { name, open: (path) => new DatabaseSync(path) };
        }
        catch (error) {
            failures.push(`${name}: ${messageOf(error).split("\n")[0]}`);
        }
    }
    throw configError(`the embedded ledger needs SQLite, and this Node (${process.version}) has none. Run: npm install @photostructure/sqlite@1 (Node 20), or use Node 22.13 or later. Tried ${failures.join("; ")}.`);
}
export function isSqliteHandle(value) {
    const handle = value;
    return (typeof handle === "object" &&
        handle !== null &&
        typeof handle.prepare === "function" &&
        typeof handle.exec === "function");
}
// SQLite's primary result codes; extended codes carry more in the higher bits.
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;
function resultCode(error) {
    const { errcode, errno, code, sqliteCode } = (error ?? {});
    for (const candidate of [errcode, sqliteCode, errno]) {
        if (typeof candidate === "number" && candidate > 0)
            return candidate & 0xff;
    }
    const text = `${String(code)} ${messageOf(error)}`;
    if (/SQLITE_BUSY|database is locked/.test(text))
        return BUSY;
    if (/SQLITE_LOCKED|table is locked/.test(text))
        return LOCKED;
    if (/SQLITE_CORRUPT|malformed/.test(text))
        return CORRUPT;
    if (/SQLITE_NOTADB|not a database/.test(text))
        return NOT_A_DATABASE;
    return null;
}
/** Locked by another connection, or by a transaction that is open on this one: worth another try a little later. */
export function isBusy(error) {
    const code = resultCode(error);
    return code === BUSY || code === LOCKED || isWithinTransaction(error);
}
export function isWithinTransaction(error) {
    return /within a transaction/.test(messageOf(error));
}
export function isCorrupt(error) {
    const code = resultCode(error);
    return code === CORRUPT || code === NOT_A_DATABASE;
}
//# sourceMappingURL=sqlite-driver.js.map