import type { LedgerStats } from "../core/store.ts";
import type { Connection } from "./postgres-connection.ts";
import { type LeaseTables } from "./postgres-groups.ts";
export declare function ledgerStats(connection: Connection, tables: LeaseTables, now: number, tenant: string | undefined): Promise<LedgerStats>;
