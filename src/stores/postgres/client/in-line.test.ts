/** Statements that follow on each other on one session, without waiting for the answers in between. */
import pg from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { nevertwice } from "../../../index.ts";
import { postgresStore } from "../index.ts";
import { pgPoolDriver } from "./pg.ts";
import { Sessions } from "./sessions.ts";

const PID = "SELECT pg_backend_pid() AS pid";

// A busy machine may take its time between two statements of one tick.
const NEVER_STUCK = 60_000;

async function sessionsOn(options: object, stuckAfterMs = NEVER_STUCK) {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4, ...options });
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const sessions = new Sessions(pool, { timeoutMs: 10_000, owned: true, stuckAfterMs });
  onTestFinished(async () => {
    sessions.close();
    await pool.end();
  });
  return { url, pool, sessions };
}

type Asked = { query(text: string): Promise<{ rows: { pid: number }[] }> };
const pidOf = async (client: unknown) => (await (client as Asked).query(PID)).rows[0]?.pid;
const inLine = (sessions: Sessions) => sessions.useInLine(pidOf);

it("the second goes behind the first, and the third to another session", async () => {
  const { sessions } = await sessionsOn({ pipeline: true });
  // One that is checked out and free.
  await inLine(sessions);
  const [first, second, third] = await Promise.all([inLine(sessions), inLine(sessions), inLine(sessions)]);
  expect(second).toBe(first);
  expect(third).not.toBe(first);
});

it("where a client does not pipeline, each has a session to itself", async () => {
  const { sessions } = await sessionsOn({});
  await inLine(sessions);
  const [first, second] = await Promise.all([inLine(sessions), inLine(sessions)]);
  expect(second).not.toBe(first);
});

it("nothing goes behind a statement that waits for a lock", async () => {
  const { url, sessions } = await sessionsOn({ pipeline: true }, 5);
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  onTestFinished(() => other.end());
  await other.query("SELECT pg_advisory_lock(1)");
  const waiting = sessions.useInLine((client) => (client as unknown as Asked).query("SELECT pg_advisory_lock(1)"));
  await vi.waitFor(async () => {
    const { rows } = await other.query("SELECT 1 FROM pg_locks WHERE NOT granted");
    expect(rows).toHaveLength(1);
  });
  const since = performance.now();
  while (performance.now() - since < 6) await new Promise((turned) => setImmediate(turned));
  expect(await inLine(sessions)).toEqual(expect.any(Number));
  await other.query("SELECT pg_advisory_unlock(1)");
  await waiting;
});

it("a session that somebody has to himself has no line", async () => {
  const { sessions } = await sessionsOn({ pipeline: true });
  const first = await inLine(sessions);
  let during: unknown;
  const own = await sessions.use(async (client) => {
    during = await inLine(sessions);
    return pidOf(client);
  });
  expect(own).toBe(first);
  expect(during).not.toBe(own);
});

it("an error of the server's is that of its statement alone", async () => {
  const { sessions } = await sessionsOn({ pipeline: true });
  const first = await inLine(sessions);
  const wrong = sessions.useInLine((client) => (client as unknown as Asked).query("SELECT nonsense"));
  const right = inLine(sessions);
  await expect(wrong).rejects.toThrow("nonsense");
  expect(await right).toBe(first);
});

it("F30: when the session is lost, all in line hear of it, and the next have another", async () => {
  const { url, pool, sessions } = await sessionsOn({ pipeline: true });
  const first = await inLine(sessions);
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  onTestFinished(() => admin.end());
  const sleeping = sessions.useInLine((client) => (client as unknown as Asked).query("SELECT pg_sleep(60)"));
  const behind = inLine(sessions);
  const both = Promise.allSettled([sleeping, behind]);
  await admin.query("SELECT pg_terminate_backend($1::int)", [first]);
  expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await inLine(sessions)).not.toBe(first);
  await expect.poll(() => pool.totalCount).toBe(1);
});

it("F16: a statement without an answer takes its session with it, and those behind it do not wait on", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4, pipeline: true } as pg.PoolConfig);
  const driver = pgPoolDriver(pool, { timeoutMs: 300, owned: true, stuckAfterMs: NEVER_STUCK });
  onTestFinished(() => driver.close());
  const ask = (text: string) => driver.queryInLine?.(text, []);
  // Whether the server is reached without a pooler is found out with the first.
  await ask(`${PID} OFFSET 0`);
  const sleeping = ask("SELECT pg_sleep(60)::text AS c0");
  const behind = ask("SELECT 1::text AS c0");
  const results = await Promise.allSettled([sleeping, behind]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await ask("SELECT 2::text AS c0")).toEqual([{ c0: "2" }]);
  await expect.poll(() => pool.totalCount).toBe(1);
});

it("F1: a crowd's calls run once each, and its repeats get the first results", async () => {
  const { url } = await freshDatabase();
  const pool = new pg.Pool({ connectionString: url, max: 4, pipeline: true } as pg.PoolConfig);
  const nt = nevertwice({ store: postgresStore({ pool }), sweep: false });
  onTestFinished(async () => {
    await nt.close();
    await pool.end();
  });
  const runs = new Map<number, number>();
  const send = nt.action("send", {
    key: ["id"],
    run: async ({ id }: { id: number }) => {
      runs.set(id, (runs.get(id) ?? 0) + 1);
      return { id };
    },
  });
  const ids = Array.from({ length: 1_500 }, (_, id) => id);
  const calls = [...ids, ...ids].map((id) => send({ id }));
  expect(await Promise.all(calls)).toEqual([...ids, ...ids].map((id) => ({ id })));
  expect([...runs.values()].every((count) => count === 1)).toBe(true);
  expect(runs.size).toBe(1_500);
});
