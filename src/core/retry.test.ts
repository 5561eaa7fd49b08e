import { describe, expect, it } from "vitest";
import { sampleRecord } from "../testing/sample-record.ts";
import type { HistoryEntry, LedgerRecord } from "./record.ts";
import { backoffMs, givenUp, hasTriesLeft, mayResend, nextTry, type RetryOptions, resolveRetry } from "./retry.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOW = 1_750_000_000_000;

const of = (retry?: RetryOptions) => resolveRetry(retry, "action mail");
const queued = (more: Partial<LedgerRecord> = {}) => sampleRecord({ queued: true, tries: 1, ...more });
const at = (now = NOW, retryAfterMs: number | null = null) => ({ now, retryAfterMs, random: () => 1 });

describe("B6 the retries of queued work, and of direct calls", () => {
  it("direct calls: five tries within seconds; queued work: about a minute times its tries, for three days", () => {
    expect(of()).toMatchObject({ attempts: 5, backoffMs: 1_000, maxBackoffMs: 5 * MINUTE, forMs: null });
    expect(of().queued).toMatchObject({ attempts: 1_000, backoffMs: MINUTE, maxBackoffMs: 3 * HOUR, forMs: 3 * DAY });
    const pauses = (random: number) =>
      [1, 2, 3, 60, 180, 900].map((tries) => backoffMs(of().queued, tries, null, () => random) / MINUTE);
    expect(pauses(1)).toEqual([1, 2, 3, 60, 180, 180]);
    expect(pauses(0)).toEqual([0.5, 1, 1.5, 30, 90, 90]);
  });

  it("an explicit retry applies to both; what it leaves out has the default of its kind", () => {
    const both = of({ attempts: 3, backoff: "10s", max: "1m" });
    expect(both).toMatchObject({ attempts: 3, backoffMs: 10_000, maxBackoffMs: MINUTE });
    expect(both.queued).toMatchObject({ attempts: 3, backoffMs: 10_000, maxBackoffMs: MINUTE, growth: "doubles" });
    expect(of({ max: "30s" }).queued).toMatchObject({ attempts: 1_000, maxBackoffMs: 30_000, forMs: 3 * DAY });
    expect(of({ attempts: 8 }).queued).toMatchObject({ attempts: 8, backoffMs: MINUTE, growth: "steps" });
  });

  it("a number of tries replaces the three days, a time replaces the number, and both hold where both are given", () => {
    expect(of({ attempts: 500 }).queued).toMatchObject({ attempts: 500, forMs: null });
    expect(of({ for: "7d" }).queued).toMatchObject({ attempts: 1_000, forMs: 7 * DAY });
    expect(of({ attempts: 9, for: "1h" }).queued).toMatchObject({ attempts: 9, forMs: HOUR });
    expect(of({ for: "7d" })).toMatchObject({ attempts: 5, forMs: null });
  });

  it("named apart, each has its own", () => {
    const apart = of({ attempts: 2, queued: { for: "6h", max: "10m" } });
    expect(apart).toMatchObject({ attempts: 2, backoffMs: 1_000 });
    expect(apart.queued).toMatchObject({
      attempts: 1_000,
      backoffMs: MINUTE,
      maxBackoffMs: 10 * MINUTE,
      forMs: 6 * HOUR,
    });
  });

  it.each<[unknown, RegExp]>([
    [{ attemps: 3 }, /retry: there is no option "attemps"\. The options are: attempts, backoff, max, for, queued\./],
    [{ queued: { fro: "3d" } }, /retry\.queued: there is no option "fro"/],
    [{ queued: { attempts: 0 } }, /retry\.queued\.attempts is 0; it takes a whole number/],
    [{ for: "soon" }, /retry\.for: "soon" is not a duration/],
    [{ for: 0 }, /retry\.for is 0, so nothing would be tried again/],
    [{ for: "3d", queued: {} }, /Move it there: retry: \{ queued: \{ for: "3d" \} \}/],
    [5, /retry takes an object/],
    [{ queued: null }, /retry\.queued takes an object/],
  ])("refuses %j", (retry, message) => {
    expect(() => of(retry as RetryOptions)).toThrow(message);
  });
});

