import type { Case } from "../harness.ts";
export declare const stats: readonly Case[];
export declare const sweeping: readonly Case[];
