import type { Case } from "../harness.ts";
export declare const races: readonly Case[];
