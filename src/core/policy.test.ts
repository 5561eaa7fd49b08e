import { describe, expect, it } from "vitest";
import { keepFor } from "./effect.ts";
import { asContainer, type PolicyOptions, policyWarnings, resolvePolicy, retryHorizonMs } from "./policy.ts";
import { backoffMs, resolveRetry } from "./retry.ts";

type Options = PolicyOptions<() => unknown>;

const DAY = 86_400_000;
const policy = (options: Options = {}) => resolvePolicy(options, "action mail");
const warnings = (action: string, options: Options) => policyWarnings(policy(options), action);
const probe = () => "unknown";

describe("resolvePolicy", () => {
  it("says what holds when nothing is said: held for a month, doubt is held, the ledger is needed", () => {
    expect(policy()).toEqual({
      keepMs: 30 * DAY,
      keepByHand: false,
      leaseMs: 60_000,
      timeoutMs: 50_000,
      roomMs: 50_000,
      waitMs: 10_000,
      doubt: { kind: "hold" },
      effect: null,
      ...resolveRetry(undefined, "action mail"),
      failOpen: false,
    });
  });

  it("lets lease and timeout follow each other", () => {
    expect(policy({ lease: "6s" })).toMatchObject({ leaseMs: 6_000, timeoutMs: 5_000 });
    expect(policy({ timeout: "10s" })).toMatchObject({ leaseMs: 60_000, timeoutMs: 10_000 });
    expect(policy({ timeout: "5m" })).toMatchObject({ leaseMs: 360_000, timeoutMs: 300_000 });
    expect(policy({ lease: "10s", timeout: "10s" })).toMatchObject({ leaseMs: 10_000, timeoutMs: 10_000 });
  });

  it("reads every way to settle a doubt", () => {
    const settle = (doubt: Options["doubt"] & object) => policy({ doubt }).doubt;
    expect(policy({ doubt: "retry" }).doubt).toEqual({ kind: "retry" });
    expect(settle({ resendWithin: "24h" })).toEqual({ kind: "settle", resendWithinMs: DAY, probe: null });
    expect(settle({ probe, quietFor: "2m" })).toEqual({
      kind: "settle",
      resendWithinMs: null,
      probe: { quietForMs: 120_000 },
    });
    expect(settle({ resendWithin: "24h", probe, quietFor: 0 })).toEqual({
      kind: "settle",
      resendWithinMs: DAY,
      probe: { quietForMs: 0 },
    });
  });

  it("keeps forever, and fails open, only where asked for by name", () => {
    expect(policy({ keep: "forever" }).keepMs).toBeNull();
    expect(policy({ whenStoreDown: "run" }).failOpen).toBe(true);
  });

  it.each<[string, unknown, RegExp]>([
    [
      "keep 0",
      { keep: 0 },
      /^action mail: keep is 0, so nothing would be guarded\. Give a duration such as "30d", or "forever"\.$/,
    ],
    ["keep in words", { keep: "always" }, /^action mail: keep: "always" is not a duration/],
    ["lease in words", { lease: "soon" }, /^action mail: lease: "soon" is not a duration/],
    ["a lease no heartbeat can keep", { lease: 29 }, /lease is 29ms; the shortest that heartbeats can keep is 30ms\./],
    [
      "timeout above lease",
      { lease: "1m", timeout: "2m" },
      /timeout \(2m\) must be above zero and no longer than lease \(1m\).*Raise lease or lower timeout\./,
    ],
    ["timeout 0", { timeout: 0 }, /timeout \(0ms\) must be above zero/],
    ["wait in words", { wait: "a bit" }, /^action mail: wait: "a bit" is not a duration/],
    [
      "no attempts",
      { retry: { attempts: 0 } },
      /^action mail: retry\.attempts is 0; it takes a whole number from 1 to 1000\.$/,
    ],
    ["half an attempt", { retry: { attempts: 1.5 } }, /retry\.attempts is 1\.5;/],
    ["endless attempts", { retry: { attempts: Number.POSITIVE_INFINITY } }, /retry\.attempts is Infinity;/],
    ["backoff in words", { retry: { backoff: "x" } }, /^action mail: retry\.backoff: "x" is not a duration/],
    ["max in words", { retry: { max: "x" } }, /^action mail: retry\.max: "x" is not a duration/],
    [
      "an unknown doubt",
      { doubt: "ignore" },
      /doubt is "ignore"; it takes "hold", "retry", \{ resendWithin: "24h" \}, \{ probe, quietFor: "2m" \} or \{ holdFor: "15m" \}\./,
    ],
    ["an empty doubt", { doubt: {} }, /doubt is \{\}; it takes "hold"/],
    ["quietFor alone", { doubt: { quietFor: "2m" } }, /doubt is \{"quietFor":"2m"\}; it takes/],
    [
      "a probe that is no function",
      { doubt: { probe: "yes", quietFor: 1 } },
      /doubt\.probe must be a function that answers/,
    ],
    [
      "a probe without quietFor",
      { doubt: { probe } },
      /doubt\.probe needs quietFor: how long an attempt already under way may still arrive/,
    ],
    ["resendWithin in words", { doubt: { resendWithin: "long" } }, /doubt\.resendWithin: "long" is not a duration/],
    ["quietFor in words", { doubt: { probe, quietFor: "long" } }, /doubt\.quietFor: "long" is not a duration/],
    [
      "an unknown whenStoreDown",
      { whenStoreDown: "ignore" },
      /whenStoreDown is "ignore"; it takes "refuse" or "run"\./,
    ],
  ])("refuses %s, and says what it takes", (_, options, message) => {
    const resolve = () => policy(options as Options);
    expect(resolve).toThrow(message);
    expect(resolve).toThrow(expect.objectContaining({ name: "NevertwiceError", code: "CONFIG" }));
  });
});

