/** What a run has taken is kept until the run has ended, however long that takes, and then as long as `keep` says. */
import { day, month, notSent, quarter, type Run, rejected, windowOf, year } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore, openSqlite } from "../../test/support/each-store.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

async function passDays({ clock, nt }: Bench, days: number): Promise<void> {
  for (let hour = 0; hour < days * 24; hour += 6) {
    clock.advance(6 * HOUR_MS);
    await nt.sweep();
  }
}

/** Without the ledger's notes: how many calls it has answered (nt.prevented) is known for 90 days. */
async function recordsOf({ store }: Bench): Promise<string[]> {
  const { items } = await store.list({ limit: 100, order: "oldest" });
  const actions = items.map(({ record }) => record.action);
  return actions.filter((action) => !action.startsWith("nevertwice.")).sort();
}

eachStore("a run that takes longer than its keep", (open) => {
  function approval(bench: Bench) {
    const calls: string[] = [];
    let approved = false;
    const body = async (run: Run) => {
      await run.step("charge", () => void calls.push("charge"), { keep: "1d" });
      await run.branch("mails", (row) => row.step("ask", () => void calls.push("ask")));
      await run.step(
        "approved",
        () => {
          if (!approved) throw notSent(new Error("not approved yet"));
        },
        { retry: { attempts: 1 } },
      );
      return run.step("ship", () => calls.push("ship"));
    };
    const go = (nt = bench.nt) => nt.run("order", "o-1", body, { keep: "30d" });
    return { go, calls, approve: () => (approved = true) };
  }

  it("does none of its steps again, called daily, once, or by another process, with sweeps in between", async () => {
    for (const every of [1, 25, 100]) {
      const bench = open();
      const { go, calls, approve } = approval(bench);
      await expect(go()).rejects.toThrow("not approved yet");
      for (let day = every; day <= 100; day += every) {
        await passDays(bench, every);
        await expect(go(bench.another())).rejects.toThrow("not approved yet");
      }
      approve();
      await go(bench.another());
      expect(calls).toEqual(["charge", "ask", "ship"]);
    }
  });

  it("answers with its result for its keep after its end; then all of it is gone, and it begins anew", async () => {
    const bench = open();
    const { go, calls, approve } = approval(bench);
    await expect(go()).rejects.toThrow();
    await passDays(bench, 40);
    approve();
    await go();
    await passDays(bench, 29);
    await go();
    expect(calls).toEqual(["charge", "ask", "ship"]);
    expect(await recordsOf(bench)).toContain("run:order");
    await passDays(bench, 2);
    expect(await recordsOf(bench)).toEqual([]);
    await go();
    expect(calls).toEqual(["charge", "ask", "ship", "charge", "ask", "ship"]);
    // What is left is how often steps were not done again, until that is past its time too.
    expect(await bench.nt.prevented()).toMatchObject({ entries: [{ action: "step:order", prevented: 2 }] });
    await passDays(bench, 91);
    expect((await bench.store.list({ limit: 100 })).items).toEqual([]);
  });

  it("a run that was refused for good is kept for its keep, and its steps with it", async () => {
    const bench = open();
    const go = () =>
      bench.nt.run(
        "order",
        "o-2",
        async (run) => {
          await run.step("charge", () => 1);
          throw rejected(new Error("out of stock"));
        },
        { keep: "30d" },
      );
    await expect(go()).rejects.toThrow("out of stock");
    await passDays(bench, 29);
    await expect(go()).rejects.toMatchObject({ code: "FAILED" });
    expect(await recordsOf(bench)).toEqual(["run:order", "step:order"]);
    await passDays(bench, 2);
    expect(await recordsOf(bench)).toEqual([]);
  });

  it("a step that is to be kept forever outlives its run", async () => {
    const bench = open();
    let charged = 0;
    const go = () =>
      bench.nt.run("pay", 1, (run) => run.step("charge", () => ++charged, { keep: "forever" }), { keep: "1d" });
    expect(await go()).toBe(1);
    await passDays(bench, 3);
    expect(await recordsOf(bench)).toEqual(["step:pay"]);
    expect(await go()).toBe(1);
  });

  it("a finished step whose record is missing is an error, and nothing runs", async () => {
    const lost = new Set<string>();
    const bench = open({
      wrap: (store) => {
        const read = store.read.bind(store);
        store.read = async (keys) =>
          (await read(keys)).map((found) => (found && lost.has(found.record.key) ? null : found));
        return store;
      },
    });
    const { go, calls, approve } = approval(bench);
    await expect(go()).rejects.toThrow("not approved yet");
    const { items } = await bench.store.list({ action: "step:order", limit: 9, order: "oldest" });
    lost.add(items[0]?.record.key as string);
    approve();
    await expect(go()).rejects.toMatchObject({
      code: "KEY_CONFLICT",
      message: expect.stringMatching(
        /^run order: the record of step 1, which had ended before "approved" began, has expired or was removed\. Nothing was run: .*\{ version: 2 \}/,
      ),
    });
    expect(calls).toEqual(["charge", "ask"]);
    lost.clear();
    await go();
    expect(calls).toEqual(["charge", "ask", "ship"]);
  });
});

