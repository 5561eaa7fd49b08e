import { describe, expect, it } from "vitest";
import { quietInMs, windowOver } from "./doubt-time.ts";
import { HISTORY_LIMIT, type Instant, type LedgerRecord } from "./record.ts";
import type { Refusal } from "./refusal.ts";
import { type Change, type Intent, type LedgerEvent, transition } from "./transition.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LEASE_MS = MINUTE;
const T0: Instant = { now: 1_750_000_000_000, steady: 5_000, epoch: "boot-1" };
const DURING = past(LEASE_MS - 1);
const LAPSED = past(LEASE_MS);

const INTENT: Intent = {
  key: "nt1_key",
  tenant: "acme",
  action: "mail",
  version: 1,
  scope: "run-1",
  fingerprint: { guarded: "g1", free: "f1", fields: { body: "b1" } },
  input: { json: '{"body":"hello"}' },
  keepMs: 24 * HOUR,
};
const HOLD_A = { fence: 1, holder: "a" };
const RESULT = { json: '{"id":"m1"}' };
const ERROR = { name: "Error", message: "connection refused" };
const BY = { by: "ana", reason: "looked it up" };

/** Both clocks move together unless the wall clock is said to have moved otherwise. */
function past(ms: number, wallMs = ms, from = T0): Instant {
  return { now: from.now + wallMs, steady: from.steady + ms, epoch: from.epoch };
}

const claim = { type: "claim", intent: INTENT, to: "claimed", holder: "a", leaseMs: LEASE_MS, newRound: true } as const;
const mark = { type: "mark", hold: HOLD_A, leaseMs: LEASE_MS, timeoutMs: 50_000, draft: null } as const;
const confirm = { type: "confirm", hold: HOLD_A, result: RESULT } as const;
const notSent = { type: "not-sent", hold: HOLD_A, error: ERROR, retryAt: null, final: false } as const;
const doubt = { type: "doubt", hold: HOLD_A, why: "the reply was lost", error: ERROR } as const;
const heartbeat = { type: "heartbeat", hold: HOLD_A, leaseMs: LEASE_MS } as const;
const askedFor = { because: "asked-for" } as const;
const resend = { type: "resend", permit: askedFor, holder: "b", leaseMs: LEASE_MS, newRound: false } as const;
const providerKey = (windowMs: number) => ({ ...resend, permit: { because: "provider-key", windowMs } }) as const;
const probedDone = { type: "probed", fence: 1, quietForMs: 0, answer: { as: "done", result: RESULT } } as const;
const probedNotDone = { ...probedDone, answer: { as: "not-done" } } as const;
const resolve = (as: "done" | "not-done" | "failed") => ({ type: "resolve", as, result: null, ...BY }) as const;
const enqueue = { type: "enqueue", intent: INTENT, dueAt: T0.now } as const;
const retry = { type: "retry", ...BY } as const;
const giveBack = { type: "give-back", hold: HOLD_A, dueAt: T0.now + 5 } as const;
const lapse = { type: "lapse" } as const;

function done(change: Change): LedgerRecord {
  if (!change.ok) throw new Error(`refused: ${change.refusal}`);
  return change.record;
}

/** Carries events out one after another at T0. */
function given(...events: readonly LedgerEvent[]): LedgerRecord {
  let record: LedgerRecord | null = null;
  for (const event of events) record = done(transition(record, event, T0));
  if (record === null) throw new Error("no events");
  return record;
}

function refusal(record: LedgerRecord | null, event: LedgerEvent, at: Instant = T0): Refusal | "accepted" {
  const change = transition(record, event, at);
  return change.ok ? "accepted" : change.refusal;
}

const pending = given(enqueue);
const claimed = given(claim);
const sent = given({ ...claim, to: "sent" });
const unknown = given({ ...claim, to: "sent" }, doubt);
const confirmed = given({ ...claim, to: "sent" }, confirm);
const failed = given(claim, notSent);
const rejected = given(claim, { ...notSent, final: true });
/** Attempt 2, by b, while attempt 1 is still in doubt. */
const resent = given({ ...claim, to: "sent" }, doubt, resend);
const HOLD_B = { fence: 2, holder: "b" };

