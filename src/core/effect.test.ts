import { describe, expect, it } from "vitest";
import { type Effect, effectOf, keepFor, unfitForMoney, withEffect } from "./effect.ts";
import { type PolicyOptions, policyWarnings, resolvePolicy, withDefaultKeep } from "./policy.ts";

type Options = PolicyOptions<() => unknown>;

const DAY = 86_400_000;
const policy = (options: Options = {}) => resolvePolicy(options, "action pay");
const codes = (options: Options) => policyWarnings(policy(options), "pay").map(({ code }) => code);
const probe = () => "unknown";

describe("O8 O13 retention tiers", () => {
  it("have names that say what they are for", () => {
    expect(keepFor).toEqual({
      payment: "forever",
      transactional: "7d",
      important: "7d",
      frequent: "24h",
      scheduled: expect.any(Function),
    });
    expect(keepFor.scheduled("7d")).toBe(14 * DAY);
    expect(() => keepFor.scheduled("hourly")).toThrow(/^keepFor\.scheduled: "hourly" is not a duration/);
  });

  it("each tier is a keep", () => {
    expect(policy({ keep: keepFor.payment }).keepMs).toBeNull();
    expect(policy({ keep: keepFor.transactional }).keepMs).toBe(7 * DAY);
    expect(policy({ keep: keepFor.important }).keepMs).toBe(7 * DAY);
    expect(policy({ keep: keepFor.frequent }).keepMs).toBe(DAY);
    expect(policy({ keep: keepFor.scheduled("15m") }).keepMs).toBe(1_800_000);
  });

  it.each([
    ["mail", /^keepFor\.mail does not exist\. Use keepFor\.transactional \(7 days\)/],
    ["notification", /^keepFor\.notification does not exist\. Use keepFor\.important \(7 days\)/],
  ])("the name %s meant the reverse of a tier: it is an error, not the default", (name, message) => {
    expect(() => keepFor[name as keyof typeof keepFor]).toThrow(message);
  });
});

describe("O13 kinds of effect", () => {
  it.each<[Effect, object]>([
    ["payment", { keepMs: null, timeoutMs: 60_000, leaseMs: 180_000, queued: { forMs: 3 * DAY } }],
    ["mail", { keepMs: 7 * DAY, timeoutMs: 30_000, leaseMs: 90_000, queued: { forMs: 3 * DAY } }],
    ["notification", { keepMs: DAY, timeoutMs: 20_000, leaseMs: 60_000, queued: { forMs: DAY } }],
    ["post", { keepMs: 30 * DAY, timeoutMs: 300_000, leaseMs: 900_000, queued: { forMs: DAY } }],
  ])("%s sets keep, doubt, retry and a lease of three times its longest run", (effect, expected) => {
    expect(policy({ effect })).toMatchObject({ effect, doubt: { kind: "hold" }, keepByHand: false, ...expected });
    expect(codes({ effect })).toEqual([]);
  });

  it("options of the action win over its kind", () => {
    const own = policy({ effect: "mail", keep: "60d", doubt: { resendWithin: "24h" }, retry: { attempts: 2 } });
    expect(own).toMatchObject({ keepMs: 60 * DAY, keepByHand: true, doubt: { kind: "settle" }, attempts: 2 });
    expect(policy({ effect: "notification", retry: { backoff: "1s" } }).queued.forMs).toBe(DAY);
    expect(policy({ effect: "notification", retry: { for: "1h" } }).queued.forMs).toBe(3_600_000);
  });

  it("O9 lease and timeout follow each other at three to one", () => {
    expect(policy({ effect: "payment", timeout: "5m" })).toMatchObject({ timeoutMs: 300_000, leaseMs: 900_000 });
    expect(policy({ effect: "payment", timeout: "10s" })).toMatchObject({ timeoutMs: 10_000, leaseMs: 180_000 });
    expect(policy({ effect: "payment", lease: "30s" })).toMatchObject({ timeoutMs: 10_000, leaseMs: 30_000 });
    expect(policy({ effect: "payment", lease: "1m", timeout: "50s" })).toMatchObject({
      leaseMs: 60_000,
      timeoutMs: 50_000,
    });
  });

  it("what needs a longer keep than its kind gets it", () => {
    expect(policy(withDefaultKeep<Options>({ effect: "mail" }, "90d"))).toMatchObject({ keepMs: 90 * DAY });
    expect(policy(withDefaultKeep<Options>({ effect: "payment" }, "90d"))).toMatchObject({ keepMs: null });
  });

  it.each<[unknown, RegExp]>([
    [
      "payments",
      /^action pay: effect is "payments"\. Did you mean "payment"\? It takes "payment", "mail", "notification", "post"\./,
    ],
    ["Mail", /Did you mean "mail"\?/],
    ["sms", /^action pay: effect is "sms"\. It takes/],
    ["toString", /effect is "toString"/],
    [true, /effect is of type boolean\. It takes/],
    [null, /effect is of type object\. It takes/],
  ])("an unknown kind is refused with the nearest name: %j", (effect, message) => {
    expect(() => policy({ effect: effect as Effect })).toThrow(message);
  });

  it("a payment with doubt retry is refused: it could be made twice", () => {
    expect(() => policy({ effect: "payment", doubt: "retry" })).toThrow(
      /effect is "payment" and doubt is "retry": .* could be made twice\. Give doubt: \{ resendWithin: "24h" \}/,
    );
    for (const doubt of ["hold", { resendWithin: "24h" }, { probe, quietFor: "1m" }] as const)
      expect(policy({ effect: "payment", doubt }).effect).toBe("payment");
    expect(policy({ effect: "notification", doubt: "retry" }).doubt.kind).toBe("retry");
  });

  it("a keep shorter than advised is warned about, and so is a payment that fails open", () => {
    expect(codes({ effect: "payment", keep: "29d" })).toEqual(["KEEP_SHORT_FOR_EFFECT"]);
    expect(codes({ effect: "payment", keep: "30d" })).toEqual([]);
    expect(codes({ effect: "mail", keep: "24h" })).toEqual(["KEEP_SHORT_FOR_EFFECT"]);
    expect(codes({ effect: "notification", keep: "1h" })).toEqual(["KEEP_SHORT_FOR_EFFECT"]);
    expect(codes({ effect: "payment", whenStoreDown: "run" })).toEqual(["FAIL_OPEN_FOR_MONEY"]);
    expect(codes({ effect: "mail", whenStoreDown: "run" })).toEqual([]);
  });

  it("a store that forgets, or may lose a claim, is unfit for payments", () => {
    const store = (survives: "power-loss" | "best-effort" | "nothing") => ({ name: "some", traits: { survives } });
    expect(unfitForMoney(store("power-loss"), null, "pay")).toBeNull();
    expect(unfitForMoney(store("best-effort"), null, "pay")).toBeNull();
    expect(unfitForMoney(store("nothing"), null, "pay")).toContain("forgets everything when the process ends");
    expect(unfitForMoney(store("best-effort"), "appendfsync is everysec", "pay")).toContain("appendfsync is everysec");
  });

  it("an action carries its kind", () => {
    expect(effectOf(withEffect({}, "payment"))).toBe("payment");
    expect(effectOf(withEffect({}, null))).toBeUndefined();
  });
});
