import type { Case } from "../harness.ts";
export declare const clock: readonly Case[];
export declare const closing: readonly Case[];