describe("the table's rows", () => {
  it("— → pending: enqueue", () => {
    const record = done(transition(null, { ...enqueue, dueAt: T0.now + HOUR }, T0));
    expect(record).toMatchObject({ ...INTENT, state: "pending", queued: true, attempt: 0, fence: 0, tries: 0 });
    expect(record).toMatchObject({ dueAt: T0.now + HOUR, createdAt: T0.now, lease: null, holder: null, history: [] });
  });

  it("— → pending: an enqueue on purpose (resend) says who and why", () => {
    expect(given({ ...enqueue, ...BY }).history).toEqual([
      { at: T0.now, event: "enqueue", from: null, to: "pending", attempt: 0, ...BY },
    ]);
  });

  it("— → claimed: first call with prepare", () => {
    const lease = { until: T0.steady + LEASE_MS, epoch: "boot-1" };
    expect(claimed).toMatchObject({
      state: "claimed",
      queued: false,
      attempt: 1,
      fence: 1,
      tries: 1,
      holder: "a",
      lease,
    });
    expect(claimed).toMatchObject({ firstSentAt: null, lastSentAt: null, firstSentMark: null, history: [] });
  });

  it("— → sent: first call without prepare, one write before the effect", () => {
    expect(sent).toMatchObject({ state: "sent", attempt: 1, fence: 1, firstSentAt: T0.now, lastSentAt: T0.now });
    expect(sent.firstSentMark).toEqual({ at: T0.steady, epoch: "boot-1" });
  });

  it("pending → claimed / sent: due and leased, fence + 1, attempt + 1", () => {
    for (const to of ["claimed", "sent"] as const) {
      const leased = done(
        transition(pending, { type: "claim", to, holder: "w", leaseMs: LEASE_MS, newRound: false }, T0),
      );
      expect(leased).toMatchObject({
        state: to,
        attempt: 1,
        fence: 1,
        tries: 1,
        holder: "w",
        dueAt: null,
        queued: true,
      });
      expect(leased.input).toEqual(INTENT.input);
    }
  });

  it("claimed → sent: same fence, lease has room for timeout; the lease starts anew and the draft is kept", () => {
    const draft = { json: '"draft"' };
    const record = done(transition(claimed, { ...mark, draft }, DURING));
    expect(record).toMatchObject({ state: "sent", fence: 1, attempt: 1, draft, firstSentAt: DURING.now });
    expect(record.lease?.until).toBe(DURING.steady + LEASE_MS);
  });

  it("claimed (lapsed) → claimed: anyone (F4)", () => {
    const taken = done(transition(claimed, { ...claim, holder: "b", newRound: false }, LAPSED));
    expect(taken).toMatchObject({ state: "claimed", holder: "b", fence: 2, attempt: 2, tries: 2 });
  });

  it("heartbeat: same fence, lease alive", () => {
    for (const record of [claimed, sent]) {
      const beaten = done(transition(record, heartbeat, DURING));
      expect(beaten).toEqual({
        ...record,
        updatedAt: DURING.now,
        lease: { until: DURING.steady + LEASE_MS, epoch: "boot-1" },
      });
    }
  });

  it("sent → confirmed: same fence", () => {
    expect(confirmed).toMatchObject({ state: "confirmed", result: RESULT, error: null, lease: null, history: [] });
    expect(confirmed).toMatchObject({ settledAt: T0.now, expiresAt: T0.now + 24 * HOUR });
  });

  it("sent → confirmed: kept forever where keep says so", () => {
    const record = given({ ...claim, intent: { ...INTENT, keepMs: null }, to: "sent" }, confirm);
    expect(record.expiresAt).toBeNull();
  });

  it("claimed / sent → pending: surely not sent, tries left", () => {
    for (const record of [claimed, sent]) {
      const back = done(transition(record, { ...notSent, retryAt: T0.now + 2_000 }, T0));
      expect(back).toMatchObject({ state: "pending", dueAt: T0.now + 2_000, error: ERROR, lease: null, tries: 1 });
      expect(back).toMatchObject({ firstSentAt: null, firstSentMark: null, draft: null });
      expect(back.history).toMatchObject([{ event: "not-sent", to: "pending", error: "connection refused" }]);
    }
  });

  it("claimed / sent → failed: surely not sent, no tries left; not final", () => {
    for (const record of [claimed, sent]) {
      const over = done(transition(record, notSent, T0));
      expect(over).toMatchObject({ state: "failed", final: false, error: ERROR, settledAt: T0.now });
    }
  });

  it("claimed / sent → failed: rejected, for good", () => {
    expect(rejected).toMatchObject({ state: "failed", final: true });
    expect(rejected.history).toMatchObject([{ event: "rejected", from: "claimed", to: "failed" }]);
  });

  it("sent → unknown: error in doubt (F21)", () => {
    expect(unknown).toMatchObject({ state: "unknown", why: "the reply was lost", doubtSince: T0.now, lease: null });
    expect(unknown).toMatchObject({ error: ERROR, doubtMark: { at: T0.steady, epoch: "boot-1" }, firstSentAt: T0.now });
    expect(unknown.history).toMatchObject([{ event: "doubt", from: "sent", to: "unknown", attempt: 1 }]);
  });

  it("sent → unknown before its lease is over: only for a holder whose process is known to be gone", () => {
    expect(transition(sent, { type: "lapse", gone: true }, T0)).toMatchObject({
      ok: true,
      record: { state: "unknown", lease: null, why: expect.stringMatching(/process has ended/) },
    });
    expect(transition(sent, lapse, T0)).toMatchObject({ ok: false, refusal: "leased" });
  });

  it("claimed → pending before its lease is over: only for a holder whose process is known to be gone; not counted", () => {
    const back = done(transition(claimed, { type: "lapse", gone: true }, T0));
    expect(back).toMatchObject({ state: "pending", lease: null, draft: null, dueAt: T0.now, attempt: 0, tries: 0 });
    expect(back.fence).toBe(claimed.fence);
    expect(back.history).toMatchObject([{ event: "not-begun", from: "claimed", to: "pending", attempt: 1 }]);
    expect(transition(claimed, lapse, T0)).toMatchObject({ ok: false });
    expect(transition({ ...claimed, doubted: true }, { type: "lapse", gone: true }, T0)).toMatchObject({ ok: false });
  });

  it("sent → unknown: lease lapsed (F5, F6, F7)", () => {
    const record = done(transition(sent, lapse, LAPSED));
    expect(record).toMatchObject({ state: "unknown", doubtSince: LAPSED.now, fence: 1, attempt: 1 });
    expect(record.why).toMatch(/stopped answering after the send mark/);
  });

  it("unknown → sent: resendWithin not over; the window goes on from the first time", () => {
    const at = past(HOUR);
    const record = done(transition(unknown, providerKey(24 * HOUR), at));
    expect(record).toMatchObject({ state: "sent", fence: 2, attempt: 2, tries: 2, holder: "b", doubted: true });
    expect(record).toMatchObject({ firstSentAt: T0.now, lastSentAt: at.now, why: null, doubtSince: null });
    expect(record.input).toBe(unknown.input);
  });

  it("unknown → sent: doubt: retry", () => {
    expect(resent).toMatchObject({ state: "sent", fence: 2, attempt: 2, doubted: true });
    expect(resent.history.at(-1)).toMatchObject({ event: "resend", from: "unknown", to: "sent" });
  });

  it("unknown → confirmed / pending / failed: probe answered, after quietFor", () => {
    const at = past(2 * MINUTE);
    const yes = done(transition(unknown, { ...probedDone, quietForMs: 2 * MINUTE }, at));
    expect(yes).toMatchObject({ state: "confirmed", result: RESULT });
    const no = done(transition(unknown, { ...probedNotDone, quietForMs: 2 * MINUTE }, at));
    expect(no).toMatchObject({ state: "pending", dueAt: at.now, firstSentAt: null, why: null, tries: 1 });
    const last = { ...probedNotDone, answer: { as: "not-done", noneLeft: true }, quietForMs: 2 * MINUTE } as const;
    expect(done(transition(unknown, last, at))).toMatchObject({ state: "failed", final: false, firstSentAt: null });
  });

  it("unknown → unknown / failed: how the attempt ended is known now, and is kept with it", () => {
    const error = { name: "CommandFailed", message: "it exited with 7", code: "EXIT_7" };
    const why = "it exited with 7, and is to be held";
    const held = done(transition(unknown, { ...probedNotDone, answer: { as: "unknown", why, error } }, past(1)));
    expect(held).toMatchObject({ state: "unknown", why, error, doubtSince: unknown.doubtSince });
    expect(held.history.at(-1)).toMatchObject({ event: "probed-unknown", from: "unknown", to: "unknown", reason: why });
    const failed = { ...probedNotDone, answer: { as: "not-done", noneLeft: true, error } } as const;
    expect(done(transition(unknown, failed, past(1)))).toMatchObject({ state: "failed", final: false, error });
    expect(transition(confirmed, { ...probedNotDone, answer: { as: "unknown", why, error } }, T0)).toMatchObject({
      ok: false,
    });
  });

  it("unknown → confirmed / pending / failed: resolve, by a named person or program, with a reason", () => {
    const states = { done: "confirmed", "not-done": "pending", failed: "failed" } as const;
    for (const as of ["done", "not-done", "failed"] as const) {
      const record = done(transition(unknown, resolve(as), T0));
      expect(record.state).toBe(states[as]);
      expect(record.history.at(-1)).toMatchObject({ event: `resolved-${as}`, from: "unknown", to: states[as], ...BY });
    }
  });

  it("unknown → pending: resolve begins a new round of tries; → failed is final", () => {
    expect(done(transition(unknown, resolve("not-done"), T0)).tries).toBe(0);
    expect(done(transition(unknown, resolve("failed"), T0))).toMatchObject({
      final: true,
      error: { message: BY.reason },
    });
  });

  it("sent (lapsed) → resolve needs no sweep in between", () => {
    expect(refusal(sent, resolve("done"), DURING)).toBe("leased");
    expect(done(transition(sent, resolve("done"), LAPSED)).state).toBe("confirmed");
  });

  it("failed → pending: retry, a new round, also from a refusal for good", () => {
    for (const record of [failed, rejected]) {
      const back = done(transition(record, retry, T0));
      expect(back).toMatchObject({ state: "pending", final: false, tries: 0, expiresAt: null, dueAt: T0.now });
      expect(back.history.at(-1)).toMatchObject({ event: "retry", from: "failed", to: "pending", ...BY });
    }
  });

  it("failed, not final → claimed: a later call goes on at once", () => {
    const record = done(transition(failed, claim, T0));
    expect(record).toMatchObject({ state: "claimed", fence: 2, attempt: 2, tries: 1, expiresAt: null, error: null });
  });

  it("confirmed / failed → gone: older than keep, the key is free again and the fence goes on", () => {
    const old = past(24 * HOUR);
    for (const record of [confirmed, failed, rejected]) {
      const again = done(transition(record, { ...claim, holder: "b" }, old));
      expect(again).toMatchObject({
        state: "claimed",
        fence: 2,
        attempt: 1,
        createdAt: old.now,
        result: null,
        history: [],
      });
      expect(done(transition(record, enqueue, old))).toMatchObject({ state: "pending", fence: 1, attempt: 0 });
    }
  });

  it("confirmed / failed for good: none is claimed while the record guards its key", () => {
    for (const record of [confirmed, rejected]) expect(refusal(record, claim, past(24 * HOUR - 1))).toBe("final");
  });

  it("unknown, pending, claimed and sent never expire", () => {
    for (const record of [unknown, pending, claimed, sent]) expect(record.expiresAt).toBeNull();
  });
});

