import type { Case } from "../harness.ts";
export declare const corruption: readonly Case[];
