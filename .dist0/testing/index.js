export { storeConformance } from "./conformance.js";
export { sampleRecord } from "./sample-record.js";
//# sourceMappingURL=index.js.map