/** Each event at each state, with the hold of the present attempt. "ok" or the refusal. */
const EVENTS = {
  enqueue,
  claim,
  resend,
  mark,
  heartbeat,
  confirm,
  notSent,
  doubt,
  lapse,
  probedDone,
  resolve: resolve("done"),
  retry,
  giveBack,
};
const later = given({ ...enqueue, dueAt: T0.now + HOUR });
const MATRIX: Readonly<
  Record<string, readonly [LedgerRecord | null, Instant, Readonly<Record<keyof typeof EVENTS, string>>]>
> = {
  absent: [null, T0, row("ok ok absent absent absent absent absent absent absent absent absent absent absent")],
  "pending, due": [
    pending,
    T0,
    row("exists ok not-in-doubt stale stale stale stale stale not-in-doubt not-in-doubt not-in-doubt not-failed stale"),
  ],
  "pending, later": [
    later,
    T0,
    row(
      "exists not-due not-in-doubt stale stale stale stale stale not-in-doubt not-in-doubt not-in-doubt not-failed stale",
    ),
  ],
  claimed: [
    claimed,
    DURING,
    row("ok leased not-in-doubt ok ok ok ok stale not-in-doubt not-in-doubt not-in-doubt not-failed ok"),
  ],
  "claimed, lapsed": [
    claimed,
    LAPSED,
    row("ok ok not-in-doubt lease-lost lease-lost ok ok stale not-in-doubt not-in-doubt not-in-doubt not-failed ok"),
  ],
  sent: [sent, DURING, row("ok leased leased stale ok ok ok ok leased not-in-doubt leased not-failed ok")],
  "sent, lapsed": [sent, LAPSED, row("ok in-doubt * stale lease-lost ok ok ok ok not-in-doubt ok not-failed ok")],
  unknown: [unknown, T0, row("ok in-doubt ok stale stale ok stale stale not-in-doubt ok ok not-failed stale")],
  confirmed: [
    confirmed,
    T0,
    row(
      "exists final not-in-doubt stale stale final stale stale not-in-doubt not-in-doubt not-in-doubt not-failed stale",
    ),
  ],
  "failed, not final": [
    failed,
    T0,
    row("ok ok not-in-doubt stale stale ok stale stale not-in-doubt not-in-doubt not-in-doubt ok stale"),
  ],
  "failed for good": [
    rejected,
    T0,
    row("exists final not-in-doubt stale stale ok stale stale not-in-doubt not-in-doubt not-in-doubt ok stale"),
  ],
};

