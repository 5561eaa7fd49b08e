import { type LedgerRecord, nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { isProvisional, postgresClock } from "./clock.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("ServerClock", () => {
  const now = () => performance.now();

  it("is the wall clock, marked as such, until the server has answered", () => {
    const clock = postgresClock();
    const { now: early, steady, epoch } = clock.instant();
    expect(Math.abs(early - Date.now())).toBeLessThan(1_000);
    expect(isProvisional(early)).toBe(true);
    expect({ steady, epoch }).toEqual({ steady: early, epoch: "" });
    clock.observe({ serverMs: 5_000, askedAt: now(), answeredAt: now() });
    expect(isProvisional(clock.instant().now)).toBe(false);
  });

  it("takes the middle of question and answer, and lets quick answers speak for slow ones", () => {
    const clock = postgresClock();
    const t = now();
    const read = () => clock.instant().now - now();
    clock.observe({ serverMs: 1_000_000 + t, askedAt: t - 100, answeredAt: t + 300 });
    expect(read()).toBeCloseTo(1_000_000 - 100, -1);
    clock.observe({ serverMs: 1_000_000 + t, askedAt: t - 1, answeredAt: t + 1 });
    expect(read()).toBeCloseTo(1_000_000, -1);
    clock.observe({ serverMs: 1_000_000 + t, askedAt: t - 5_000, answeredAt: t + 1_000 });
    expect(read()).toBeCloseTo(1_000_000, -1);
  });

  it("does not run backwards by small corrections, and follows a server that was set", () => {
    const clock = postgresClock();
    const t = now();
    clock.observe({ serverMs: 1_000_000 + t, askedAt: t, answeredAt: t });
    const before = clock.instant().now;
    clock.observe({ serverMs: 1_000_000 + t - 500, askedAt: t, answeredAt: t });
    expect(clock.instant().now).toBeGreaterThanOrEqual(before);
    clock.observe({ serverMs: t, askedAt: t, answeredAt: t });
    expect(clock.instant().now).toBeLessThan(before - 900_000);
  });
});

describe("F18: a host whose wall clock is wrong", () => {
  it.each([-600_000, 3_600_000])("by %i ms: its first claim is stamped by the server's clock", async (wrongBy) => {
    const { url } = await freshDatabase();
    const real = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => real() + wrongBy);
    const nt = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false });
    onTestFinished(() => nt.close());
    const outcomes = await Promise.all(
      [1, 2, 3].map((id) =>
        nt.action(`a${id}`, { key: ["id"], run: async (_: Record<string, unknown>) => real() }).attempt({ id }),
      ),
    );
    for (const { key, status } of outcomes) {
      expect(status).toBe("done");
      const record = (await nt.store.read([key]))[0]?.record as LedgerRecord;
      for (const time of [record.createdAt, record.updatedAt, record.settledAt as number]) {
        expect(Math.abs(time - real())).toBeLessThan(60_000);
      }
    }
  });

  it.each([-600_000, 3_600_000])(
    "by %i ms: its first enqueue in a transaction is due by the server's clock",
    async (wrongBy) => {
      const { url } = await freshDatabase();
      const first = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false });
      await first.store.read(["nt1_nobody"]);
      await first.close();
      const real = Date.now;
      vi.spyOn(Date, "now").mockImplementation(() => real() + wrongBy);
      const nt = nevertwice({ store: postgresStore({ url, listen: false }), sweep: false });
      onTestFinished(() => nt.close());
      const send = nt.action("send", { key: ["id"], run: async (_: Record<string, unknown>) => "sent" });
      const client = new pg.Client(url);
      await client.connect();
      onTestFinished(() => client.end());
      await client.query("BEGIN");
      await send.enqueue({ id: 1 }, { tx: client, delay: "1m", expires: "1h" });
      await send.enqueueMany([{ id: 2 }, { id: 3 }], { tx: client });
      await client.query("COMMIT");
      for (const id of [1, 2, 3]) {
        const status = await send.status({ id });
        const record = (await nt.store.read([status.key]))[0]?.record as LedgerRecord;
        const notAfter = record.terms?.notAfter;
        const times = [record.createdAt, record.updatedAt, record.dueAt as number];
        for (const time of notAfter === undefined ? times : [...times, notAfter - 3_600_000]) {
          expect(Number.isInteger(time)).toBe(true);
          expect(Math.abs(time - real())).toBeLessThan(180_000);
        }
        expect(status).toMatchObject({ status: "queued", dueAt: record.dueAt });
      }
    },
  );
});
