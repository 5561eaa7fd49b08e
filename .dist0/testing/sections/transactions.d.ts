import type { Case } from "../harness.ts";
export declare const transactions: readonly Case[];
