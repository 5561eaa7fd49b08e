export { storeConformance } from "./conformance.ts";
export type { ConformanceLedger, ConformanceOffer, ConformanceOptions, TestRunner } from "./harness.ts";
export { sampleRecord } from "./sample-record.ts";
