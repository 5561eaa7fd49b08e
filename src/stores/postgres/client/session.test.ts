/** Prepared statements on one session: values arrive as they are, and errors are those of their statement. */
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { Asker, type Session } from "./session.ts";
import { QueryTimeout } from "./timeout.ts";

const MIRROR = "SELECT $1::text AS c0, $2::text AS c1, $3::text AS c2";

async function client(options: object = {}, timeoutMs = 10_000) {
  const { url } = await freshDatabase();
  const client = new pg.Client({ connectionString: url, ...options });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  const asker = new Asker(timeoutMs);
  const session = client as unknown as Session;
  const ask = (text: string, ...values: (string | null)[]) => asker.rowsAgain(session, text, values);
  const change = (text: string, ...values: (string | null)[]) => asker.count(session, text, values);
  return { client, ask, change };
}

it("nulls, empty texts, what is not ASCII and what is long arrive as they are", async () => {
  const { ask } = await client();
  const long = "näher 👋 ".repeat(40_000);
  for (const [a, b, c] of [
    [null, null, null],
    ["", "null", "\\x00"],
    ["挨拶", "👋", long],
    [long, null, long],
  ] as const)
    for (let times = 0; times < 2; times += 1) expect(await ask(MIRROR, a, b, c)).toEqual([{ c0: a, c1: b, c2: c }]);
});

it("a statement without parameters, and one that only changes rows", async () => {
  const { ask, change } = await client();
  for (let times = 0; times < 3; times += 1) expect(await ask("SELECT 'x' AS c0")).toEqual([{ c0: "x" }]);
  await ask("CREATE TABLE kept (id text PRIMARY KEY)");
  const insert = "INSERT INTO kept (id) VALUES ($1::text) ON CONFLICT DO NOTHING";
  expect([await change(insert, "a"), await change(insert, "b"), await change(insert, "b")]).toEqual([1, 1, 0]);
});

it("an error of the server's is that statement's, and the session goes on", async () => {
  const { ask } = await client();
  const number = "SELECT ($1::text)::int::text AS c0";
  expect(await ask(number, "1")).toEqual([{ c0: "1" }]);
  await expect(ask(number, "one")).rejects.toMatchObject({ code: "22P02" });
  await expect(ask(number, "a\0b")).rejects.toMatchObject({ code: "22021" });
  expect(await ask(number, "2")).toEqual([{ c0: "2" }]);
});

it("a statement that the server has forgotten is asked again without a name", async () => {
  const { client: own, ask } = await client();
  await ask(MIRROR, "a", "b", "c");
  await own.query("DEALLOCATE ALL");
  expect(await ask(MIRROR, "d", "e", "f")).toEqual([{ c0: "d", c1: "e", c2: "f" }]);
});

it("on a client that pipelines each has its own answer", async () => {
  const { ask } = await client({ pipeline: true });
  await ask(MIRROR, "0", "0", "0");
  const numbers = Array.from({ length: 50 }, (_, n) => String(n));
  const failing = ask("SELECT ($1::text)::int::text AS c0", "none").catch(({ code }) => code);
  const answers = await Promise.all(numbers.map((n) => ask(MIRROR, n, null, n)));
  expect(answers).toEqual(numbers.map((n) => [{ c0: n, c1: null, c2: n }]));
  expect(await failing).toBe("22P02");
});

it("F30: on a connection that is gone it fails", async () => {
  const { client: own, ask } = await client();
  await ask(MIRROR, "a", "b", "c");
  (own as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
  await expect(ask(MIRROR, "a", "b", "c")).rejects.toThrow(/terminated|not queryable/);
});

it("F16: a statement without an answer in time is an error", async () => {
  const { ask } = await client({}, 50);
  await expect(ask("SELECT pg_sleep(60)::text AS c0")).rejects.toBeInstanceOf(QueryTimeout);
});
