export declare const SCHEMA_VERSION: number;
export interface SchemaState {
    readonly version: number;
    readonly readableSince: number;
    readonly ledgerId: string;
}
/** A schema's name as SQL takes it. */
export declare function quoteName(name: string): string;
export declare function quoteText(text: string): string;
/** The statements from a version (0: nothing is there) to this release's, in order. */
export declare function migrationSql(schema: string, from: number): string[];
/**
 * Row-level security: a role that is not the table's owner sees and writes only rows of the tenant its transaction
 * names. Where none is named, nothing: a forgotten setting must not show everything.
 */
export declare function rlsSql(schema: string): string[];
/** Names the tenant for the rest of the transaction. */
export declare function nameTenant(tenant: string): string;
/** What a role needs that uses the ledger and does not migrate it. */
export declare function grantSql(schema: string, role: string): string[];
/** Whether this release can work on the schema as it is; throws where it cannot and migrating would not help. */
export declare function isServed(state: SchemaState, where: string): boolean;
