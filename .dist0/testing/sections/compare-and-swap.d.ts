import type { Case } from "../harness.ts";
export declare const compareAndSwap: readonly Case[];
