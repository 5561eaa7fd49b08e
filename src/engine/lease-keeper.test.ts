import { describe, expect, it } from "vitest";
import { gate } from "../../test/support/gate.ts";
import { manualClock } from "../../test/support/manual-clock.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import type { Stored } from "../core/store.ts";
import { memoryStore } from "../stores/memory.ts";
import { Events } from "./events.ts";
import { Heart, Pulse } from "./lease-keeper.ts";
import { Ledger } from "./ledger.ts";

const LEASE_MS = 900;

/** One clock for the engine and the store, so that a lease ends when the test says so. */
async function beating(faults: Faults = {}) {
  const clock = manualClock();
  const instant = () => ({ now: clock.monotonic(), steady: clock.monotonic(), epoch: "test" });
  const data = memoryStore({ clock: { instant } });
  const ledger = new Ledger({ store: faulty(data, faults), clock, events: new Events(), random: () => 0 });
  const applied = await ledger.apply(null, {
    type: "claim",
    intent: {
      key: "k",
      tenant: "",
      action: "send",
      version: 1,
      scope: null,
      fingerprint: { guarded: "g", free: null, fields: {} },
      input: null,
      keepMs: null,
    },
    to: "sent",
    holder: "me",
    leaseMs: LEASE_MS,
    newRound: true,
  });
  const missed: { leaseMs: number; silentMs: number }[] = [];
  const heart = new Heart(ledger, clock, (_action, times) => missed.push(times));
  const pulse = new Pulse(heart, {
    leaseMs: LEASE_MS,
    timeoutMs: Number.POSITIVE_INFINITY,
    stored: applied.stored as Stored,
  });
  const until = async () => (await data.read(["k"]))[0]?.record.lease?.until ?? 0;
  return { heart, pulse, clock, data, ledger, until, missed };
}

describe("Pulse", () => {
  it("O9: keeps the lease by a heartbeat every third of it", async () => {
    const { pulse, clock, until } = await beating();
    const first = await until();
    await clock.advance(300);
    expect(await until()).toBe(first + 300);
    await clock.advance(3_000);
    expect((await until()) - clock.monotonic()).toBeGreaterThan(LEASE_MS / 2);
    pulse.end();
  });

  it("O9: heartbeats in time are nothing to report", async () => {
    const { pulse, clock, missed } = await beating();
    const work = gate();
    const ended = pulse.race(work.opened);
    await clock.advance(5_000);
    work.open();
    await ended;
    expect(missed).toEqual([]);
  });

  it("ends without a trace: no further heartbeat, and the timer it shared fires once more at the most", async () => {
    const { pulse, clock, until } = await beating();
    pulse.end();
    const lease = await until();
    const left = clock.timers;
    expect(left).toBeLessThanOrEqual(1);
    await clock.advance(10_000);
    expect(clock.timers).toBe(0);
    expect(await until()).toBe(lease);
  });

  it("those who come one after the other share a timer, and are woken in time all the same", async () => {
    const { pulse, heart, clock } = await beating();
    const { stored } = pulse;
    pulse.end();
    const timers = clock.timers;
    await clock.advance(100);
    new Pulse(heart, { leaseMs: 3_000, timeoutMs: 60_000, stored }).end();
    expect(clock.timers).toBe(timers);
    const hasty = new Pulse(heart, { leaseMs: 3_000, timeoutMs: 150, stored });
    const race = hasty.race(new Promise(() => {}));
    await clock.advance(150);
    expect(await race).toEqual({ kind: "timeout" });
  });

  it("the timeout cuts the work short and aborts the signal, made before or after", async () => {
    const { pulse, clock } = await beating();
    const { signal } = pulse;
    pulse.limit(500);
    const race = pulse.race(new Promise(() => {}));
    await clock.advance(500);
    expect(await race).toEqual({ kind: "timeout" });
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
    const late = await beating();
    late.pulse.limit(100);
    await late.clock.advance(100);
    expect(late.pulse.signal.aborted).toBe(true);
    expect(await late.pulse.race(new Promise(() => {}))).toEqual({ kind: "timeout" });
  });

  it("F19: a heartbeat that is refused aborts the work", async () => {
    const { pulse, clock, data } = await beating();
    const { signal } = pulse;
    const race = pulse.race(new Promise(() => {}));
    const [row] = await data.read(["k"]);
    const taken = { ...(row as Stored).record, fence: 2, holder: "them" };
    await data.write([{ record: taken, expected: (row as Stored).version }]);
    await clock.advance(300);
    expect(await race).toEqual({ kind: "lease-lost" });
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST" });
  });

  it("F19: a store that fails now and then is survived while the lease lasts", async () => {
    const faults: Faults = {};
    const { pulse, clock } = await beating(faults);
    const race = pulse.race(new Promise(() => {}));
    faults.down = true;
    await clock.advance(400);
    faults.down = false;
    await clock.advance(200);
    expect(pulse.signal.aborted).toBe(false);
    faults.down = true;
    await clock.advance(3 * LEASE_MS);
    expect(await race).toEqual({ kind: "lease-lost" });
  });

  it("F19: a store that hangs disables neither the timeout nor the end of the lease", async () => {
    const faults: Faults = {};
    const never = gate();
    for (const [limitMs, end] of [
      [700, "timeout"],
      [100_000, "lease-lost"],
    ] as const) {
      const { pulse, clock } = await beating(faults);
      const race = pulse.race(new Promise(() => {}));
      pulse.limit(limitMs);
      faults.beforeWrite = () => never.opened;
      await clock.advance(2 * LEASE_MS);
      expect(await race).toEqual({ kind: end });
      delete faults.beforeWrite;
    }
  });

  it("the work's own end wins when it comes first, its error too", async () => {
    const { pulse } = await beating();
    expect(await pulse.race(Promise.resolve(7))).toEqual({ kind: "returned", value: 7 });
    const error = new Error("no");
    expect(await pulse.race(Promise.reject(error))).toEqual({ kind: "threw", error });
    pulse.end();
  });

  it("G3: a heartbeat's answer from before the send mark does not undo the mark", async () => {
    const { pulse } = await beating();
    const { stored } = pulse;
    pulse.stored = { record: { ...stored.record, state: "claimed" }, version: stored.version };
    expect(pulse.stored.record.state).toBe("sent");
    pulse.end();
  });

  it("F16: renew is refused once the lease has run out, whoever slept", async () => {
    const { pulse, clock } = await beating();
    pulse.end();
    await clock.advance(LEASE_MS);
    expect(await pulse.renew()).toBe(false);
  });
});
