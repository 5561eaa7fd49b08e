import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { callTimeSuspicions, partsDiffer } from "./call-time.ts";
import { keyParts } from "./parts.ts";
import { day, month, week, windowOf } from "./windows.ts";

const now = Date.UTC(2026, 0, 15, 9, 35, 17, 123);
const V4 = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const uuidV7 = (time: number) => {
  const hex = time.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7abc-8def-0123456789ab`;
};
const ulid = (time: number) =>
  `${Array.from({ length: 10 }, (_, n) => "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[Math.floor(time / 32 ** (9 - n)) % 32]).join("")}ABCDEFGH12345678`;
function ksuid(time: number): string {
  let value = (BigInt(Math.floor(time / 1_000) - 1_400_000_000) << 128n) | 0x1234567890abcdefn;
  let text = "";
  while (text.length < 27) {
    text = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[Number(value % 62n)] + text;
    value /= 62n;
  }
  return text;
}
const check = (part: unknown, input: unknown = {}, name?: string) =>
  callTimeSuspicions({ parts: ["lead-1", part], names: name === undefined ? undefined : ["leadId", name], input, now });

describe("K5 parts made at call time", () => {
  it.each([
    ["epoch milliseconds", now - 12],
    ["epoch seconds", Math.floor(now / 1_000)],
    ["fractional epoch seconds", (now - 3) / 1_000],
    ["epoch microseconds", now * 1_000],
    ["epoch milliseconds as text", String(now)],
    ["epoch milliseconds in a text", `followup-${now - 40}`],
    ["epoch milliseconds in base 36", `id_${now.toString(36)}`],
    ["an ISO time", new Date(now - 900).toISOString()],
    ["an ISO time with an offset", "2026-01-15T10:35:17+01:00"],
    ["an ISO time in a text", `lead:${new Date(now).toISOString()}`],
    ["a UUID v7", uuidV7(now - 5)],
    ["a ULID", ulid(now - 5)],
    ["a KSUID", ksuid(now)],
    ["a UUID v4 that is not in the input", V4],
    ["a UUID v4 in a text", `lead-${V4}`],
    ["a tool-call id of Anthropic", "toolu_01A09q90qw90lq917835lq9"],
    ["a tool-call id of Bedrock", "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q"],
    ["a tool-call id of OpenAI", "call_abc123"],
    ["a function-call id", "fc_67ca09c6bedc8190a7abfec07b1a1332"],
    ["a completion id", "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG"],
    ["a time inside an object", { at: now }],
    ["a time inside an array", ["a", now]],
  ])("K5 notices %s", (_, part) => {
    expect(check(part)).toEqual([expect.objectContaining({ code: "CALL_TIME_KEY", part: 1, why: expect.any(String) })]);
  });

  it.each([
    "attempt",
    "attempts",
    "retry",
    "retryCount",
    "retry_count",
    "retries",
    "timestamp",
    "now",
    "nonce",
    "requestId",
    "request-id",
    "toolCallId",
    "callId",
  ])("K5 notices a field named %s", (name) => {
    expect(check("x", {}, name)).toEqual([expect.objectContaining({ part: 1, name })]);
    expect(check({ [name]: 3, id: 1 })).toEqual([expect.objectContaining({ part: 1, name })]);
  });

  it("K5 notices the id of a delivered event, and not of a calendar's", () => {
    expect(check("evt_1NG8Du2eZvKYlo2C", {}, "eventId")).toHaveLength(1);
    expect(check(V4, { eventId: V4 }, "eventId")).toHaveLength(1);
    expect(check("7cbh8rpc10lrc0ckih9tafss99", {}, "eventId")).toEqual([]);
  });

  it("K5 notices a fresh value in the whole input as the key", () => {
    const input = { leadId: "l1", sentAt: new Date(now) };
    const parts = keyParts(undefined, input, [], "send");
    expect(callTimeSuspicions({ parts, input, now })).toEqual([expect.objectContaining({ part: 0, name: "sentAt" })]);
  });

  it.each<[string, unknown, unknown, string?]>([
    ["ids in the input", V4, { customerId: V4 }, "customerId"],
    ["ids in the input, by a key function", V4, { order: { ids: [V4.toUpperCase()] } }],
    ["an id inside a longer text of the input", V4, { url: `https://a.example/leads/${V4}` }],
    ["a day", day(now), {}],
    ["a week", week(now), {}],
    ["a month", month(now), {}],
    ["a window, even one that just began", windowOf("1s", now), {}],
    ["a window in a field named timestamp", day(now), {}, "timestamp"],
    ["the slot of a schedule", "2026-01-15T09:35:00.000Z", {}],
    ["another time", "2026-01-15T08:00:12Z", {}],
    ["an old UUID v7", uuidV7(now - 60_000), {}],
    ["an old ULID", ulid(now - 60_000), {}],
    ["the new id of a lead in the input", uuidV7(now - 1_000), { leadId: uuidV7(now - 1_000) }],
    ["the new id of a lead, by field", uuidV7(now - 1_000), {}, "leadId"],
    ["words that begin like tool calls", "call_customer", {}],
    ["a template", "call_back_tomorrow", {}],
    ["small numbers", 3, {}],
    ["a message that is answered", "<CAF=abc@mail.example>", {}, "messageId"],
    ["an amount", 1_999, {}, "amount"],
    ["a phone number", "+4915112345678", {}, "phone"],
    ["the retry policy's name", "gold", {}, "retryPolicy"],
    ["a null inside", { a: null, b: true }, {}],
  ])("K5 does not warn about %s", (_, part, input, name) => {
    if (String(part).startsWith("2026-01-15T09:35:00")) {
      const soon = Date.UTC(2026, 0, 15, 9, 35, 0, 350);
      expect(callTimeSuspicions({ parts: [part], input, now: soon })).toEqual([]);
    }
    expect(check(part, input, name)).toEqual([]);
  });

  it("K6 tells the place and the reason, never the value", () => {
    const values = [now, new Date(now).toISOString(), uuidV7(now), V4, "toolu_01A09q90qw90lq917835lq9"];
    for (const value of values) expect(JSON.stringify(check(value))).not.toContain(String(value));
    expect(check({ "anna@example.com": now })).toEqual([expect.objectContaining({ name: null })]);
  });

  it("is bounded, invokes no getter and survives odd values", () => {
    let read = 0;
    const odd = {
      get body() {
        read += 1;
        return "x";
      },
    };
    const throwing = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("boo");
        },
      },
    );
    const huge = Array.from({ length: 100_000 }, (_, n) => ({ n }));
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    expect(check(odd, odd)).toEqual([]);
    expect(check(throwing, throwing)).toEqual([]);
    expect(check(V4, huge)).toEqual([]);
    expect(check(V4, cyclic)).toEqual([]);
    expect(check("x".repeat(1_000_000))).toEqual([]);
    expect(check(new Array(1_000).fill(now)).length).toBeLessThanOrEqual(32);
    expect(read).toBe(0);
  });

  it("K5 sees by two runs that a key function is not a function of the input", () => {
    expect(partsDiffer(["a", { x: 1, y: 2 }], ["a", { y: 2, x: 1 }])).toBe(false);
    expect(partsDiffer(["a"], ["a", "b"])).toBe(true);
    expect(partsDiffer([randomUUID()], [randomUUID()])).toBe(true);
    expect(partsDiffer([1n], [2n])).toBe(false);
  });
});
