import { describe, expect, it } from "vitest";
import { deriveKey, keyBytes } from "./key.ts";
import { type ProviderKeyFormat, providerKey } from "./provider-key.ts";

const key = deriveKey({ tenant: "", action: "charge", version: 1, scope: null, parts: ["order-1"] });

describe("a provider key", () => {
  it("is the key itself unless another form is asked for", () => {
    expect(providerKey(key)).toBe(key);
    expect(providerKey(key, "key")).toHaveLength(56);
  });

  it("has the form the provider wants, always the same for a key", () => {
    expect(providerKey(key, "hex")).toBe(Buffer.from(keyBytes(key)).toString("hex"));
    expect(providerKey(key, "base32hex")).toBe(key.slice(4));
    expect(providerKey(key, "uuid")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(providerKey(key, "uuid")).toBe(providerKey(key, "uuid"));
    expect(providerKey(key, "uuid").slice(0, 8)).toBe(providerKey(key, "hex").slice(0, 8));
  });

  it("is cut to the length a provider allows", () => {
    expect(providerKey(key, { maxLength: 20 })).toBe(key.slice(4, 24));
    expect(providerKey(key, { maxLength: 36 })).toHaveLength(36);
    expect(providerKey(key, { maxLength: 255 })).toBe(key.slice(4));
  });

  it("refuses fewer than 20 characters as CONFIG, and says why", () => {
    const short = () => providerKey(key, { maxLength: 19 });
    expect(short).toThrow(expect.objectContaining({ code: "CONFIG" }));
    expect(short).toThrow(/maxLength is 19, .*too few bits: two intents could get the same provider key/);
  });

  it.each(["base64", null, 36, {}, { maxLength: "36" }, { maxLength: 36.5 }, { maxLength: Number.NaN }])(
    "refuses the format %j as CONFIG",
    (format) => {
      const run = () => providerKey(key, format as ProviderKeyFormat);
      expect(run).toThrow(expect.objectContaining({ code: "CONFIG" }));
      expect(run).toThrow(/^providerKey: the format must be "key", "uuid", "hex", "base32hex" or \{ maxLength/);
    },
  );

  it("refuses what is no key as INVALID_KEY", () => {
    expect(() => providerKey("order-1", "uuid")).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
  });
});
