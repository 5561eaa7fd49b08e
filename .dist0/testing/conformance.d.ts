/**
 * The store conformance suite: any store, any test runner. What holds here is what the engine relies on; nothing else
 * about a store matters to it.
 *
 * What a ledger cannot do is data (`offers`, optional members), and its tests are then not registered at all: a skipped
 * test reads like a passed one after a month.
 */
import { type ConformanceOptions } from "./harness.ts";
export declare function storeConformance(options: ConformanceOptions): void;
