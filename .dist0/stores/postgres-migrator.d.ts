export interface MigrationOptions {
    /** Undefined: only say what a new ledger takes. */
    readonly url: string | undefined;
    readonly schema: string | undefined;
    readonly rls: boolean;
    /** A role to be allowed to use the ledger. */
    readonly grant: string | undefined;
    readonly dryRun: boolean;
}
export interface MigrationReport {
    readonly store: string;
    readonly schema: string;
    /** The version of the schema after it. */
    readonly version: number;
    readonly statements: readonly string[];
    readonly ran: boolean;
}
export declare function performMigration(options: MigrationOptions): Promise<MigrationReport>;
