/** Who waits for another process gets the result when it is there, not at the next poll. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { type PostgresStoreOptions, postgresStore } from "nevertwice/postgres";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

function instance(options: PostgresStoreOptions) {
  const nt = nevertwice({ store: postgresStore(options), sweep: false });
  onTestFinished(() => nt.close());
  const work = nt.action("work", {
    key: ["id"],
    run: async ({ ms }: { id: string; ms: number }) => {
      await sleep(ms);
      return "done";
    },
  });
  const listens = async () => (await nt.store.inspect?.())?.find(({ name }) => name === "waiting")?.value;
  return { nt, work, listens };
}

async function untilListening({ listens }: { listens: () => Promise<string | undefined> }) {
  for (let tries = 0; tries < 100 && !(await listens())?.includes("LISTEN"); tries += 1) await sleep(50);
  expect(await listens()).toBe("LISTEN/NOTIFY");
}

/** One process works, another waits for it: what the second gets. */
async function waits(one: ReturnType<typeof instance>, two: ReturnType<typeof instance>): Promise<void> {
  const input = { id: `${Math.random()}`, ms: 400 };
  const first = one.work(input);
  while ((await two.work.status(input)).status === "absent") await sleep(5);
  expect(await two.work.attempt(input)).toMatchObject({ status: "done", replayed: true });
  await first;
}

async function wokenByCommit(one: ReturnType<typeof instance>, two: ReturnType<typeof instance>): Promise<boolean> {
  const input = { id: `${Math.random()}`, ms: 400 };
  const running = one.work.attempt(input);
  while ((await two.work.status(input)).status === "absent") await sleep(5);
  const { key } = await two.work.status(input);
  const wake = new Promise<boolean>((woken) => {
    const stop = two.nt.store.watch?.(key, () => woken(true));
    onTestFinished(() => stop?.());
  });
  const woken = await Promise.race([wake, running.then(() => sleep(1_000)).then(() => false)]);
  if (woken) expect(await two.work.status(input)).toMatchObject({ status: "done" });
  await running;
  return woken;
}

const clients: Record<string, (url: string) => PostgresStoreOptions> = {
  url: (url) => ({ url }),
  "pg Pool": (url) => {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    onTestFinished(() => pool.end());
    return { pool };
  },
  "postgres.js": (url) => {
    const sql = postgres(url, { max: 2 });
    onTestFinished(() => sql.end());
    return { sql };
  },
};

describe.each(Object.entries(clients))("waiting (%s)", (_name, client) => {
  it("is over when the result is committed: the commit itself wakes who waits, no poll", async () => {
    const { url } = await freshDatabase();
    const [one, two] = [instance(client(url)), instance(client(url))];
    await untilListening(one);
    await untilListening(two);
    await waits(one, two);
    // Nobody polls here: the wake comes from the commit, and finds it done. On a starved machine the work may be over
    // before the other side has heard that somebody waits: then once more.
    let woken = false;
    for (let tries = 0; tries < 10 && !woken; tries += 1) woken = await wokenByCommit(one, two);
    expect(woken).toBe(true);
  });
});

it("a program that waits for close() at its end ends well, though nothing else keeps it alive", async () => {
  const { url } = await freshDatabase();
  const program = `
    import { nevertwice } from ${JSON.stringify(fileURLToPath(new URL("../../../dist/index.js", import.meta.url)))};
    const nt = nevertwice({ store: process.argv[1] });
    await nt.once("work", [1], () => 1);
    const listens = async () => (await nt.store.inspect()).some(({ value }) => value === "LISTEN/NOTIFY");
    while (!(await listens())) await new Promise((done) => setTimeout(done, 20));
    await nt.close();
    console.log("closed");`;
  const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program, url], {
    encoding: "utf8",
    timeout: 30_000,
  });
  expect({ stdout, status }).toEqual({ stdout: "closed\n", status: 0 });
});

it("what doctor says of waiting is known at its first question, not a moment later", async () => {
  const { url } = await freshDatabase();
  expect(await instance({ url }).listens()).toBe("LISTEN/NOTIFY");
  expect(await instance({ url, listen: false }).listens()).toBe("polling: the store does not listen");
});

it("doctor answers each time, although nothing but its question keeps the program alive", async () => {
  const { url } = await freshDatabase();
  const made = instance({ url });
  await made.nt.store.read(["nt1_x"]);
  const program = `
    const { postgresStore } = await import(${JSON.stringify(new URL("../../../dist/stores/postgres/index.js", import.meta.url).href)});
    const store = postgresStore({ url: process.argv[1], migrate: "manual" });
    console.log((await store.inspect()).find(({ name }) => name === "waiting").value);
    await store.close();`;
  for (let tries = 0; tries < 8; tries += 1) {
    const child = spawnSync(process.execPath, ["--input-type=module", "-e", program, url], {
      encoding: "utf8",
      timeout: 30_000,
    });
    expect([child.status, child.stdout, child.stderr]).toEqual([0, "LISTEN/NOTIFY\n", ""]);
  }
});

describe("where notifications do not arrive", () => {
  it("through PgBouncer it is found out at the start, nothing listens, and waiting works by polling", async () => {
    const { pgbouncerUrl, url } = await freshDatabase();
    const [one, two] = [instance({ url: pgbouncerUrl }), instance({ url: pgbouncerUrl })];
    await waits(one, two);
    expect(await one.listens()).toBe("polling: this connection goes through a pooler, which delivers no notifications");
    const admin = new pg.Client({ connectionString: url });
    await admin.connect();
    const { rows } = await admin.query(
      "SELECT query FROM pg_stat_activity WHERE query ILIKE 'listen%' AND datname = current_database()",
    );
    await admin.end();
    expect(rows).toEqual([]);
  });

  it("a listening connection that is lost is taken up again, and calls go on meanwhile", async () => {
    const { url, adminUrl } = await freshDatabase();
    const one = instance({ url });
    await untilListening(one);
    const admin = new pg.Client({ connectionString: adminUrl });
    await admin.connect();
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen%' AND datname = current_database()",
    );
    await admin.end();
    for (let tries = 0; tries < 100 && (await one.listens()) === "LISTEN/NOTIFY"; tries += 1) await sleep(10);
    expect(await one.work({ id: "x", ms: 1 })).toBe("done");
    await untilListening(one);
  });

  it("a plain call sends no notification", async () => {
    const { url } = await freshDatabase();
    const one = instance({ url });
    await untilListening(one);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const heard: unknown[] = [];
    client.on("notification", (message) => heard.push(message));
    const { rows } = await client.query(
      "SELECT value || ' nevertwice' AS id FROM nevertwice.meta WHERE name = 'ledger_id'",
    );
    const { createHash } = await import("node:crypto");
    await client.query(`LISTEN nevertwice_${createHash("sha256").update(rows[0].id).digest("hex").slice(0, 24)}`);
    await Promise.all(Array.from({ length: 50 }, (_, i) => one.work({ id: `${i}`, ms: 1 })));
    await sleep(100);
    expect(heard).toEqual([]);
  });
});
