/**
 * O8: a year of time for every kind of slot and window. Everything is asked for far more often than it is due, the program is
 * started anew every day, the ledger is swept every hour: one effect per slot, in seven zones with their shifts.
 */
import { join } from "node:path";
import {
  billingPeriod,
  day,
  type Instant,
  type JobOptions,
  month,
  type Nevertwice,
  nevertwice,
  quarter,
  type Store,
  week,
  windowOf,
  year,
} from "nevertwice";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommandJob } from "../src/schedule/command/job.ts";
import { slotOf } from "../src/schedule/slot.ts";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const FROM = Date.UTC(2026, 0, 1);
const TO = Date.UTC(2027, 0, 1);

const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Australia/Lord_Howe",
  "Antarctica/Troll",
  "Asia/Kathmandu",
  "America/Havana",
];

type Window = (at: number, zone: { timeZone: string }) => string;
const WINDOWS: Readonly<Record<string, Window>> = {
  fiveMinutes: (at, zone) => windowOf("5m", at, zone),
  hour: (at, zone) => windowOf("1h", at, zone),
  twoHours: (at, zone) => windowOf("2h", at, zone),
  day,
  week,
  month,
  quarter,
  year,
  billing: (at, zone) => billingPeriod(at, { anchorDay: 31, ...zone }),
};
const LONG = ["day", "week", "month", "quarter", "year", "billing"];

class Year {
  now = FROM;
  readonly clock = { instant: (): Instant => ({ now: this.now, steady: this.now, epoch: "test" }) };
  /** What happened, by the name of its slot. */
  readonly effects: string[] = [];
  /** What was asked for. */
  readonly asked = new Set<string>();
  nt!: Nevertwice;
  readonly #connect: (clock: Year["clock"]) => Store;

  constructor(connect: (clock: Year["clock"]) => Store) {
    this.#connect = connect;
    onTestFinished(() => this.nt.close());
  }

