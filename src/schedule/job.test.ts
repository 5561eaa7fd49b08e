/** Jobs in code: R1 to R4, F39, with the store's clock in the test's hand. */
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import type { JobOptions } from "./job.ts";
import { slotOfInstant, timetable } from "./timetable.ts";

const MINUTE = 60_000;

/** A ledger and a wall clock that stands still until it is moved; many programs may share them. */
function world(iso: string) {
  let now = Date.parse(iso);
  const store = memoryStore({ clock: { instant: () => ({ now, steady: performance.now(), epoch: "test" }) } });
  onTestFinished(() => store.close());
  // Each program closes its own store; the ledger behind them stays.
  const shared = new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const ran: string[] = [];
  const host = (name: string, options: Partial<JobOptions<unknown, unknown>> = {}) => {
    const nt = nevertwice({ store: shared, sweep: false });
    onTestFinished(() => nt.close());
    return nt.job<unknown, unknown>("digest", {
      every: "5m",
      run: ({ slot }) => void ran.push(`${name} ${slot}`),
      ...options,
    });
  };
  return {
    ran,
    host,
    store,
    to: (at: string) => {
      now = Date.parse(at);
    },
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe("R1, F39: one run per scheduled instant", () => {
  it("two hosts, one run per slot; whoever comes second is told", async () => {
    const { host, ran, pass } = world("2026-01-15T06:00:30Z");
    const [a, b] = [host("a"), host("b")];
    expect([await a.tick(), await b.tick()]).toEqual([[], []]);
    for (let slot = 0; slot < 3; slot += 1) {
      pass(5 * MINUTE);
      const [first, second] = await Promise.all([a.tick(), b.tick()]);
      const outcomes = [...first, ...second].map(({ outcome }) => outcome);
      // One ran it; the other found it running, or done by then.
      expect(outcomes.filter((outcome) => outcome.status === "done" && !outcome.replayed).length).toBe(1);
      expect(outcomes.every(({ status }) => status === "done" || status === "in_flight")).toBe(true);
    }
    expect(ran.map((line) => line.split(" ")[1])).toEqual([
      "2026-01-15T06:05Z/slot",
      "2026-01-15T06:10Z/slot",
      "2026-01-15T06:15Z/slot",
    ]);
  });

  it("a host whose clock is ten minutes behind finds the slots done", async () => {
    const ahead = world("2026-01-15T06:11:00Z");
    const fast = ahead.host("fast", { catchUp: { all: 10 } });
    await fast.tick();
    ahead.to("2026-01-15T06:21:00Z");
    await fast.tick();
    const done = [...ahead.ran];
    expect(done).toEqual(["fast 2026-01-15T06:15Z/slot", "fast 2026-01-15T06:20Z/slot"]);
    ahead.to("2026-01-15T06:16:00Z");
    const slow = ahead.host("slow", { catchUp: { all: 10 } });
    expect((await slow.tick()).map(({ slot, outcome }) => [slot, outcome.status])).toEqual([
      ["2026-01-15T06:15Z/slot", "done"],
    ]);
    ahead.to("2026-01-15T06:26:00Z");
    await slow.tick();
    expect(ahead.ran).toEqual([...done, "slow 2026-01-15T06:25Z/slot"]);
  });

  it("a wall clock that was set back runs nothing twice", async () => {
    const { host, ran, to } = world("2026-01-15T06:00:30Z");
    const job = host("a");
    await job.tick();
    for (const at of ["2026-01-15T06:10:10Z", "2026-01-15T06:05:10Z", "2026-01-15T06:10:20Z", "2026-01-15T06:15:00Z"]) {
      to(at);
      await job.tick();
    }
    expect(ran).toEqual(["a 2026-01-15T06:10Z/slot", "a 2026-01-15T06:15Z/slot"]);
  });

  it("R4: a run that takes longer than its schedule: the slots queue up, and each is run once", async () => {
    const { host, ran, pass } = world("2026-01-15T06:00:30Z");
    let release = () => {};
    const gate = new Promise<void>((open) => {
      release = open;
    });
    const run = async ({ slot }: { slot: string }) => {
      ran.push(slot);
      if (ran.length === 1) await gate;
    };
    const [a, b] = [host("a", { run, catchUp: { all: 5 } }), host("b", { run, catchUp: { all: 5 } })];
    await Promise.all([a.tick(), b.tick()]);
    pass(5 * MINUTE);
    const slow = a.tick();
    await new Promise((done) => setTimeout(done, 20));
    pass(2 * MINUTE);
    // The same host's next tick waits for its turn; another host goes on.
    const later = a.tick();
    pass(5 * MINUTE);
    const meanwhile = await b.tick();
    expect(meanwhile.map(({ outcome }) => outcome.status)).toEqual(["in_flight", "done"]);
    release();
    await Promise.all([slow, later, a.tick()]);
    expect(ran).toEqual(["2026-01-15T06:05Z/slot", "2026-01-15T06:10Z/slot"]);
  });
});

describe("catching up", () => {
  const missed = async (catchUp: JobOptions<unknown>["catchUp"]) => {
    const { host, ran, to } = world("2026-01-15T06:01:00Z");
    const options = { ...(catchUp !== undefined && { catchUp }) };
    const job = host("a", options);
    await job.tick();
    to("2026-01-15T06:23:00Z");
    await job.tick();
    // And a program that was started only then.
    await host("b", options).tick();
    return ran.map((line) => line.slice(13));
  };

  it("last, unless told otherwise: the last instant that passed", async () => {
    expect(await missed(undefined)).toEqual(["06:20Z/slot"]);
  });

  it("all, up to n, the oldest first", async () => {
    expect(await missed({ all: 3 })).toEqual(["06:10Z/slot", "06:15Z/slot", "06:20Z/slot"]);
    expect(await missed({ all: 99 })).toEqual(["06:05Z/slot", "06:10Z/slot", "06:15Z/slot", "06:20Z/slot"]);
  });

  it("none: what was missed is missed, what is a little late is not", async () => {
    expect(await missed("none")).toEqual([]);
    const { host, ran, to } = world("2026-01-15T06:01:00Z");
    const job = host("a", { catchUp: "none" });
    await job.tick();
    to("2026-01-15T06:05:40Z");
    await job.tick();
    expect(ran).toEqual(["a 2026-01-15T06:05Z/slot"]);
  });

  it("a job that nobody has seen before does not begin with the past", async () => {
    const { host, ran } = world("2026-01-15T06:02:00Z");
    await host("a", { catchUp: { all: 100 } }).tick();
    expect(ran).toEqual([]);
  });
});

describe("R2: failures", () => {
  it("a store that fails in the middle of a tick loses no slot", async () => {
    const { host, ran, pass, store } = world("2026-01-15T06:04:00Z");
    const job = host("a", { catchUp: { all: 5 } });
    await job.tick();
    pass(15 * MINUTE);
    const write = store.write.bind(store);
    let down = true;
    store.write = async (puts) => {
      if (down) throw new Error("the store is down");
      return write(puts);
    };
    await expect(job.tick()).rejects.toThrow(/did not answer/);
    down = false;
    pass(50_000);
    await job.tick();
    expect(ran.length).toBe(3);
  });

  it("a failed slot is tried again when it is due, as often as retry.attempts says, and then left", async () => {
    const { host, pass } = world("2026-01-15T06:04:00Z");
    let tries = 0;
    const run = () => {
      tries += 1;
      throw Object.assign(new Error("refused"), { code: "ECONNREFUSED", syscall: "connect" });
    };
    const job = host("a", { run, every: "1h", catchUp: "last", retry: { attempts: 3, backoff: "1s", max: "2s" } });
    await job.tick();
    pass(60 * MINUTE);
    for (let tick = 0; tick < 8; tick += 1) {
      await job.tick();
      pass(5_000);
    }
    expect(tries).toBe(3);
  });

  it("R9: with doubt: hold a failed run waits for a person, and the next slots go on", async () => {
    const { host, pass, ran } = world("2026-01-15T06:04:00Z");
    let first = true;
    const job = host("a", {
      doubt: "hold",
      run: ({ slot }) => {
        ran.push(slot);
        if (first) {
          first = false;
          throw new Error("no idea what happened");
        }
      },
    });
    await job.tick();
    pass(5 * MINUTE);
    expect((await job.tick())[0]?.outcome.status).toBe("unknown");
    pass(5 * MINUTE);
    expect((await job.tick())[0]?.outcome.status).toBe("done");
    expect(ran).toEqual(["2026-01-15T06:05Z/slot", "2026-01-15T06:10Z/slot"]);
    expect(await job.statusAt(Date.parse("2026-01-15T06:05:00Z"))).toMatchObject({ status: "unknown" });
  });
});

describe("R3: plans", () => {
  it("a second run of a slot gets the plan of the first, whatever has happened since", async () => {
    const { host, pass } = world("2026-01-15T06:04:00Z");
    const plans: unknown[] = [];
    let drawn = 0;
    let fail = true;
    const options: Partial<JobOptions<unknown, unknown>> = {
      doubt: "retry",
      plan: ({ seed }) => {
        drawn += 1;
        return { topic: seed.pick(["a", "b", "c", "d"]), drawn };
      },
      run: ({ plan }) => {
        plans.push(plan);
        if (fail) throw Object.assign(new Error("refused"), { code: "ECONNREFUSED", syscall: "connect" });
        return {};
      },
    };
    const [a, b] = [host("a", options), host("b", options)];
    await Promise.all([a.tick(), b.tick()]);
    pass(5 * MINUTE);
    await a.tick();
    fail = false;
    pass(5_000);
    await b.tick();
    expect(plans.length).toBe(2);
    expect(plans[1]).toEqual(plans[0]);
    expect(drawn).toBe(1);
  });

  it("exclusions come from the ledger: one field of the last results, the newest first", async () => {
    const { host, pass } = world("2026-01-15T06:04:00Z");
    const seen: unknown[] = [];
    let n = 0;
    const job = host("a", {
      plan: async ({ recent }) => seen.push(await recent(2, "slug")),
      run: () => ({ slug: `post-${++n}`, words: 900 }),
    });
    await job.tick();
    for (let slot = 0; slot < 4; slot += 1) {
      pass(5 * MINUTE);
      await job.tick();
    }
    expect(seen).toEqual([[], ["post-1"], ["post-2", "post-1"], ["post-3", "post-2"]]);
    expect(await job.recent(10, "words")).toEqual([900, 900, 900, 900]);
    for (const field of [undefined, "", 3] as never[])
      await expect(job.recent(5, field)).rejects.toThrow(/recent: field is .*recent\(5, "slug"\)/);
  });
});

describe("F39: daylight saving", () => {
  const between = (cron: string, from: string, to: string) => {
    const times = timetable({ cron, tz: "Europe/Berlin" }, "test");
    const found: string[] = [];
    for (let at = times.next(Date.parse(from)); at !== null && at <= Date.parse(to); at = times.next(at)) {
      found.push(slotOfInstant(at));
      expect(times.upTo(at, 1)).toEqual([at]);
      expect(times.upTo(at + 30_000, 1)).toEqual([at]);
    }
    return found;
  };

  it("an hour that is skipped: a daily job runs once that day, at the first moment after the gap", () => {
    expect(between("30 2 * * *", "2026-03-28T12:00Z", "2026-03-30T12:00Z")).toEqual([
      "2026-03-29T01:00Z/slot",
      "2026-03-30T00:30Z/slot",
    ]);
  });

  it("an hour that comes twice: a daily job runs once, a job of every half hour runs in both", () => {
    expect(between("30 2 * * *", "2026-10-24T12:00Z", "2026-10-26T12:00Z")).toEqual([
      "2026-10-25T00:30Z/slot",
      "2026-10-26T01:30Z/slot",
    ]);
    expect(between("*/30 * * * *", "2026-10-24T23:59Z", "2026-10-25T02:00Z")).toEqual([
      "2026-10-25T00:00Z/slot",
      "2026-10-25T00:30Z/slot",
      "2026-10-25T01:00Z/slot",
      "2026-10-25T01:30Z/slot",
      "2026-10-25T02:00Z/slot",
    ]);
  });

  it("six in the morning stays six in the morning, both ways", () => {
    expect(between("0 6 * * *", "2026-03-28T12:00Z", "2026-03-29T12:00Z")).toEqual(["2026-03-29T04:00Z/slot"]);
    expect(between("0 6 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z")).toEqual(["2026-10-25T05:00Z/slot"]);
  });
});

describe("what is wrong is said", () => {
  const make = (options: object) => () => world("2026-01-15T06:00Z").host("a", options as never);

  it.each([
    [{ every: undefined }, /give either cron \("0 6 \* \* \*"\) or every \("5m"\)/],
    [{ every: undefined, cron: "0 6 * *" }, /"0 6 \* \*" in the zone "UTC" is not a schedule/],
    [{ every: undefined, cron: "0 6 * * *", tz: "Nowhere" }, /zone "Nowhere" is not a schedule.*Europe\/Berlin/],
    [{ every: undefined, cron: "0 25 * * *" }, /Invalid value for hour: 25\. An expression has five fields/],
    [{ every: undefined, cron: "0 0 30 2 *" }, /"0 0 30 2 \*" is never due: there is no such day in any year/],
    [{ tz: "Europe/Berlin" }, /tz belongs to cron; every is counted in UTC/],
    [{ every: "1ms" }, /every must be at least 100ms/],
    [{ catchUp: { all: 0 } }, /catchUp is \{"all":0\}; it takes "none", "last" or \{ all: n \}/],
    [{ run: undefined }, /run is missing/],
    [{ wait: "1s" }, /there is no option "wait"/],
  ])("%j", (options, message) => {
    expect(make(options)).toThrow(message);
  });

  it("an instant that is not on the schedule names no slot", async () => {
    const job = world("2026-01-15T06:00Z").host("a");
    expect(() => job.runAt(Date.parse("2026-01-15T06:02:00Z"))).toThrow(
      /is not one of its scheduled instants; the one before it is 2026-01-15T06:00:00.000Z/,
    );
  });

  it.each([
    ["a Date", new Date("2026-01-15T06:00:00Z")],
    ["epoch milliseconds", Date.parse("2026-01-15T06:00:00Z")],
    ["ISO text with Z", "2026-01-15T06:00:00Z"],
    ["ISO text with an offset", "2026-01-15T07:00+01:00"],
  ])("a scheduled instant may be given as %s", async (_, at) => {
    const { host, ran } = world("2026-01-15T06:00Z");
    const job = host("a");
    expect(await job.statusAt(at)).toMatchObject({ status: "absent" });
    expect(await job.runAt(at)).toMatchObject({ status: "done", replayed: false });
    expect(await job.statusAt(at)).toMatchObject({ status: "done" });
    expect(ran).toEqual(["a 2026-01-15T06:00Z/slot"]);
  });

  it.each([
    ["a text without an offset", "2026-01-15T06:00:00", /the text has no offset.*write 2026-01-15T06:00:00Z/],
    ["a date", "2026-01-15", /the text has no offset.*write 2026-01-15T00:00:00Z/],
    ["digits in a text", "1768456800000", /the text is not an ISO date-time/],
    ["seconds", 1_768_456_800, /the number looks like seconds/],
    ["nothing", undefined, /no instant was given/],
    ["null", null, /this is not a valid instant/],
    ["true", true, /this is not a valid instant/],
    ["an invalid Date", new Date("no"), /this is not a valid instant/],
  ])("%s names no scheduled instant, and the error says what to pass", (_, at, message) => {
    const job = world("2026-01-15T06:00Z").host("a");
    for (const [method, call] of [
      ["runAt", () => job.runAt(at as Date)],
      ["statusAt", () => job.statusAt(at as Date)],
    ] as const) {
      expect(call).toThrow(message);
      expect(call).toThrow(`job "digest": ${method}: `);
      expect(call).toThrow(/Pass the scheduled instant: a Date, epoch milliseconds, or an ISO date-time with Z/);
    }
  });
});

it("start() runs what comes due, stop() waits for the run under way, close() stops all", async () => {
  const nt = nevertwice({ store: "memory:", sweep: false });
  const slots: string[] = [];
  const job = nt.job("beat", { every: "100ms", run: ({ slot }) => void slots.push(slot) });
  job.start();
  while (slots.length < 3) await new Promise((done) => setTimeout(done, 10));
  await nt.close();
  const count = slots.length;
  await new Promise((done) => setTimeout(done, 250));
  expect(slots.length).toBe(count);
  expect(new Set(slots).size).toBe(count);
});
