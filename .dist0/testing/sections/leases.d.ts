import type { Case } from "../harness.ts";
export declare const leases: readonly Case[];
