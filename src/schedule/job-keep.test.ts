/** O8: a job's slots are known for as long as they can be asked for, and nothing behind that is run. */
import { describe, expect, it, onTestFinished } from "vitest";
import { notSent, rejected } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import type { JobOptions } from "./job.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function world(iso: string) {
  let now = Date.parse(iso);
  const store = memoryStore({ clock: { instant: () => ({ now, steady: now, epoch: "test" }) } });
  onTestFinished(() => store.close());
  const shared = new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const ran: string[] = [];
  const warnings: string[] = [];
  /** A program that is started anew. */
  const host = (options: Partial<JobOptions<unknown, unknown>>) => {
    const onWarning = ({ message }: { message: string }) => void warnings.push(message);
    const nt = nevertwice({ store: shared, sweep: false, onWarning });
    onTestFinished(() => nt.close());
    const job = nt.job<unknown, unknown>("digest", { run: ({ slot }) => void ran.push(slot), ...options });
    return Object.assign(job, { nt, sweep: () => nt.sweep() });
  };
  const twice = () => ran.filter((slot, index) => ran.indexOf(slot) !== index);
  return {
    store,
    host,
    ran,
    twice,
    warnings,
    now: () => now,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe("O8: slots longer than the default keep", () => {
  it.each([
    ["0 0 1 * *", 12],
    ["0 0 1 */3 *", 4],
    ["0 0 1 1 *", 1],
  ])("%s: one run per slot in a year of daily restarts", async (cron, runs) => {
    const { host, ran, twice, pass } = world("2025-12-31T12:00:00Z");
    for (let days = 0; days < 365; days += 1) {
      const job = host({ cron });
      await job.tick();
      await job.sweep();
      await job.stop();
      pass(DAY);
    }
    expect(twice()).toEqual([]);
    expect(ran).toHaveLength(runs);
  });

  it("the plan of a slot is kept as long as the slot", async () => {
    const { host, store, pass } = world("2025-12-31T12:00:00Z");
    const job = host({ cron: "0 0 1 */3 *", plan: () => ({ topic: "a" }) });
    await job.tick();
    pass(DAY);
    await job.tick();
    const { items } = await store.list({ limit: 10 });
    const kept = items.filter(({ record }) => /^job(-plan)?:/.test(record.action)).map(({ record }) => record.keepMs);
    expect(kept).toEqual([184 * DAY, 184 * DAY]);
  });

  it("a keep that is shorter than two gaps is refused, with the one to give", () => {
    const { host } = world("2026-01-01T00:00:00Z");
    expect(() => host({ cron: "0 0 1 * *", keep: "30d" })).toThrow(
      /job "digest": keep is 30d, and there may be 31d from one of its slots to the next: .*Give keep 62d or more, or "forever"/,
    );
    expect(() => host({ every: "12h", keep: "1d" })).not.toThrow();
    expect(() => host({ every: "12h", keep: "23h" })).toThrow(/Give keep 1d or more/);
    expect(() => host({ cron: "0 0 29 2 *", keep: "forever" })).not.toThrow();
  });
});

describe("O8: catching up never asks for what the ledger has forgotten", () => {
  const hourly = { every: "1h", catchUp: { all: 1_000 } } as const;
  const runFor = async ({ host, pass }: ReturnType<typeof world>, days: number, options: object) => {
    const job = host({ ...hourly, ...options });
    for (let hours = 0; hours < 24 * days; hours += 1) {
      await job.tick();
      if (hours % 24 === 0) await job.sweep();
      pass(HOUR);
    }
    await job.stop();
  };

  it("an hourly job with 45 days behind it runs no finished slot again", async () => {
    const there = world("2026-01-01T00:30:00Z");
    await runFor(there, 45, {});
    await there.host({ ...hourly }).tick();
    expect(there.twice()).toEqual([]);
    expect(there.warnings).toEqual([]);
  });

  it("nor with a keep given by hand that does not reach so far; what is left out is said", async () => {
    const there = world("2026-01-01T00:30:00Z");
    await runFor(there, 4, { keep: "2d" });
    await there.host({ ...hourly, keep: "2d" }).tick();
    expect(there.twice()).toEqual([]);
    expect(there.warnings).toMatchObject([
      expect.stringMatching(
        /job "digest": \d+ slots from 2026-01-01T01:00:00.000Z to .* were not caught up with: .*keep is 2d/,
      ),
    ]);
  });

  it("after an outage it runs what was missed and is surely not done, and leaves the rest", async () => {
    const there = world("2026-01-01T00:30:00Z");
    await runFor(there, 1, { keep: "2d" });
    there.pass(4 * DAY);
    const before = there.ran.length;
    await there.host({ ...hourly, keep: "2d" }).tick();
    expect(there.twice()).toEqual([]);
    expect(there.ran.length - before).toBe(47);
  });

  it("a release with a longer keep knows no more of the past than the one before it", async () => {
    const there = world("2026-01-01T00:30:00Z");
    await runFor(there, 5, { keep: "2d" });
    await there.host({ ...hourly, keep: "90d" }).tick();
    await there.host({ ...hourly, keep: "forever" }).tick();
    await there.host({ ...hourly, keep: "2d" }).tick();
    await there.host({ ...hourly }).tick();
    expect(there.twice()).toEqual([]);
    const old = there.host({ ...hourly, keep: "forever" }).runAt(Date.parse("2026-01-01T02:00:00Z"));
    await expect(old).rejects.toThrow(/older than what the ledger still knows/);
  });

  it("slots that a release without this note kept for 30 days are not asked for behind that", async () => {
    const there = world("2026-03-31T12:00:00Z");
    const quarterly = { cron: "0 0 1 */3 *" };
    await there.host(quarterly).tick();
    there.pass(DAY);
    await there.host(quarterly).tick();
    // As such a release left it: no note, and the slot with 30 days to go.
    const { items } = await there.store.list({ limit: 10 });
    for (const { record, version } of items) {
      const left = record.action === "nevertwice.job" ? 1 : 30 * DAY;
      if (record.action.startsWith("job-since:")) continue;
      await there.store.write([{ record: { ...record, expiresAt: there.now() + left }, expected: version }]);
    }
    there.pass(45 * DAY);
    await there.store.sweep({ limit: 100 });
    await there.host(quarterly).tick();
    expect(there.ran).toEqual(["2026-04-01T00:00Z/slot"]);
    expect(there.warnings).toMatchObject([
      expect.stringMatching(/the slot 2026-04-01T00:00:00.000Z was not caught up with/),
    ]);
  });
});

describe("O8: a slot by name", () => {
  const monthly = { cron: "0 0 1 * *" };

  it("behind what the ledger knows it is refused, unless its record is there", async () => {
    const { host, ran, pass } = world("2026-01-01T00:00:00Z");
    const job = host(monthly);
    await job.runAt(Date.parse("2026-01-01T00:00:00Z"));
    pass(61 * DAY);
    expect(await job.runAt(Date.parse("2026-01-01T00:00:00Z"))).toMatchObject({ status: "done", replayed: true });
    pass(10 * DAY);
    await expect(job.runAt(Date.parse("2026-01-01T00:00:00Z"))).rejects.toThrow(
      /2026-01-01T00:00Z\/slot is older than what the ledger still knows \(keep is 62d\).*Nothing was run.*keep: "forever"/,
    );
    expect(ran).toHaveLength(1);
  });

  it("keep forever lifts that", async () => {
    const { host, ran } = world("2026-01-01T00:00:00Z");
    const job = host({ ...monthly, keep: "forever" });
    await job.runAt(Date.parse("2020-01-01T00:00:00Z"));
    expect(ran).toEqual(["2020-01-01T00:00Z/slot"]);
  });

  it("run ahead of its instant it is still known when the instant comes, and for as long as any other", async () => {
    const { host, ran, pass } = world("2026-01-01T12:00:00Z");
    const job = host(monthly);
    await job.tick();
    await job.runAt(Date.parse("2026-09-01T00:00:00Z"));
    for (let days = 0; days < 300; days += 5) {
      await job.tick();
      await job.sweep();
      pass(5 * DAY);
    }
    expect(ran.filter((slot) => slot === "2026-09-01T00:00Z/slot")).toHaveLength(1);
  });
});

describe("a release that keeps slots for longer", () => {
  const daily = { every: "1d" } as const;
  const tickDaily = async (there: ReturnType<typeof world>, days: number, job: () => ReturnType<typeof there.host>) => {
    for (let day = 0; day < days; day += 1) {
      await job().tick();
      await job().sweep();
      there.pass(DAY);
    }
  };

  it.each([
    ["a process that goes on", false],
    ["a process that is started every day", true],
  ])("runs no slot again that was done before it: %s", async (_, restarted) => {
    const there = world("2026-01-01T01:00:00Z");
    const v1 = there.host(daily);
    await tickDaily(there, 40, () => v1);
    const release = () => there.host({ ...daily, catchUp: { all: 100 } });
    const v2 = release();
    await tickDaily(there, 150, () => (restarted ? release() : v2));
    expect(there.twice()).toEqual([]);
    expect(there.ran).toHaveLength(189);
  });

  it("refuses by name what was done before it, once its record is gone, and replays it until then", async () => {
    const there = world("2026-01-01T01:00:00Z");
    const v1 = there.host(daily);
    await tickDaily(there, 40, () => v1);
    const v2 = there.host({ ...daily, keep: "200d" });
    const slot = Date.parse("2026-02-05T00:00:00Z");
    expect(await v2.runAt(slot)).toMatchObject({ status: "done", replayed: true });
    there.pass(60 * DAY);
    await there.store.sweep({ limit: 1_000 });
    await expect(v2.runAt(slot)).rejects.toThrow(/older than what the ledger still knows/);
    // What was missed after the change is known not to be done.
    await v2.runAt(Date.parse("2026-02-20T00:00:00Z"));
    expect(there.twice()).toEqual([]);
    expect(there.ran.at(-1)).toBe("2026-02-20T00:00Z/slot");
  });

  it("a daily job that becomes a monthly one does not run the first of the month again", async () => {
    const there = world("2025-12-20T00:10:00Z");
    const v1 = there.host({ cron: "0 0 * * *" });
    await tickDaily(there, 16, () => v1);
    await tickDaily(there, 100, () => there.host({ cron: "0 0 1 * *" }));
    expect(there.twice()).toEqual([]);
    expect(there.ran.slice(-3)).toEqual(["2026-02-01T00:00Z/slot", "2026-03-01T00:00Z/slot", "2026-04-01T00:00Z/slot"]);
  });

  it.each([
    ["that goes on", false],
    ["that is started every day", true],
  ])("beside a release with a shorter keep %s no slot of either is run again", async (_, restarted) => {
    const there = world("2026-01-01T01:00:00Z");
    const v1 = there.host(daily);
    await tickDaily(there, 40, () => v1);
    const release = () => there.host({ ...daily, catchUp: { all: 100 } });
    const v2 = release();
    const long = () => (restarted ? release() : v2);
    for (let half = 0; half < 12; half += 1) {
      await (half % 4 === 0 ? long() : v1).tick();
      there.pass(DAY / 2);
      await v1.tick();
    }
    await tickDaily(there, 150, long);
    expect(there.twice()).toEqual([]);
  });

  it("after a slot that the shorter keep ran ahead of its instant, it does not run that slot again", async () => {
    const there = world("2026-01-01T01:00:00Z");
    const ahead = Date.parse("2026-01-20T00:00:00Z");
    await there.host({ ...daily, keep: "2d" }).runAt(ahead);
    const v2 = there.host({ ...daily, keep: "90d", catchUp: { all: 80 } });
    await tickDaily(there, 40, () => v2);
    await expect(v2.runAt(ahead)).rejects.toThrow(/older than what the ledger still knows/);
    expect(there.twice()).toEqual([]);
  });

  it("reads the note as it was first written", async () => {
    const there = world("2026-01-01T01:00:00Z");
    const v1 = there.host({ ...daily, keep: "2d" });
    await tickDaily(there, 10, () => v1);
    const { items } = await there.store.list({ limit: 1, action: "nevertwice.job" });
    const { record, version } = items[0] as (typeof items)[number];
    const from = there.now() - 2 * DAY;
    const written = { ...record, result: { json: JSON.stringify({ keepMs: 90 * DAY, from }) }, updatedAt: there.now() };
    await there.store.write([{ record: written, expected: version }]);
    there.pass(3 * DAY);
    await there.store.sweep({ limit: 1_000 });
    const v2 = there.host({ ...daily, keep: "90d", catchUp: { all: 80 } });
    await v2.tick();
    expect(there.twice()).toEqual([]);
    expect(there.ran.slice(-3)).toEqual(["2026-01-12T00:00Z/slot", "2026-01-13T00:00Z/slot", "2026-01-14T00:00Z/slot"]);
  });

  it("where a release without the note kept slots for less than is given now, its records say so", async () => {
    const there = world("2026-01-01T01:00:00Z");
    const v1 = there.host({ ...daily, keep: "5d" });
    await tickDaily(there, 20, () => v1);
    const { items } = await there.store.list({ limit: 1, action: "nevertwice.job" });
    const { record, version } = items[0] as (typeof items)[number];
    await there.store.write([{ record: { ...record, expiresAt: there.now() - 1 }, expected: version }]);
    await tickDaily(there, 60, () => there.host({ ...daily, keep: "90d", catchUp: { all: 80 } }));
    expect(there.twice()).toEqual([]);
  });
});

describe("the plan of a slot that is not done", () => {
  const slot = Date.parse("2026-01-01T00:00:00Z");
  const settle = { by: "kim", reason: "not on the site" };

  function planned(failure: unknown, doubt?: "hold") {
    const there = world("2026-01-01T01:00:00Z");
    const seen: unknown[] = [];
    let plans = 0;
    const job = there.host({
      every: "1d",
      retry: { attempts: 1 },
      ...(doubt !== undefined && { doubt }),
      plan: () => ({ topic: ++plans }),
      run: ({ plan }) => {
        seen.push(plan);
        if (seen.length === 1) throw failure;
      },
    });
    const later = async (days: number) => {
      there.pass(days * DAY);
      await there.store.sweep({ limit: 1_000 });
    };
    const planRecord = async () => {
      const { items } = await there.store.list({ limit: 9, action: "job-plan:digest" });
      return items[0];
    };
    return { ...there, job, seen, later, planRecord, plans: () => plans };
  }

  it("in doubt, and settled as not done after months, it is run with the same plan", async () => {
    const { job, seen, later, planRecord, plans } = planned(new Error("socket hang up"), "hold");
    const { key } = await job.runAt(slot);
    await later(400);
    await job.nt.resolve({ key }, { as: "not-done", ...settle });
    await later(400);
    expect(await job.runAt(slot)).toMatchObject({ status: "done" });
    expect(seen).toEqual([{ topic: 1 }, { topic: 1 }]);
    expect(plans()).toBe(1);
    expect((await planRecord())?.record.keepMs).toBe(30 * DAY);
    await later(31);
    expect(await planRecord()).toBeUndefined();
  });

  it.each([
    ["failed", () => notSent(new Error("not today"))],
    ["refused for good", () => rejected(new Error("no"))],
  ])("%s, and retried by a person, it is run with the same plan however long that takes", async (_, failure) => {
    const { job, seen, later, plans } = planned(failure());
    const { key } = await job.runAt(slot);
    await later(29);
    await job.nt.retry({ key }, settle);
    await later(100);
    expect(await job.runAt(slot)).toMatchObject({ status: "done" });
    expect(seen).toEqual([{ topic: 1 }, { topic: 1 }]);
    expect(plans()).toBe(1);
  });

  it("settled as done by a person, it gets its end when the slot is next asked for", async () => {
    const { job, planRecord, now } = planned(new Error("socket hang up"), "hold");
    const { key } = await job.runAt(slot);
    await job.nt.resolve({ key }, { as: "done", ...settle });
    expect((await planRecord())?.record.expiresAt).toBeNull();
    expect(await job.runAt(slot)).toMatchObject({ status: "done", replayed: true });
    expect((await planRecord())?.record.expiresAt).toBe(now() + 30 * DAY);
  });

  it("made by a release that gave it an end, it loses that end when the slot is run again", async () => {
    const there = planned(new Error("socket hang up"), "hold");
    const { key } = await there.job.runAt(slot);
    const { record, version } = (await there.planRecord()) as NonNullable<Awaited<ReturnType<typeof there.planRecord>>>;
    const ending = { ...record, keepMs: 30 * DAY, expiresAt: there.now() + 30 * DAY };
    await there.store.write([{ record: ending, expected: version }]);
    await there.job.nt.resolve({ key }, { as: "not-done", ...settle });
    there.seen.length = 0;
    await there.job.runAt(slot);
    expect((await there.planRecord())?.record.expiresAt).toBeNull();
  });
});
