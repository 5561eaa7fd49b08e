/** How a ledger is reached: through a Unix socket, and in TLS with its certificate checked. */
import { nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import { expect, it, onTestFinished } from "vitest";
import { ownPostgresInTls } from "../../../../test/services/on-demand.ts";

const { server, certificate } = await ownPostgresInTls();

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
