import type { Instant } from "../core/record.ts";
export declare function hostInstant(): Instant;
