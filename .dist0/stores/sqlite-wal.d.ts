/** What is wrong with the log of the ledger `path`, or null. Opens the log only: closing that drops no lock of SQLite's. */
export declare function walDamage(path: string): string | null;