it("a step that was rolled back with its transaction is not missed", async () => {
  const { DatabaseSync } = await import("../../test/support/database-sync.ts");
  const { nt, store } = openSqlite();
  await store.stats();
  const db = new DatabaseSync(store.name.replace("sqlite:", ""));
  db.exec("CREATE TABLE orders (id TEXT)");
  const calls: string[] = [];
  const go = (commits: boolean) =>
    nt.run("order", 1, async (run) => {
      db.exec("BEGIN");
      await run.step("insert", () => void db.prepare("INSERT INTO orders VALUES ('o')").run(), { tx: db });
      db.exec(commits ? "COMMIT" : "ROLLBACK");
      await run.step("mail", () => void calls.push("mail"));
      await run.step(
        "end",
        () => {
          if (!commits) throw notSent(new Error("not yet"));
        },
        { retry: { attempts: 1 } },
      );
    });
  await expect(go(false)).rejects.toThrow("not yet");
  await go(true);
  expect(calls).toEqual(["mail"]);
  expect(db.prepare("SELECT count(*) AS n FROM orders").all()).toEqual([{ n: 1 }]);
  db.close();
});

eachStore("a run whose id names a window", (open) => {
  const WINDOWS: readonly [string, (at: number) => string, number][] = [
    ["quarter", quarter, 92],
    ["year", year, 366],
    ["400 days", (at) => windowOf("400d", at), 400],
  ];

  it.each(WINDOWS)(
    "runs once in its %s, called again and again, with sweeps in between",
    async (_, windowAt, length) => {
      const bench = open();
      const { nt, clock } = bench;
      const charged: string[] = [];
      for (let days = 0; days < length; days += 9) {
        const window = windowAt(clock.instant().now);
        await nt.run("invoice", ["cust-1", window], (run) => run.step("charge", () => void charged.push(window)));
        await nt.sweep();
        clock.advance(9 * DAY_MS);
      }
      expect(charged).toEqual([...new Set(charged)]);
    },
  );

  it("keeps its steps and branches as long as itself, counted from its end", async () => {
    const bench = open();
    const at = bench.clock.instant().now + 300 * DAY_MS;
    await bench.nt.run("invoice", ["cust-1", quarter(at)], async (run) => {
      await run.step("charge", () => 1);
      await run.branch("mails", (row) => row.step("receipt", () => 1));
    });
    const { items } = await bench.store.list({ limit: 10, order: "oldest" });
    expect(items).toHaveLength(4);
    for (const { record } of items) expect(record.expiresAt, record.action).toBeGreaterThan(at + 92 * DAY_MS);
  });

  it("with a keep given by hand is kept for that long, and said to be too short", async () => {
    const bench = open();
    const now = bench.clock.instant().now;
    await bench.nt.run("invoice", ["c", year(now)], (run) => run.step("charge", () => 1), { keep: "120d" });
    await bench.nt.run("report", ["c", month(now), day(now)], (run) => run.step("send", () => 1), { keep: "90d" });
    expect(bench.events.filter(({ type }) => type === "warning")).toMatchObject([
      {
        code: "KEEP_SHORTER_THAN_WINDOW",
        action: "run:invoice",
        message: expect.stringMatching(/window of 366d, and keep is 120d.*Give keep: "732d"/),
      },
    ]);
    const { items } = await bench.store.list({ limit: 10, action: "run:invoice" });
    expect(items[0]?.record.keepMs).toBe(120 * DAY_MS);
  });
});