function row(cells: string): Readonly<Record<keyof typeof EVENTS, string>> {
  const words = cells.split(" ");
  const names = Object.keys(EVENTS) as (keyof typeof EVENTS)[];
  return Object.fromEntries(names.map((name, index) => [name, words[index]])) as Record<keyof typeof EVENTS, string>;
}

describe("every event at every state: accepted, or refused by name", () => {
  for (const [state, [record, at, expected]] of Object.entries(MATRIX)) {
    it(state, () => {
      for (const name of Object.keys(EVENTS) as (keyof typeof EVENTS)[]) {
        const change = transition(record, EVENTS[name], at);
        const answer = change.ok ? "ok" : change.refusal;
        // "*": refused, by whatever name.
        if (expected[name] === "*") expect(change.ok, name).toBe(false);
        else expect(`${name}: ${answer}`).toBe(`${name}: ${expected[name]}`);
      }
    });
  }

  it("a worker's claim of what is not there is refused: it has no intent to begin one with", () => {
    const worker = { type: "claim", to: "sent", holder: "w", leaseMs: 1, newRound: false } as const;
    expect(refusal(null, worker)).toBe("absent");
    expect(refusal(confirmed, worker, past(24 * HOUR))).toBe("absent");
  });

  it("claimed → sent is refused when the attempt could outlive its lease", () => {
    expect(refusal(claimed, { ...mark, leaseMs: 49_999 })).toBe("no-room");
    expect(refusal(claimed, { ...mark, leaseMs: 50_000 })).toBe("accepted");
  });
});

