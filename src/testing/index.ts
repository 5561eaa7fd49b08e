export {
  type ConformanceLedger,
  type ConformanceOffer,
  type ConformanceOptions,
  sampleRecord,
  storeConformance,
  type TestRunner,
} from "./conformance.ts";
