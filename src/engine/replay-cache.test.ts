import { describe, expect, it } from "vitest";
import { sampleRecord } from "../testing/index.ts";
import { ReplayCache } from "./replay-cache.ts";

const confirmed = (key: string, more = {}) => ({
  record: sampleRecord({ key, state: "confirmed", result: { json: '"r"' }, input: { json: '"i"' }, ...more }),
  version: 3,
});

describe("ReplayCache", () => {
  it("answers with confirmed records and with nothing else", () => {
    const cache = new ReplayCache();
    cache.put(confirmed("a"), 0);
    for (const state of ["sent", "unknown", "failed", "pending", "claimed"]) cache.put(confirmed(state, { state }), 0);
    expect(cache.get("a", 0)?.record.result).toEqual({ json: '"r"' });
    expect(["sent", "unknown", "failed", "pending", "claimed", "none"].map((key) => cache.get(key, 0))).toEqual(
      Array(6).fill(null),
    );
  });

  it("O8: never outlives keep", () => {
    const cache = new ReplayCache();
    cache.put(confirmed("a", { expiresAt: 1_000 }), 0);
    expect(cache.get("a", 999)).not.toBeNull();
    expect(cache.get("a", 1_000)).toBeNull();
    expect(cache.get("a", 0)).toBeNull();
  });

  it("is fresh for a minute: another process may have forgotten the record", () => {
    const cache = new ReplayCache();
    cache.put(confirmed("a"), 1_000);
    expect(cache.get("a", 60_999)).not.toBeNull();
    // Seen again by a repeat: as fresh as it was.
    cache.put(confirmed("a"), 60_999);
    expect(cache.get("a", 61_000)).toBeNull();
    cache.put(confirmed("a"), 61_000);
    expect(cache.get("a", 61_001)).not.toBeNull();
  });

  it("keeps no input", () => {
    const cache = new ReplayCache();
    cache.put(confirmed("a"), 0);
    expect(cache.get("a", 0)?.record.input).toBeNull();
  });

  it("is bounded in number: the oldest goes", () => {
    const cache = new ReplayCache();
    for (let i = 0; i <= 1_000; i += 1) cache.put(confirmed(`k${i}`), 0);
    expect(cache.get("k0", 0)).toBeNull();
    expect(cache.get("k1", 0)).not.toBeNull();
    expect(cache.get("k1000", 0)).not.toBeNull();
  });

  it("is bounded in size, sealed results included", () => {
    const cache = new ReplayCache();
    cache.put(confirmed("plain", { result: { json: "x".repeat(5_000) } }), 0);
    cache.put(confirmed("sealed", { result: { sealed: "x".repeat(5_000) } }), 0);
    cache.put(confirmed("omitted", { result: { omitted: "too large" } }), 0);
    expect([cache.get("plain", 0), cache.get("sealed", 0)]).toEqual([null, null]);
    expect(cache.get("omitted", 0)).not.toBeNull();
  });
});