describe("stale holds", () => {
  const taken = done(transition(claimed, { ...claim, holder: "b" }, LAPSED));

  it("F15: a holder stopped past its lease is refused, before and after a takeover", () => {
    for (const event of [mark, heartbeat]) {
      expect(refusal(claimed, event, LAPSED)).toBe("lease-lost");
      expect(refusal(taken, event, LAPSED)).toBe("stale");
    }
    expect(refusal(sent, heartbeat, LAPSED)).toBe("lease-lost");
  });

  it("F15: the fence alone is not enough, the holder must be the same too", () => {
    for (const event of [mark, heartbeat, notSent]) {
      expect(refusal(claimed, { ...event, hold: { fence: 1, holder: "b" } })).toBe("stale");
    }
    expect(refusal(sent, { ...doubt, hold: { fence: 1, holder: "b" } })).toBe("stale");
  });

  it("F25: a late rejection of attempt 1 during attempt 2 is ignored", () => {
    expect(refusal(taken, { ...notSent, final: true }, LAPSED)).toBe("stale");
    expect(refusal(resent, { ...notSent, final: true })).toBe("stale");
    expect(refusal(resent, doubt)).toBe("stale");
  });

  it("F26: a late success after a takeover is accepted as evidence, and noted", () => {
    for (const record of [taken, resent, unknown, failed, rejected]) {
      const won = done(transition(record, confirm, LAPSED));
      expect(won).toMatchObject({ state: "confirmed", result: RESULT, error: null, lease: null });
      expect(won.history.at(-1)).toMatchObject({ event: "late-success", to: "confirmed" });
    }
  });

  it("F26: the attempt that was under way is refused from then on", () => {
    const won = done(transition(taken, confirm, LAPSED));
    for (const event of [mark, heartbeat, notSent])
      expect(refusal(won, { ...event, hold: HOLD_B }, LAPSED)).toBe("stale");
  });

  it("a success under a fence that was never handed out is no evidence", () => {
    expect(refusal(sent, { ...confirm, hold: { fence: 2, holder: "a" } })).toBe("stale");
  });

  it("a success from the holder itself after its lease is plain, not late", () => {
    expect(done(transition(sent, confirm, LAPSED)).history).toEqual([]);
  });
});

