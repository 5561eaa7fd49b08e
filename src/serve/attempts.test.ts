/** Attempts that are made outside: the same leases, fences and doubts as in a program. */
import { describe, expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { type Answer, operations, STAYS } from "../../test/support/served.ts";
import { attemptOf } from "./attempt-token.ts";

const LEAD = { action: "send", parts: ["lead-7"] };
const lost = { code: "LEASE_LOST" };

eachStore("attempts made outside", (open) => {
  const start = (options = {}) => {
    const bench = open(options);
    return { ...bench, ...operations(bench.store, options), program: bench.nt };
  };

  it("D7: a claim and its settlement are the attempt of a program: nt.once with the same parts is a repeat", async () => {
    const { ask, program, record } = start();
    const claimed = await ask("claim", LEAD);
    expect(claimed).toMatchObject({ status: "claimed", attempt: 1, fence: 1, leaseMs: 60_000, state: "sent" });
    expect(claimed.providerKey).toBe(claimed.key);
    expect(await record(claimed.key)).toMatchObject({ state: "sent", action: "send", input: null });
    const done = await ask("settle", { token: claimed.token, as: "done", result: { id: "m-1" } });
    expect(done).toMatchObject({ status: "done", result: { id: "m-1" }, replayed: false, attempt: 1 });
    let ran = 0;
    const again = await program.once("send", ["lead-7"], async () => {
      ran += 1;
    });
    expect(again).toEqual({ id: "m-1" });
    expect(ran).toBe(0);
  });

  it("D7: what a program has done is done for a claim, with a key of equal parts and the same input", async () => {
    const { ask, program } = start();
    await program.once("send", ["lead-7"], async () => ({ id: "m-2" }));
    expect(await ask("claim", LEAD)).toMatchObject({ status: "done", result: { id: "m-2" }, replayed: true });
    const action = program.action("mail", {
      key: ["lead", "day"],
      free: ["body"],
      run: async (_: { lead: number; day: string; body: string }) => "m-3",
    });
    await action({ lead: 7, day: "2026-01-15", body: "hello" });
    const claim = { action: "mail", parts: [7, "2026-01-15"], free: ["body"] };
    const input = { lead: 7, day: "2026-01-15", body: "hello, reworded" };
    expect(await ask("claim", { ...claim, input })).toMatchObject({
      status: "done",
      result: "m-3",
      differs: ["body"],
    });
    const other = await ask("claim", { ...claim, input: { ...input, lead: 8 } });
    expect(other).toMatchObject({ status: "conflict", differs: ["lead"] });
  });

  it("D7: while an attempt is under way, others hear of it and get no claim, in any language", async () => {
    const { ask, program } = start();
    const { token } = await ask("claim", LEAD);
    expect(await ask("claim", LEAD)).toMatchObject({ status: "in_flight" });
    const call = program.once("send", ["lead-7"], async () => "second", { wait: 0 });
    await expect(call).rejects.toMatchObject({ code: "IN_FLIGHT" });
    const waiting = ask("claim", { ...LEAD, wait: "20s" });
    await ask("settle", { token, as: "done", result: "first" });
    expect(await waiting).toMatchObject({ status: "done", result: "first" });
  });

  it("D7: a client that dies leaves a doubt, never a second send", async () => {
    const { ask, nt, clock, record } = start();
    const { key } = await ask("claim", LEAD);
    clock.advance(61_000);
    expect(await ask("status", LEAD)).toMatchObject({ status: "unknown", key });
    expect(await nt.sweep()).toMatchObject({ lapsed: 1 });
    expect(await record(key)).toMatchObject({ state: "unknown" });
    expect(await ask("claim", LEAD)).toMatchObject({ status: "unknown", attempt: 1 });
    const resolved = await ask("resolve", { key, as: "not-done", by: "ada", reason: "the provider never saw it" });
    expect(resolved).toMatchObject({ status: "failed", final: false });
    expect(await ask("claim", LEAD)).toMatchObject({ status: "claimed", attempt: 2, fence: 2 });
  });

  it("D7: heartbeats keep a lease for as long as they come", async () => {
    const { ask, clock } = start();
    const { token } = await ask("claim", { ...LEAD, lease: "10s" });
    for (let beat = 0; beat < 5; beat += 1) {
      clock.advance(8_000);
      expect(await ask("heartbeat", { token })).toEqual({ leaseMs: 10_000 });
    }
    expect(await ask("settle", { token, as: "done" })).toMatchObject({ status: "done", replayed: false });
  });

  it("D7: after its lease an attempt that its client reports as unknown is just that", async () => {
    const { ask, clock } = start();
    const { token } = await ask("claim", LEAD);
    clock.advance(61_000);
    expect(await ask("settle", { token, as: "unknown" })).toMatchObject({ status: "unknown" });
  });

  it.each(["not-sent", "not-begun", "refused", "rejected"])(
    "D7: after its lease only success is accepted: %s is refused, and the doubt is visible at once",
    async (as) => {
      const { ask, clock, record } = start();
      const { token, key } = await ask("claim", LEAD);
      clock.advance(61_000);
      await expect(ask("settle", { token, as })).rejects.toMatchObject(lost);
      expect(await record(key)).toMatchObject({ state: "unknown" });
      await expect(ask("heartbeat", { token })).rejects.toMatchObject(lost);
      await expect(ask("sent", { token })).rejects.toMatchObject(lost);
      expect(await ask("settle", { token, as: "done", result: 7 })).toMatchObject({ status: "done", result: 7 });
      const history = (await record(key)).history.map(({ event }) => event);
      expect(history).toEqual(["lapse", "late-success"]);
    },
  );

  it("D7: a fence that was passed settles nothing but success, and a second effect is reported", async () => {
    const { ask, nt, clock } = start();
    const events: string[] = [];
    nt.on(({ type }) => void events.push(type));
    const first = await ask("claim", { ...LEAD, doubt: "retry" });
    clock.advance(61_000);
    const second = await ask("claim", { ...LEAD, doubt: "retry" });
    expect(second).toMatchObject({ status: "claimed", fence: 2, resend: true });
    for (const as of ["not-sent", "not-begun", "refused", "rejected", "unknown"])
      await expect(ask("settle", { token: first.token, as })).rejects.toMatchObject(lost);
    await expect(ask("heartbeat", { token: first.token })).rejects.toMatchObject(lost);
    expect(await ask("settle", { token: first.token, as: "done", result: { id: "m-1" } })).toMatchObject({
      status: "done",
      result: { id: "m-1" },
    });
    const after = await ask("settle", { token: second.token, as: "done", result: { id: "m-2" } });
    expect(after).toMatchObject({ status: "done", result: { id: "m-1" }, replayed: true });
    expect(events).toContain("duplicate_detected");
  });

  describe("D7 G2: a late success of an input that was corrected since", () => {
    const to = (address: string) => ({ ...LEAD, input: { to: address } });
    /** The first is taken for not done too early, and another input is claimed in its place. */
    const correctedSince = async () => {
      const bench = start();
      const { ask, nt } = bench;
      const events: string[] = [];
      nt.on(({ type }) => void events.push(type));
      const first = await ask("claim", to("wrong"));
      await ask("settle", { token: first.token, as: "unknown" });
      await ask("resolve", { key: first.key, as: "not-done", by: "ada", reason: "looked too early" });
      const second = await ask("claim", to("right"));
      expect(second).toMatchObject({ status: "claimed", fence: 2 });
      const late = () => ask("settle", { token: first.token, as: "done", result: "to wrong" });
      return { ...bench, events, second, late };
    };

    it("while the corrected one runs: it is said, and that one goes on and has its own result", async () => {
      const { ask, second, late, events, record } = await correctedSince();
      for (let time = 0; time < 2; time += 1)
        expect(await late()).toMatchObject({
          status: "in_flight",
          warning: expect.stringMatching(/before its correction/),
        });
      expect(events).toContain("duplicate_detected");
      expect(await ask("heartbeat", { token: second.token })).toEqual({ leaseMs: 60_000 });
      const done = await ask("settle", { token: second.token, as: "done", result: "to right" });
      expect(done).toMatchObject({ status: "done", result: "to right", replayed: false });
      expect(await ask("claim", to("right"))).toMatchObject({ status: "done", result: "to right" });
      expect(await ask("claim", to("wrong"))).toMatchObject({ status: "conflict", differs: ["to"] });
      const history = (await record(second.key)).history.map(({ event }) => event);
      expect(history).toEqual(["doubt", "resolved-not-done", "corrected", "late-success"]);
    });

    it("while the corrected one runs, and fails: one of them has happened, so it is a doubt", async () => {
      const { ask, second, late } = await correctedSince();
      await late();
      expect(await ask("settle", { token: second.token, as: "refused" })).toMatchObject({ status: "unknown" });
    });

    it("while the corrected one is in doubt: it stays so", async () => {
      const { ask, second, late } = await correctedSince();
      await ask("settle", { token: second.token, as: "unknown" });
      expect(await late()).toMatchObject({ status: "unknown", warning: expect.any(String) });
    });

    it("after the corrected one was refused: the record is about what happened", async () => {
      const { ask, second, late, events } = await correctedSince();
      await ask("settle", { token: second.token, as: "refused" });
      expect(await late()).toMatchObject({ status: "done", result: "to wrong", replayed: false });
      expect(events).not.toContain("duplicate_detected");
      expect(await ask("claim", to("wrong"))).toMatchObject({ status: "done", result: "to wrong", replayed: true });
      expect(await ask("claim", to("right"))).toMatchObject({ status: "conflict", differs: ["to"] });
    });

    it("after the corrected one was done: that result stays, and the second effect is said", async () => {
      const { ask, second, late, events } = await correctedSince();
      await ask("settle", { token: second.token, as: "done", result: "to right" });
      expect(await late()).toMatchObject({ status: "done", result: "to right", replayed: true });
      expect(events).toContain("duplicate_detected");
    });

    it("however long the history has become since", async () => {
      const { ask, clock, second, late } = await correctedSince();
      let { token } = second;
      for (let time = 0; time < 40; time += 1) {
        await ask("settle", { token, as: "not-sent" });
        clock.advance(3_600_000);
        ({ token } = await ask("claim", to("right")));
      }
      expect(await late()).toMatchObject({ status: "in_flight" });
      expect(await ask("settle", { token, as: "done", result: "to right" })).toMatchObject({ result: "to right" });
    });

    it("whose record has expired since: the one that was begun anew has its own result", async () => {
      const { ask, clock } = start();
      const first = await ask("claim", { ...to("wrong"), keep: "1h" });
      await ask("settle", { token: first.token, as: "refused" });
      clock.advance(3_700_000);
      const second = await ask("claim", to("right"));
      expect(await ask("settle", { token: first.token, as: "done", result: "to wrong" })).toMatchObject({
        status: "in_flight",
      });
      expect(await ask("settle", { token: second.token, as: "done", result: "to right" })).toMatchObject({
        status: "done",
        result: "to right",
        replayed: false,
      });
    });

    it("corrected back again: it is a success of that very input", async () => {
      const { ask, second, late } = await correctedSince();
      await ask("settle", { token: second.token, as: "refused" });
      await ask("claim", to("wrong"));
      expect(await late()).toMatchObject({ status: "done", result: "to wrong", replayed: false });
    });

    it("corrected by queued work that nobody has begun: the record is about what happened", async () => {
      const { ask, late, second } = await correctedSince();
      await ask("settle", { token: second.token, as: "refused" });
      const { status } = await ask("enqueue", { ...to("third"), delay: "1h" });
      expect(status).toBe("queued");
      expect(await late()).toMatchObject({ status: "done", result: "to wrong", replayed: false });
      expect(await ask("take", { actions: ["send"] })).toEqual({ work: [] });
      expect(await ask("claim", to("third"))).toMatchObject({ status: "conflict", differs: ["to"] });
    });
  });

  it.each([
    ["done", { result: { id: "m-1" } }, { status: "done", result: { id: "m-1" }, replayed: false }],
    [
      "not-sent",
      { error: { message: "no route" } },
      { status: "failed", final: false, error: { message: "no route" } },
    ],
    ["not-begun", {}, { status: "failed", final: false }],
    [
      "refused",
      { error: { message: "no such box", code: "550" } },
      { status: "failed", final: false, error: { code: "550" } },
    ],
    ["rejected", { error: { message: "blocked" } }, { status: "failed", final: true, error: { message: "blocked" } }],
    ["unknown", { error: { message: "timed out" } }, { status: "unknown", why: "timed out" }],
  ])("D7: settled as %s twice, it is answered twice and changed once", async (as, more, outcome) => {
    const { ask, record } = start();
    const { token, key } = await ask("claim", LEAD);
    const first = await ask("settle", { token, as, ...more });
    expect(first).toMatchObject(outcome);
    const before = await record(key);
    expect(await ask("settle", { token, as, ...more })).toEqual(first);
    expect(await record(key)).toEqual(before);
  });

  it("D7: one settlement after another that says something else is refused", async () => {
    const { ask } = start();
    const { token } = await ask("claim", LEAD);
    await ask("settle", { token, as: "rejected", error: { message: "blocked" } });
    for (const as of ["not-sent", "refused", "unknown", "not-begun"])
      await expect(ask("settle", { token, as })).rejects.toMatchObject(lost);
    const claims = await ask("claim", LEAD);
    expect(claims).toMatchObject({ status: "failed", final: true });
  });

  it("D7: what was not sent is claimed again at once; with the same request its tries are counted", async () => {
    const { ask, record } = start();
    const claim = { ...LEAD, request: "call-1", retry: { attempts: 2, backoff: "10s", max: "10s" } };
    const settle = (token: string) => ask("settle", { token, as: "not-sent", retryAfter: "30s" });
    const first = await ask("claim", claim);
    const failed = await settle(first.token);
    const { createdAt, dueAt } = await record(first.key);
    expect(failed).toMatchObject({ status: "failed", final: false, retryAt: dueAt });
    expect(dueAt).toBeGreaterThanOrEqual(createdAt + 30_000);
    const second = await ask("claim", claim);
    expect(second).toMatchObject({ status: "claimed", attempt: 2, fence: 2 });
    const over = await settle(second.token);
    expect(over).not.toHaveProperty("retryAt");
    expect(await ask("claim", claim)).toMatchObject({ status: "failed", final: false });
    expect(await ask("claim", { ...claim, request: "call-2" })).toMatchObject({ status: "claimed", attempt: 3 });
  });

  it("D7: a claim whose reply was lost is asked for again by its request, and is the same attempt", async () => {
    const { ask, record } = start();
    const claim = { ...LEAD, request: "5f2a7c9e-one" };
    const first = await ask("claim", claim);
    const before = await record(first.key);
    const again = await ask("claim", claim);
    expect(again).toEqual({ ...first, again: true });
    expect(await record(first.key)).toEqual(before);
    expect(await ask("claim", { ...LEAD, request: "5f2a7c9e-two" })).toMatchObject({ status: "in_flight" });
    const both: Answer[] = await Promise.all([1, 2, 3].map(() => ask("claim", { ...claim, parts: ["lead-8"] })));
    expect(new Set(both.map(({ token }) => token)).size).toBe(1);
    await ask("settle", { token: first.token, as: "done", result: "m-1" });
    expect(await ask("claim", claim)).toMatchObject({ status: "done", result: "m-1" });
  });

  it("D7: a request is no way around a doubt", async () => {
    const { ask, clock } = start();
    const claim = { ...LEAD, request: "one-call" };
    await ask("claim", claim);
    clock.advance(61_000);
    expect(await ask("claim", claim)).toMatchObject({ status: "unknown" });
  });

  it("D7: with mark manual a client that dies before the send mark leaves no doubt, and after it leaves one", async () => {
    const { ask, clock } = start();
    const claim = { ...LEAD, mark: "manual" };
    const first = await ask("claim", claim);
    expect(first).toMatchObject({ state: "claimed" });
    clock.advance(61_000);
    await expect(ask("sent", { token: first.token })).rejects.toMatchObject(lost);
    const second = await ask("claim", claim);
    expect(second).toMatchObject({ status: "claimed", attempt: 2, state: "claimed" });
    expect(await ask("sent", { token: second.token })).toEqual({ leaseMs: 60_000 });
    expect(await ask("sent", { token: second.token })).toEqual({ leaseMs: 60_000 });
    clock.advance(61_000);
    expect(await ask("claim", claim)).toMatchObject({ status: "unknown" });
  });

  it("D7: reported as unknown before its send mark, an attempt is in doubt all the same", async () => {
    const { ask } = start();
    const { token } = await ask("claim", { ...LEAD, mark: "manual" });
    expect(await ask("settle", { token, as: "unknown" })).toMatchObject({ status: "unknown" });
    expect(await ask("settle", { token, as: "unknown" })).toMatchObject({ status: "unknown" });
  });

  it("D7: resendWithin hands out the first input under the same provider key, and only inside the window", async () => {
    const { ask, clock } = start();
    const claim = { ...LEAD, free: ["body"], doubt: { resendWithin: "1h" } };
    const first = await ask("claim", { ...claim, input: { to: "a", body: "one" } });
    await ask("settle", { token: first.token, as: "unknown" });
    const second = await ask("claim", { ...claim, input: { to: "a", body: "two" } });
    expect(second).toMatchObject({ status: "claimed", resend: true, input: { to: "a", body: "one" }, fence: 2 });
    expect(second.providerKey).toBe(first.providerKey);
    // What the resend did not do says nothing about the first attempt.
    expect(await ask("settle", { token: second.token, as: "refused" })).toMatchObject({ status: "unknown" });
    clock.advance(3_700_000);
    expect(await ask("claim", { ...claim, input: { to: "a", body: "two" } })).toMatchObject({ status: "unknown" });
  });

  it("D7: a service of one tenant knows nothing of another's intents and attempts", async () => {
    const bench = open();
    const acme = operations(bench.store, { tenant: "acme" });
    const other = operations(bench.store, { tenant: "other" });
    const mine = await acme.ask("claim", LEAD);
    const theirs = await other.ask("claim", LEAD);
    expect(theirs.key).not.toBe(mine.key);
    for (const as of ["done", "not-sent"])
      await expect(other.ask("settle", { token: mine.token, as })).rejects.toMatchObject(lost);
    await expect(other.ask("heartbeat", { token: mine.token })).rejects.toMatchObject(lost);
    expect(await other.ask("status", { key: mine.key })).toMatchObject({ status: "absent" });
    const resolution = { key: mine.key, as: "done", by: "eve", reason: "-" };
    await expect(other.ask("resolve", resolution)).rejects.toMatchObject({ code: "INVALID_KEY" });
    const program = bench.another({ tenant: "acme" });
    await acme.ask("settle", { token: mine.token, as: "done", result: "m" });
    expect(await program.once("send", ["lead-7"], async () => "again")).toBe("m");
  });

  it("D7: secret and encrypt are those of the programs on the same ledger", async () => {
    const options = { secret: "a secret of sixteen and more", encrypt: Buffer.alloc(32, 7).toString("base64") };
    const { ask, program, record } = start(options);
    const input = { to: "a@example.com" };
    const claimed = await ask("claim", { ...LEAD, input });
    await ask("settle", { token: claimed.token, as: "done", result: { id: "m-1" } });
    expect(await record(claimed.key)).toMatchObject({
      input: { sealed: expect.any(String) },
      result: { sealed: expect.any(String) },
    });
    const send = program.action("send", { key: () => ["lead-7"], run: async (_: typeof input) => "again" });
    expect(await send(input)).toEqual({ id: "m-1" });
  });

  it("D7: a result that cannot be kept leaves the effect on record", async () => {
    const { ask } = start();
    const { token } = await ask("claim", LEAD);
    const done = await ask("settle", { token, as: "done", result: "x".repeat(1_100_000) });
    expect(done).toMatchObject({ status: "done", resultOmitted: expect.stringContaining("larger than") });
  });

  it("D7: nothing is claimed for a caller that has left, and what it was given is taken back", async () => {
    const { ask, record } = start();
    const left = { gone: () => true, signal: AbortSignal.abort() };
    const { key } = await ask("claim", LEAD, left);
    expect(await record(key)).toMatchObject({ state: "pending", attempt: 0 });
    const { token } = await ask("claim", LEAD);
    const waiting = new AbortController();
    const second = ask(
      "claim",
      { ...LEAD, wait: "20s" },
      { gone: () => waiting.signal.aborted, signal: waiting.signal },
    );
    waiting.abort();
    await ask("settle", { token, as: "not-sent" });
    expect((await second).status).not.toBe("claimed");
    // A caller that named its request may have asked again, and have this very attempt.
    const named = await ask("claim", { ...LEAD, request: "named-1" }, left);
    expect(await record(named.key)).toMatchObject({ state: "sent" });
    expect(await ask("claim", { ...LEAD, request: "named-1" }, STAYS)).toMatchObject({
      status: "claimed",
      again: true,
    });
  });
});

describe("the token of an attempt", () => {
  it.each(["", "nta1_", "nta1_WzFd", "nt1_x", `nta1_${"A".repeat(2_000)}`, "nta1_bnVsbA"])(
    "D7: %s names none, and says what to hand back",
    (token) => {
      expect(() => attemptOf(token)).toThrow(/names no attempt\. Hand back the token of a claim or a take/);
    },
  );
});