describe("backoffMs: exponential, full jitter, capped", () => {
  const most = () => 0.999_999_9;
  const retrying = policy({ retry: { backoff: "1s", max: "30s" } });

  it("doubles with each try, up to max", () => {
    const ceilings = [1, 2, 3, 4, 5, 6, 7, 100].map((tries) => backoffMs(retrying, tries, null, most));
    expect(ceilings).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  });

  it("takes any part of the ceiling, down to nothing", () => {
    expect(backoffMs(retrying, 3, null, () => 0)).toBe(0);
    expect(backoffMs(retrying, 3, null, () => 0.25)).toBe(1_000);
  });

  it("honours Retry-After as a floor, above max too", () => {
    expect(backoffMs(retrying, 1, 5_000, () => 0)).toBe(5_000);
    expect(backoffMs(retrying, 1, 60_000, most)).toBe(60_000);
    expect(backoffMs(retrying, 5, 5_000, () => 0.5)).toBe(8_000);
  });
});

describe("retention (O8)", () => {
  it("warns when what sounds like money is guarded for less than 30 days", () => {
    for (const action of ["charge_card", "issueRefund", "billing.invoice", "payment", "make-payout", "PAY"]) {
      expect(warnings(action, { keep: "7d" })).toMatchObject([{ code: "KEEP_SHORT_FOR_MONEY" }]);
    }
    expect(warnings("charge_card", { keep: "7d" })[0]?.message).toBe(
      'action charge_card: it sounds like money and its record guards it for 1w only. Use keep: keepFor.payment ("forever"), or at least "30d".',
    );
  });

  it("does not warn about money kept long enough, nor about what is no money", () => {
    expect(warnings("charge_card", { keep: "30d" })).toEqual([]);
    expect(warnings("charge_card", { keep: "forever" })).toEqual([]);
    for (const action of ["send_mail", "recharge", "possibility", "discharge"]) {
      expect(warnings(action, { keep: "7d" })).toEqual([]);
    }
  });
});

describe("the retry horizon (F43)", () => {
  it("is every lease, every longest pause, and the time a doubt may take", () => {
    const retry = { attempts: 3, backoff: "1s", max: "90s" };
    expect(retryHorizonMs(policy({ lease: "10s", retry }))).toBe(3 * 10_000 + 1_000 + 2_000);
    expect(retryHorizonMs(policy({ lease: "10s", retry: { ...retry, max: "1s" } }))).toBe(3 * 10_000 + 1_000 + 1_000);
    const doubt = { resendWithin: "1h", probe, quietFor: "2m" };
    expect(retryHorizonMs(policy({ lease: "10s", retry, doubt }))).toBe(33_000 + 3_600_000 + 120_000);
    expect(retryHorizonMs(policy({ lease: "10s", retry: { attempts: 1 } }))).toBe(10_000);
  });

  it("F43: a keep shorter than the horizon is warned about", () => {
    const options: Options = { lease: "10s", retry: { attempts: 3, backoff: "1s" } };
    expect(warnings("mail", { ...options, keep: 33_000 })).toEqual([]);
    const [warning] = warnings("mail", { ...options, keep: 32_999 });
    expect(warning).toMatchObject({ code: "KEEP_TOO_SHORT" });
    expect(warning?.message).toBe(
      "action mail: keep (33.0s) is shorter than its own retries may take (33s): a late retry could find its record gone and send again. Raise keep, or lower retry.attempts, retry.max or the doubt windows.",
    );
  });

  it("F43: a provider's window longer than keep is warned about", () => {
    expect(warnings("mail", { keep: "12h", doubt: { resendWithin: "24h" } })).toMatchObject([
      { code: "KEEP_TOO_SHORT" },
    ]);
    expect(warnings("mail", { keep: "forever", doubt: { resendWithin: "24h" } })).toEqual([]);
  });

  it("F43: the defaults and the tiers are long enough for the default retries", () => {
    for (const keep of ["30d", keepFor.frequent, keepFor.transactional]) expect(warnings("mail", { keep })).toEqual([]);
  });
});

describe("R8: a container", () => {
  const container = (options: Options = {}) => resolvePolicy(asContainer(options), "job");

  it("has no timeout unless one is given, and a lease of 30 minutes that heartbeats keep", () => {
    expect(container()).toMatchObject({ leaseMs: 1_800_000, timeoutMs: Number.POSITIVE_INFINITY, roomMs: 1_500_000 });
  });

  it("may have a timeout that is longer than its lease; the lease has room for a beginning all the same", () => {
    expect(container({ lease: "6s", timeout: "1h" })).toMatchObject({
      leaseMs: 6_000,
      timeoutMs: 3_600_000,
      roomMs: 5_000,
    });
    expect(container({ lease: "10s", timeout: "2s" })).toMatchObject({ timeoutMs: 2_000, roomMs: 2_000 });
  });

  it("is not warned about its keep for the time that runs may take: what runs does not expire", () => {
    expect(policyWarnings(container({ keep: "1h", retry: { attempts: 3 } }), "job:digest")).toEqual([]);
  });

  it.each([
    [{ timeout: "0s" }, /timeout is 0/],
    [{ lease: "1ms" }, /the shortest that heartbeats can keep/],
  ])("%j is refused", (options, message) => {
    expect(() => container(options)).toThrow(message);
  });
});
