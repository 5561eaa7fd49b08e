/** F34: a worker killed between its lease and its begin, on every store: what it had not begun comes back as not sent. */
import { nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "../services/addresses.ts";
import { sample } from "../support/effort.mjs";
import { until } from "../support/gate.ts";
import { startS3 } from "../support/s3-server.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";

const WORKER = new URL("./unbegun-worker.mjs", import.meta.url).pathname;
const LEASE_MS = 1_500;
const env = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };

afterAll(cleanUp);

const stores: Record<string, () => Promise<string>> = {
  SQLite: async () => `sqlite:${temporaryFolder()}/ledger.db`,
  "a JSONL file": async () => `file:${temporaryFolder()}/ledger.jsonl`,
  PostgreSQL: async () => (await freshDatabase()).url,
  Redis: async () => `${await flushableRedisDb()}?prefix=${freshPrefix().slice(0, -1)}`,
  S3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    return `${server.url}?region=eu&endpoint=${encodeURIComponent(server.endpoint)}`;
  },
};

async function scene(store: string, { orderKey }: { orderKey?: string } = {}) {
  Object.assign(process.env, env);
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  const send = nt.action("mail", {
    key: ["id"],
    lease: LEASE_MS,
    timeout: LEASE_MS / 2,
    run: async (_: { id: number }) => 0,
  });
  const ids = Array.from({ length: 10 }, (_, id) => id);
  await send.enqueueMany(
    ids.map((id) => ({ id })),
    orderKey === undefined ? {} : { orderKey },
  );
  const start = (dieAfter?: string) =>
    startProgram(WORKER, { store, leaseMs: LEASE_MS, doubt: "hold", ...(dieAfter && { dieAfter }) }, { env });
  const states = async () => (await nt.store.stats()).states;
  const ran = (worker: { said: { event: string; id: number }[] }) =>
    worker.said.filter(({ event }) => event === "ran").map(({ id }) => id);
  return { ids, start, states, ran, nt, send };
}

describe.each(sample(Object.keys(stores), 2))("a worker on %s", (name) => {
  const open = stores[name] as () => Promise<string>;

  it("killed after its lease and before any begin: all of it runs once, nothing is in doubt", async () => {
    const { ids, start, states, ran } = await scene(await open());
    const victim = start("lease");
    expect(await victim.exited).toMatchObject({ signal: "SIGKILL" });
    expect(ran(victim)).toEqual([]);
    expect(await states()).toMatchObject({ claimed: 10, sent: 0 });
    const next = start();
    await until(async () => (await states()).confirmed === 10, "the work of the dead worker");
    expect(ran(next).sort((a, b) => a - b)).toEqual(ids);
    expect(await states()).toMatchObject({ unknown: 0 });
    next.end();
  });

  it("killed when the first of ten ordered ones had begun: that one is in doubt, the others are not", async () => {
    const { start, states, ran } = await scene(await open(), { orderKey: "acct" });
    const victim = start("begin");
    expect(await victim.exited).toMatchObject({ signal: "SIGKILL" });
    expect(ran(victim)).toEqual([0]);
    const next = start();
    await until(async () => (await states()).unknown === 1, "the doubt");
    // The others wait for somebody to settle the first: none of them was sent.
    expect(ran(next)).toEqual([]);
    const { unknown, sent, confirmed } = await states();
    expect({ unknown, sent, confirmed: confirmed <= 1 }).toEqual({ unknown: 1, sent: 0, confirmed: true });
    next.end();
  });
});

describe.each(["PostgreSQL", "Redis"])("a lease on %s whose reply is lost on the way", (name) => {
  it.each(["survives", "dies"])("comes back as not sent and runs once, where the process %s", async (fate) => {
    const url = await (stores[name] as () => Promise<string>)();
    const { states, start, ran, ids } = await scene(url);
    const proxy = await tcpProxy(new URL(url));
    onTestFinished(() => proxy.close());
    const sent: number[] = [];
    const nt = nevertwice({ store: proxy.through(url), sweep: "100ms", onWarning: () => {} });
    nt.action("mail", {
      key: ["id"],
      lease: LEASE_MS,
      timeout: LEASE_MS / 2,
      run: async ({ id }: { id: number }) => void sent.push(id),
    });
    // Known to the server and to the store before the network turns bad.
    await nt.store.stats();
    const lease = nt.store.lease.bind(nt.store);
    let leases = 0;
    nt.store.lease = async (query) => {
      leases += 1;
      if (leases !== 1) return lease(query);
      proxy.when(() => true, "reset");
      // Whatever reconnected while nothing came back is cut as well; from then on the network is fine.
      const fine = setTimeout(() => proxy.behave("reset"), 300);
      try {
        const rows = await lease(query);
        // A driver that asks again by itself gets another answer: this one is lost all the same.
        throw new Error(`the reply with ${rows.length} rows was lost`);
      } finally {
        clearTimeout(fine);
        proxy.behave("reset");
      }
    };
    const worker = nt.worker({ concurrency: 20, poll: "50ms" });
    await worker.start();
    await until(() => leases > 0, "the lease");
    if (fate === "dies") {
      await worker.stop();
      const next = start();
      await until(async () => (await states()).confirmed === 10, "the lost lease");
      expect([...sent, ...ran(next)].sort((a, b) => a - b)).toEqual(ids);
      next.end();
    } else {
      await until(async () => (await states()).confirmed === 10, "the lost lease");
      expect(sent.sort((a, b) => a - b)).toEqual(ids);
    }
    expect(await states()).toMatchObject({ unknown: 0 });
    await nt.close();
  });
});