  /** The program ends and begins. */
  async restart(): Promise<void> {
    await this.nt?.close();
    this.nt = nevertwice({ store: this.#connect(this.clock), sweep: false, onWarning: () => {} });
  }

  /** One action for each kind of window. */
  actions(kinds: readonly string[], timeZone: string): (at: number) => Promise<unknown> {
    const callers = kinds.map((kind) => {
      const named = (at: number) => `${kind} ${(WINDOWS[kind] as Window)(at, { timeZone })}`;
      const action = this.nt.action(kind, {
        key: ({ slot }: { slot: string }) => ["acme", slot.slice(kind.length + 1)],
        run: async ({ slot }) => void this.effects.push(slot),
      });
      return (at: number) => {
        const slot = named(at);
        this.asked.add(slot);
        return action({ slot });
      };
    });
    return (at) => Promise.all(callers.map((call) => call(at)));
  }

  once(): void {
    const seen = new Set<string>();
    expect(this.effects.filter((slot) => seen.size === seen.add(slot).size)).toEqual([]);
    expect(this.effects.length).toBe(this.asked.size);
  }

  count(kind: string): number {
    return this.effects.filter((slot) => slot.startsWith(`${kind} `)).length;
  }
}

/** The ledger outlives the programs on it. */
function inMemory(): (clock: Year["clock"]) => Store {
  let store: Store | null = null;
  return (clock) => {
    store ??= memoryStore({ clock });
    return new Proxy(store, {
      get: (target, name) => {
        if (name === "close") return async () => {};
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
}

// A busy machine takes several times as long as a quiet one.
const PATIENT = { timeout: 300_000 };

describe("a year of windows in the keys of actions (memory)", PATIENT, () => {
  it.each(ZONES)("%s", async (timeZone) => {
    const there = new Year(inMemory());
    let call: (at: number) => Promise<unknown> = async () => {};
    for (; there.now < TO; there.now += HOUR) {
      if (there.now % DAY === 0) {
        await there.restart();
        call = there.actions(LONG, timeZone);
      }
      if (there.now % (6 * HOUR) === 0) await call(there.now);
      await there.nt.store.sweep({ limit: 1_000 });
      if (there.now % (7 * DAY) === 0) await there.nt.sweep();
    }
    there.once();
    expect(there.count("month")).toBeGreaterThanOrEqual(12);
    expect(there.count("month")).toBeLessThanOrEqual(13);
    expect(there.count("quarter")).toBeLessThanOrEqual(5);
    expect(there.count("year")).toBeLessThanOrEqual(2);
  });

  const SHIFTS = ["2026-03-08", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-25", "2026-11-01"];
  it("hours, all of them, where the clock is changed by two", async () => {
    const there = new Year(inMemory());
    let call: (at: number) => Promise<unknown> = async () => {};
    for (; there.now < TO; there.now += 30 * MINUTE) {
      if (there.now % DAY === 0) {
        await there.restart();
        call = there.actions(["hour", "twoHours"], "Antarctica/Troll");
        await there.nt.store.sweep({ limit: 1_000 });
      }
      await call(there.now);
    }
    there.once();
    expect(there.count("hour")).toBe((TO - FROM) / HOUR);
  });

  it.each(ZONES)("five minutes and hours, around every shift: %s", async (timeZone) => {
    const there = new Year(inMemory());
    for (const shift of SHIFTS) {
      there.now = Date.parse(`${shift}T00:00:00Z`) - 12 * HOUR;
      await there.restart();
      const call = there.actions(["fiveMinutes", "hour", "twoHours"], timeZone);
      for (let steps = 0; steps < 48 * 24; steps += 1, there.now += 2.5 * MINUTE) await call(there.now);
      await there.nt.sweep();
    }
    there.once();
  });
});

describe("a year of jobs (memory)", PATIENT, () => {
  const DAILY = { daily: "30 2 * * *", monthly: "0 0 1 * *", quarterly: "30 1 1 */3 *" };
  const RARE = { weekly: "0 1 * * 0", yearly: "0 0 1 7 *" };

  it.each([...ZONES.map((tz) => [tz, DAILY] as const), ["America/Havana", RARE] as const])(
    "by cron, in %s: %j",
    async (tz, crons) => {
      const there = new Year(inMemory());
      const ran: Record<string, number> = {};
      for (let jobs: { tick(): Promise<unknown> }[] = []; there.now < TO; there.now += 12 * HOUR) {
        if (there.now % DAY === 0) {
          await there.restart();
          jobs = Object.entries(crons).map(([name, cron]) =>
            there.nt.job(name, { cron, tz, run: note(name, ran, there) }),
          );
        }
        for (const job of jobs) await job.tick();
        await there.nt.store.sweep({ limit: 1_000 });
      }
      expect(there.effects).toEqual([...new Set(there.effects)]);
      const least: Readonly<Record<string, number>> = { daily: 363, weekly: 51, monthly: 11, quarterly: 3, yearly: 1 };
      for (const name of Object.keys(crons)) {
        const count = least[name] as number;
        expect(ran[name]).toBeGreaterThanOrEqual(count);
        expect(ran[name]).toBeLessThanOrEqual(count + 3);
      }
    },
  );

  it.each<[string, Partial<JobOptions<void>>, number]>([
    ["every hour", { every: "1h", catchUp: { all: 60 } }, 8_760],
    ["every 10 days", { every: "10d" }, 37],
    ["every 100 days", { every: "100d", catchUp: { all: 3 } }, 4],
  ])("%s, catching up", async (name, options, most) => {
    const there = new Year(inMemory());
    const ran: Record<string, number> = {};
    for (let job = { tick: async (): Promise<unknown> => null }; there.now < TO; there.now += 12 * HOUR) {
      if (there.now % DAY === 0) {
        await there.restart();
        job = there.nt.job(name, { ...options, run: note(name, ran, there) } as JobOptions<void>);
      }
      await job.tick();
      await job.tick();
      await there.nt.store.sweep({ limit: 1_000 });
    }
    expect(there.effects).toEqual([...new Set(there.effects)]);
    expect(ran[name]).toBeLessThanOrEqual(most);
    expect(ran[name]).toBeGreaterThan(0.9 * most - 2);
  });

  function note(name: string, ran: Record<string, number>, there: Year) {
    return ({ slot }: { slot: string }): void => {
      there.effects.push(`${name} ${slot}`);
      ran[name] = (ran[name] ?? 0) + 1;
    };
  }
});

describe("a year of nevertwice run --per (memory)", PATIENT, () => {
  it.each([
    ["month", "Europe/Berlin", 12],
    ["quarter", "Antarctica/Troll", 4],
    ["year", "America/Havana", 1],
  ])("%s in %s: one run for each", async (per, tz, runs) => {
    const there = new Year(inMemory());
    // Of the zone's own year: it begins at its midnight.
    there.now = FROM + DAY;
    const done: string[] = [];
    for (; there.now < TO - DAY; there.now += 4 * HOUR) {
      await there.restart();
      const slot = slotOf(per, there.now, tz);
      const { outcome } = await runCommandJob(there.nt as never, {
        job: "invoices",
        slot,
        command: ["true"],
        stale: "take-over",
        failed: "retry",
        env: { PATH: process.env.PATH },
        cwd: process.cwd(),
        stdout: () => {},
        stderr: () => {},
        monotonic: () => performance.now(),
        onSignal: () => () => {},
        writeEnd: async () => true,
      });
      if (outcome.status !== "done") throw new Error(`${slot}: ${outcome.status}`);
      if (!outcome.replayed) done.push(slot);
      await there.nt.store.sweep({ limit: 1_000 });
    }
    expect(done).toEqual([...new Set(done)]);
    expect(done).toHaveLength(runs);
  });
});

describe("a year on stores that are files", PATIENT, () => {
  it.each<[string, (folder: string) => (clock: Year["clock"]) => Store]>([
    ["sqlite", (folder) => (clock) => sqliteStore({ path: join(folder, "ledger.db"), clock })],
    ["file", (folder) => (clock) => fileStore({ path: join(folder, "ledger.jsonl"), clock })],
  ])("%s: opened and closed every week", async (_, open) => {
    const there = new Year(open(temporaryFolder()));
    let call: (at: number) => Promise<unknown> = async () => {};
    for (; there.now < TO; there.now += DAY) {
      if ((there.now - FROM) % (7 * DAY) === 0) {
        await there.restart();
        call = there.actions(LONG, "Australia/Lord_Howe");
      }
      await call(there.now);
      await call(there.now + 12 * HOUR);
      await there.nt.store.sweep({ limit: 1_000 });
    }
    there.once();
  });
});

/** A server has a clock of its own: there the record is made older instead. */
describe("40 days later, on stores with a clock of their own", PATIENT, () => {
  it.each<[string, () => Promise<() => Store>]>([
    [
      "postgres",
      async () => {
        const { url } = await freshDatabase();
        return () => postgresStore({ url, listen: false });
      },
    ],
    [
      "redis",
      async () => {
        const [url, prefix] = [await flushableRedisDb(), freshPrefix().slice(0, -1)];
        return () => redisStore({ url, prefix });
      },
    ],
    [
      "s3",
      async () => {
        const server = await startS3();
        onTestFinished(() => server.close());
        const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
        return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
      },
    ],
  ])("%s: the month, the quarter and the year are still known, the day is not", async (_, ledger) => {
    const connect = await ledger();
    const there = new Year(() => connect());
    await there.restart();
    const now = Date.now();
    await there.actions(LONG, "UTC")(now);
    const { items } = await there.nt.store.list({ limit: 20 });
    expect(items).toHaveLength(LONG.length);
    const older = (at: number | null) => (at === null ? null : at - 40 * DAY);
    for (const { record, version } of items) {
      const [createdAt, updatedAt] = [older(record.createdAt) as number, older(record.updatedAt) as number];
      const [settledAt, expiresAt] = [older(record.settledAt), older(record.expiresAt)];
      const aged = { ...record, createdAt, updatedAt, settledAt, expiresAt };
      await there.nt.store.write([{ record: aged, expected: version }]);
    }
    await there.restart();
    await there.nt.sweep();
    await there.actions(LONG, "UTC")(now);
    const again = there.effects.slice(LONG.length).map((slot) => slot.split(" ")[0]);
    expect(again).toEqual(expect.arrayContaining(["day", "week"]));
    expect(again).toHaveLength(2);
  });
});
