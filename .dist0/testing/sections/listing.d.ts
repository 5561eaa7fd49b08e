import type { Case } from "../harness.ts";
export declare const listing: readonly Case[];
