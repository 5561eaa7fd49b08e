import type { Check } from "./health.ts";
export declare function inspectDisk(file: string): Promise<Check[]>;