describe("B6 the next try of a record", () => {
  it("a direct one: a pause, until its tries are used up", () => {
    expect(nextTry(of(), sampleRecord({ tries: 1 }), at())).toEqual({ at: NOW + 1_000 });
    expect(nextTry(of(), sampleRecord({ tries: 5 }), at())).toEqual({ at: null });
  });

  it("a queued one: its three days count from its first try, and are kept in the record", () => {
    expect(nextTry(of(), queued(), at())).toEqual({ at: NOW + MINUTE, givesUpAt: NOW + 3 * DAY });
    const terms = { givesUpAt: NOW + 2 * DAY };
    expect(nextTry(of(), queued({ tries: 7, terms }), at())).toEqual({ at: NOW + 7 * MINUTE, ...terms });
  });

  it("its last try is made when the time is over, and then it is given up, truthfully", () => {
    const record = queued({ tries: 80, terms: { givesUpAt: NOW + MINUTE } });
    expect(nextTry(of(), record, at())).toEqual({ at: NOW + MINUTE, givesUpAt: NOW + MINUTE });
    const { at: next, because } = nextTry(of(), { ...record, tries: 81, attempt: 90 }, at(NOW + MINUTE));
    expect(next).toBeNull();
    expect(because).toBe("given up after 3d of tries, at attempt 90");
    expect(givenUp({ name: "Error", message: "connect ECONNREFUSED" }, because).message).toBe(
      "connect ECONNREFUSED (given up after 3d of tries, at attempt 90)",
    );
  });

  it("a Retry-After is a floor; one beyond the end is given up at once, and says why", () => {
    expect(nextTry(of(), queued(), at(NOW, 5 * HOUR)).at).toBe(NOW + 5 * HOUR);
    const { at: next, because } = nextTry(of(), queued(), at(NOW, 4 * DAY));
    expect(next).toBeNull();
    expect(because).toBe(
      "given up: the next try was asked for not before 2025-06-19T15:06:40.000Z, and its tries end at 2025-06-18T15:06:40.000Z",
    );
    expect(nextTry(of({ attempts: 3 }), queued(), at(NOW, 4 * DAY))).toEqual({ at: NOW + 4 * DAY });
  });

  it("`expires` replaces the three days, and nothing waits past it; a `for` of its own holds beside it", () => {
    const terms = { notAfter: NOW + 10 * DAY };
    expect(nextTry(of(), queued({ terms }), at())).toEqual({ at: NOW + MINUTE });
    expect(nextTry(of(), queued({ terms: { notAfter: NOW + 5_000 } }), at())).toEqual({ at: NOW + 5_000 });
    expect(nextTry(of({ for: "1h" }), queued({ terms }), at())).toEqual({ at: NOW + MINUTE, givesUpAt: NOW + HOUR });
  });

  it("tries are left while there is time", () => {
    const terms = { givesUpAt: NOW + 1 };
    expect(hasTriesLeft(of(), queued({ tries: 400, terms }), NOW)).toBe(true);
    expect(hasTriesLeft(of(), queued({ tries: 400, terms }), NOW + 1)).toBe(false);
    expect(hasTriesLeft(of(), sampleRecord({ tries: 5 }), NOW)).toBe(false);
  });

  it("a doubt is sent again four times in a row at most, however often it was tried before", () => {
    const entry = (event: string, to: HistoryEntry["to"]): HistoryEntry => ({
      at: 0,
      event,
      from: "sent",
      to,
      attempt: 1,
    });
    const [failed, doubt, resend] = [entry("not-sent", "pending"), entry("doubt", "unknown"), entry("resend", "sent")];
    const days = [...Array(10).fill(failed), doubt];
    expect(mayResend(of(), queued({ tries: 50, history: days }))).toBe(true);
    const three = [...days, resend, doubt, resend, doubt, resend, doubt];
    expect(mayResend(of(), queued({ tries: 53, history: three }))).toBe(true);
    expect(mayResend(of(), queued({ tries: 54, history: [...three, resend, doubt] }))).toBe(false);
    expect(mayResend(of(), queued({ tries: 55, history: [...three, resend, failed, doubt] }))).toBe(true);
    expect(mayResend(of({ attempts: 3 }), queued({ tries: 3, history: [doubt] }))).toBe(false);
  });
});
