import { day, month, nevertwice, year } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { expect, it, onTestFinished } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

const DAY = 86_400_000;

interface Report {
  readonly at: number;
}

eachStore("O8: a record is kept for as long as the window in its key can be asked for", (open) => {
  const reporting = (keep?: string) => {
    const bench = open();
    const ran: string[] = [];
    const report = bench.nt.action("report", {
      key: ({ at }: Report) => ["acme", month(at)],
      free: ["at"],
      run: async ({ at }) => void ran.push(month(at)),
      ...(keep !== undefined && { keep }),
    });
    return { ...bench, report, ran };
  };

  it("an action keyed by month, called daily and swept, runs once a month", async () => {
    const { nt, clock, report, ran } = reporting();
    for (let days = 0; days < 100; days += 1) {
      await report({ at: clock.instant().now });
      await nt.sweep();
      clock.advance(DAY);
    }
    expect(ran).toEqual([...new Set(ran)]);
    expect(ran.length).toBeGreaterThanOrEqual(3);
  });

  it("whatever way it takes into the ledger", async () => {
    const { nt, clock, report, record } = reporting();
    const { now } = clock.instant();
    const months = Array.from({ length: 5 }, (_, index) => ({ at: now - 32 * index * DAY }));
    const [called, attempted, queued, listed, each] = months as [Report, Report, Report, Report, Report];
    await report(called);
    await report.attempt(attempted);
    await report.enqueue(queued);
    await report.enqueueMany([listed]);
    await report.each([each]);
    await nt.once("ad hoc", [{ when: `month ${month(now)}` }], () => 1);
    await nt.worker().drain();
    const keys = await Promise.all([called, attempted, queued, listed, each].map((input) => report.keyOf(input)));
    const { items } = await nt.store.list({ limit: 10, action: "ad hoc" });
    const records = [...(await Promise.all(keys.map(record))), ...items.map((stored) => stored.record)];
    expect(records).toHaveLength(6);
    for (const { state, keepMs, settledAt, expiresAt } of records) {
      expect(state).toBe("confirmed");
      expect(keepMs).toBeGreaterThanOrEqual(62 * DAY);
      expect(keepMs).toBeLessThan(63 * DAY);
      expect(expiresAt).toBe((settledAt as number) + (keepMs as number));
    }
  });

  it("a window that has not begun is guarded until one window after its end", async () => {
    const { clock, report, record } = reporting();
    const at = clock.instant().now + 200 * DAY;
    await report({ at });
    expect((await record(await report.keyOf({ at }))).expiresAt).toBeGreaterThan(at + 31 * DAY);
  });

  it("a keep given by hand is honoured, and said to be too short once", async () => {
    const { clock, report, record, events } = reporting("7d");
    const { now } = clock.instant();
    for (const at of [now, now - 40 * DAY]) await report({ at });
    expect((await record(await report.keyOf({ at: now }))).keepMs).toBe(7 * DAY);
    const warnings = events.filter((event) => event.type === "warning");
    expect(warnings).toMatchObject([
      {
        code: "KEEP_SHORTER_THAN_WINDOW",
        action: "report",
        message: expect.stringMatching(/a window of 31d, and keep is 1w: .* Give keep: "62d" \(two windows\) or more/),
      },
    ]);
  });
});

it("O8: a record whose keep has no window in its key is kept as before", async () => {
  const { nt, record } = openMemory();
  const send = nt.action("send", { key: ["id"], run: async (_: { id: string }) => 1 });
  await send({ id: "2026" });
  expect((await record(await send.keyOf({ id: "2026" }))).keepMs).toBe(30 * DAY);
});

it("O8: a resolved doubt is kept for its window, by whoever resolves it", async () => {
  const store = memoryStore();
  const nt = nevertwice({ store, sweep: false });
  onTestFinished(() => nt.close());
  const pay = nt.action("dues", {
    key: ({ at }: Report) => [year(at), day(at)],
    run: async () => Promise.reject(new Error("connection reset")),
  });
  const at = Date.now();
  const outcome = await pay.attempt({ at });
  expect(outcome.status).toBe("unknown");
  await pay.resolve({ key: outcome.key }, {
    as: "done",
    result: undefined,
    by: "ada",
    reason: "seen at the bank",
  } as never);
  const [stored] = await store.read([outcome.key]);
  expect(stored?.record).toMatchObject({ state: "confirmed", keepMs: expect.any(Number) });
  expect(stored?.record.keepMs).toBeGreaterThanOrEqual(732 * DAY);
});

it("O8: a window in the scope counts as one in the parts: the run, session or thread may be a month", async () => {
  const { nt, record } = openMemory();
  const send = nt.action("send", { key: ["id"], run: async (_: { id: string }) => 1 });
  const scope = `thread ${month(Date.now())}`;
  await send({ id: "7" }, { scope });
  expect((await record(await send.keyOf({ id: "7" }, { scope }))).keepMs).toBeGreaterThanOrEqual(62 * DAY);
});
