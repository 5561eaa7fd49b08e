/** K10 on PostgreSQL, in the caller's transaction: its client is given one statement at a time. */
import { email, nevertwice } from "nevertwice";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "./services/addresses.ts";

interface Mail {
  readonly lead: string;
  readonly to: string;
}

it("K10: formerly in a transaction sends no statement while another one is under way", async () => {
  const { url } = await freshDatabase();
  const sent: string[] = [];
  const release = (name: string, options: object) => {
    const nt = nevertwice({ store: postgresStore({ url }), sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const run = async ({ lead }: Mail) => {
      sent.push(lead);
      return lead;
    };
    return nt.action<Mail, string>(name, { run, ...options });
  };
  const before = release("mail", { key: ["to", "lead"] });
  const formerly = [{ name: "mail" }, { name: "mail", key: ["to", "lead"] }];
  const now = release("send", { key: { lead: true, to: email }, formerly });
  const later = release("send", { key: { lead: true, to: email } });

  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  let underWay = 0;
  let most = 0;
  const query = client.query.bind(client) as unknown as (...given: unknown[]) => Promise<unknown>;
  client.query = (async (...given: unknown[]) => {
    underWay += 1;
    most = Math.max(most, underWay);
    try {
      return await query(...given);
    } finally {
      underWay -= 1;
    }
  }) as never;
  const within = async <T>(work: () => Promise<T>): Promise<T> => {
    await client.query("BEGIN");
    const answer = await work();
    await client.query("COMMIT");
    return answer;
  };

  const to = "ann@example.com";
  await before({ lead: "a", to });
  await now({ lead: "b", to });
  for (const lead of ["a", "b", "a"]) expect(await within(() => now({ lead, to }, { tx: client }))).toBe(lead);
  expect(await within(() => now({ lead: "c", to }, { tx: client }))).toBe("c");
  expect(await within(() => later.attempt({ lead: "c", to }, { tx: client }))).toMatchObject({ replayed: true });
  const leads = ["a", "b", "d", "e", "f", "a", "g"].map((lead) => ({ lead, to }));
  const many = (orderKey?: string) =>
    within(() => now.enqueueMany(leads, { tx: client, ...(orderKey !== undefined && { orderKey }) }));
  expect((await many()).map(({ created }) => created)).toEqual([false, false, true, true, true, false, true]);
  expect((await many("ann")).every(({ created }) => !created)).toBe(true);
  expect(await within(() => now.enqueue({ lead: "h", to }, { tx: client, orderKey: "ann" }))).toMatchObject({
    created: true,
  });
  expect((await before.enqueueMany(leads)).every(({ created }) => !created)).toBe(true);
  expect(sent).toEqual(["a", "b", "c"]);
  expect(most).toBe(1);
});