describe("an attempt after a doubt", () => {
  it("not sent, or refused: the earlier attempt stays in doubt", () => {
    for (const event of [notSent, { ...notSent, final: true }, { ...notSent, retryAt: T0.now + 1_000 }]) {
      const record = done(transition(resent, { ...event, hold: HOLD_B }, T0));
      expect(record).toMatchObject({ state: "unknown", doubted: true, error: ERROR, firstSentAt: T0.now });
      expect(record.why).toMatch(/an earlier attempt may have happened/);
    }
  });

  it("settled as not done: nothing is in doubt any more, and the provider's window starts anew", () => {
    const record = done(transition(unknown, resolve("not-done"), T0));
    const again = done(transition(record, { ...claim, to: "sent" }, past(HOUR)));
    expect(again).toMatchObject({ doubted: false, firstSentAt: T0.now + HOUR });
    expect(done(transition(again, { ...notSent, hold: { fence: 2, holder: "a" } }, past(HOUR))).state).toBe("failed");
  });
});

describe("clocks", () => {
  it("F18: the wall clock set back 10 minutes or ahead an hour, or frozen, does not end a lease early", () => {
    for (const wallMs of [-10 * MINUTE, HOUR, 0]) {
      const at = past(LEASE_MS - 1, wallMs);
      expect(refusal(claimed, { ...claim, holder: "b" }, at)).toBe("leased");
      expect(refusal(sent, lapse, at)).toBe("leased");
      expect(refusal(sent, resolve("not-done"), at)).toBe("leased");
      expect(refusal(claimed, heartbeat, at)).toBe("accepted");
    }
  });

  it("F18: nor does it keep one alive", () => {
    for (const wallMs of [-10 * MINUTE, 0]) {
      expect(refusal(claimed, { ...claim, holder: "b" }, past(LEASE_MS, wallMs))).toBe("accepted");
      expect(refusal(sent, lapse, past(LEASE_MS, wallMs))).toBe("accepted");
      expect(refusal(sent, heartbeat, past(LEASE_MS, wallMs))).toBe("lease-lost");
    }
  });

  it("a lease from another epoch counts as lapsed", () => {
    const rebooted = { ...past(1), steady: 1, epoch: "boot-2" };
    expect(refusal(claimed, { ...claim, holder: "b" }, rebooted)).toBe("accepted");
    expect(refusal(sent, lapse, rebooted)).toBe("accepted");
    expect(refusal(claimed, heartbeat, rebooted)).toBe("lease-lost");
    expect(refusal(claimed, mark, rebooted)).toBe("lease-lost");
  });

  it("F17, F27: quietFor must have passed on both clocks", () => {
    const probe = { ...probedNotDone, quietForMs: 5 * MINUTE };
    expect(refusal(unknown, probe, past(4 * MINUTE))).toBe("too-early");
    expect(refusal(unknown, probe, past(4 * MINUTE, HOUR))).toBe("too-early");
    expect(refusal(unknown, probe, past(HOUR, 4 * MINUTE))).toBe("too-early");
    expect(refusal(unknown, probe, past(HOUR, -10 * MINUTE))).toBe("too-early");
    expect(refusal(unknown, probe, past(5 * MINUTE))).toBe("accepted");
  });

  it("F17: says how long it still has to be quiet", () => {
    expect(quietInMs(unknown, 5 * MINUTE, past(2 * MINUTE, HOUR))).toBe(3 * MINUTE);
    expect(quietInMs(unknown, 5 * MINUTE, past(HOUR))).toBe(0);
  });

  it("F24: a provider's window is over as soon as either clock says so", () => {
    expect(refusal(unknown, providerKey(24 * HOUR), past(24 * HOUR - 1))).toBe("accepted");
    expect(refusal(unknown, providerKey(24 * HOUR), past(24 * HOUR))).toBe("window-over");
    expect(refusal(unknown, providerKey(24 * HOUR), past(1, 24 * HOUR))).toBe("window-over");
    expect(refusal(unknown, providerKey(24 * HOUR), past(24 * HOUR, 1))).toBe("window-over");
  });

  it("F24: a window that nothing was sent in does not exist", () => {
    expect(windowOver(claimed, 24 * HOUR, T0)).toBe(true);
  });

  it("after a reboot only the wall clock can tell", () => {
    const rebooted = (wallMs: number): Instant => ({ now: T0.now + wallMs, steady: 0, epoch: "boot-2" });
    expect(quietInMs(unknown, 5 * MINUTE, rebooted(MINUTE))).toBe(4 * MINUTE);
    expect(windowOver(unknown, HOUR, rebooted(HOUR - 1))).toBe(false);
    expect(windowOver(unknown, HOUR, rebooted(HOUR))).toBe(true);
  });

  it("a probe about an older attempt than the present doubt is refused", () => {
    const again = done(transition(resent, { ...doubt, hold: HOLD_B }, T0));
    expect(refusal(again, probedDone)).toBe("stale");
    expect(refusal(again, { ...probedDone, fence: 2 })).toBe("accepted");
  });
});

