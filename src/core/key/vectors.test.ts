import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { canonicalKey } from "./canonical.ts";
import { deriveKey, type KeyIdentity } from "./key.ts";

interface Vector extends KeyIdentity {
  readonly name: string;
  readonly secret?: string;
  readonly canonical: string;
  readonly key: string;
}

interface Refusal extends Partial<KeyIdentity> {
  readonly name: string;
  readonly code: string;
}

const file = new URL("../../../docs/key-vectors.json", import.meta.url);
const { vectors, refusals } = JSON.parse(readFileSync(file, "utf8")) as { vectors: Vector[]; refusals: Refusal[] };

/** On purpose not our encoder: bits as text, cut by five. */
function slowBase32hex(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((five) => Number.parseInt(five.padEnd(5, "0"), 2).toString(32)).join("");
}

describe("the published key vectors", () => {
  it.each(vectors)("K1 K2 $name", (vector) => {
    const { tenant, action, version, scope, parts, secret, canonical, key } = vector;
    const hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret);
    expect(key).toBe(`nt1_${slowBase32hex(hash.update(canonical, "utf8").digest())}`);
    expect(canonicalKey(["nt1", tenant, action, version, scope, ...parts], "vector")).toBe(canonical);
    expect(deriveKey(vector)).toBe(key);
    expect(JSON.parse(canonical)).toEqual(
      JSON.parse(JSON.stringify(["nt1", tenant, action, version, scope, ...parts])),
    );
  });

  it("are at least 25, and all keys differ but those that mean the same", () => {
    expect(vectors.length).toBeGreaterThanOrEqual(25);
    const same = new Set(vectors.map((vector) => `${vector.canonical} ${vector.secret ?? ""}`));
    expect(new Set(vectors.map((vector) => vector.key)).size).toBe(same.size);
    expect(vectors.length - same.size).toBe(1); // -0 and 0
  });

  const written = refusals.filter((refusal) => refusal.parts !== undefined);

  it.each(written)("K1 refuse $name", ({ name: _, code, ...change }) => {
    const identity = { tenant: "", action: "send_followup", version: 1, scope: null, parts: [], ...change };
    expect(() => deriveKey(identity)).toThrow(expect.objectContaining({ code }));
  });

  it("tell at least 10 refusals", () => {
    expect(written.length).toBeGreaterThanOrEqual(10);
  });
});
