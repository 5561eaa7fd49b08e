/** The ledger's own connections: what arrives is what was sent, however it was cut, and in TLS as without. */
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { ownPostgresInTls } from "../../../../test/services/on-demand.ts";
import { ledgerSocket } from "./socket.ts";

const { server, certificate } = await ownPostgresInTls();

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, stream: ledgerSocket as never });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

it("answers of many packets arrive whole, on many connections at once", async () => {
  const { url } = await freshDatabase();
  const clients = await Promise.all(Array.from({ length: 6 }, () => connected(url)));
  // Rows of every length, so that packets end in the middle of whatever a message consists of.
  const text =
    "SELECT n, repeat(chr(97 + ($1::int + n) % 26), n * 7) AS filled FROM generate_series(1, 700) n ORDER BY n";
  const answers = await Promise.all(clients.map((client, at) => client.query(text, [at])));
  for (const [at, { rows }] of answers.entries()) {
    const filled = (n: number) => String.fromCharCode(97 + ((at + n) % 26)).repeat(n * 7);
    expect(rows).toEqual(Array.from({ length: 700 }, (_, index) => ({ n: index + 1, filled: filled(index + 1) })));
  }
});

it("what one answer holds is still there when the next was read", async () => {
  const { url } = await freshDatabase();
  const client = await connected(url);
  const bytes = async (fill: string) =>
    (await client.query("SELECT decode(repeat($1, 900), 'hex') AS b", [fill])).rows[0].b;
  const first = await bytes("ab");
  const second = await bytes("cd");
  expect([first, second]).toEqual([Buffer.alloc(900, 0xab), Buffer.alloc(900, 0xcd)]);
});

it("F30: a server that ends the connection is heard", async () => {
  const { url } = await freshDatabase();
  const [client, other] = [await connected(url), await connected(url)];
  const { pid } = (await client.query("SELECT pg_backend_pid() AS pid")).rows[0];
  const sleeping = client.query("SELECT pg_sleep(60)").catch((error: Error) => error.message);
  await other.query("SELECT pg_terminate_backend($1)", [pid]);
  expect(await sleeping).toMatch(/terminat/);
});

it("a ledger is reached through a Unix socket", async () => {
  const { pathname, username } = new URL(server.url);
  const url = `postgres://${username}@localhost:${server.port}${pathname}?host=${encodeURIComponent(server.folder)}`;
  const nt = nevertwice({ store: url, sweep: false });
  onTestFinished(() => nt.close());
  const send = nt.action("through-unix", { key: ["id"], run: async ({ id }: { id: number }) => ({ sent: id }) });
  const ids = Array.from({ length: 200 }, (_, id) => id);
  expect(await Promise.all([...ids, ...ids].map((id) => send({ id })))).toHaveLength(400);
  const [row] = await server.query("SELECT count(*) FROM pg_stat_activity WHERE client_port = -1 AND usename = $1", [
    username,
  ]);
  expect(Number(row?.count)).toBeGreaterThan(0);
});

it("a ledger is reached in TLS, its certificate checked", async () => {
  const url = `${server.url}?sslmode=verify-full&sslrootcert=${encodeURIComponent(certificate)}&application_name=in-tls`;
  const nt = nevertwice({ store: postgresStore({ url }), sweep: false });
  onTestFinished(() => nt.close());
  let runs = 0;
  const send = nt.action("send", {
    key: ["id"],
    run: async ({ id }: { id: number }) => {
      runs += 1;
      return { sent: id, text: "ü".repeat(40_000) };
    },
  });
  const ids = Array.from({ length: 300 }, (_, id) => id);
  for (const id of ids.slice(0, 20)) await send({ id });
  const results = await Promise.all([...ids, ...ids].map((id) => send({ id })));
  expect(results.map(({ sent, text }) => [sent, text.length])).toEqual([...ids, ...ids].map((id) => [id, 40_000]));
  expect(runs).toBe(300);
  const sessions = await server.query(
    "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'in-tls'",
  );
  expect(sessions).toEqual([{ ssl: true }]);
});

it("a certificate that nobody vouches for is told with the remedy, and nothing is run", async () => {
  const nt = nevertwice({ store: postgresStore({ url: `${server.url}?sslmode=verify-full` }), sweep: false });
  onTestFinished(() => nt.close());
  const send = nt.action("send", { key: ["id"], run: async (_: Record<string, unknown>) => expect.unreachable() });
  const refused = await send({ id: 1 }).catch((error: unknown) => error);
  const message = expect.stringMatching(/self-signed certificate.*sslrootcert=FILE/);
  expect(refused).toMatchObject({ code: "CONFIG", message });
});
