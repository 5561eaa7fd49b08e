/**
 * The SQLite that the store uses on this Node. Two SQLite libraries on one file in one process drop each other's locks
 * (closing a file drops every POSIX lock the process has on it), so a test must not bring a second one.
 */
import { createRequire } from "node:module";

export const sqliteModule = process.getBuiltinModule("node:sqlite") ? "node:sqlite" : "@photostructure/sqlite";

export const { DatabaseSync } = createRequire(import.meta.url)(sqliteModule) as typeof import("@photostructure/sqlite");