describe("a record", () => {
  it("takes the newer input at a claim, since nothing was sent, and the longer keep; never at a resend", () => {
    const input = { json: '{"body":"reworded"}' };
    for (const [keepMs, kept] of [
      [HOUR, INTENT.keepMs],
      [48 * HOUR, 48 * HOUR],
      [null, null],
    ] as const) {
      const intent: Intent = { ...INTENT, input, keepMs };
      expect(done(transition(failed, { ...claim, intent }, T0))).toMatchObject({ input, keepMs: kept });
    }
    expect(resent.input).toEqual(INTENT.input);
  });

  it("that is kept until it is done has no end in any failure, and keep once it is done", () => {
    const queued = given({ ...enqueue, terms: { keptUntilDone: true } });
    const inDoubt = done(transition(done(transition(queued, { ...claim, to: "sent" }, T0)), doubt, T0));
    const asked = { ...probedNotDone, answer: { as: "not-done", noneLeft: true } } as const;
    const failures = [
      done(transition(done(transition(queued, claim, T0)), notSent, T0)),
      done(transition(done(transition(queued, claim, T0)), { ...notSent, final: true }, T0)),
      done(transition(inDoubt, resolve("failed"), T0)),
      done(transition(inDoubt, asked, T0)),
    ];
    for (const failure of failures) {
      expect(failure).toMatchObject({ state: "failed", expiresAt: null, keepMs: INTENT.keepMs });
      const again = done(transition(done(transition(failure, retry, T0)), claim, T0));
      const taken = done(transition(again, { ...confirm, hold: { fence: again.fence, holder: "a" } }, T0));
      expect(taken).toMatchObject({ state: "confirmed", expiresAt: T0.now + 24 * HOUR });
    }
    const [failure] = failures as [LedgerRecord];
    expect(done(transition(failure, { type: "retain", keepMs: HOUR }, T0))).toMatchObject({ expiresAt: T0.now + HOUR });
    const over = { ...notSent, error: { ...ERROR, code: "NO_LONGER_NEEDED" } };
    expect(done(transition(done(transition(queued, claim, T0)), over, T0)).expiresAt).toBe(T0.now + 24 * HOUR);
  });

  it("counts tries by round and attempts for ever", () => {
    const next = done(transition(failed, { ...claim, newRound: false }, T0));
    expect(next).toMatchObject({ tries: 2, attempt: 2 });
    expect(done(transition(failed, { ...claim, newRound: true }, T0))).toMatchObject({ tries: 1, attempt: 2 });
  });

  it("keeps a bounded history, newest last", () => {
    let record = failed;
    for (let round = 0; round < HISTORY_LIMIT; round += 1) {
      record = done(transition(record, { ...retry, reason: `round ${round}` }, T0));
      record = done(transition(record, claim, T0));
      record = done(transition(record, { ...notSent, hold: { fence: record.fence, holder: "a" } }, T0));
    }
    expect(record.history).toHaveLength(HISTORY_LIMIT);
    expect(record.history.at(-2)).toMatchObject({ event: "retry", reason: `round ${HISTORY_LIMIT - 1}` });
  });

  it("is never changed in place", () => {
    const frozen = Object.freeze({ ...sent, history: Object.freeze([]) as never });
    for (const event of Object.values(EVENTS)) expect(() => transition(frozen, event, LAPSED)).not.toThrow();
  });
});
