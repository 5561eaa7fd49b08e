/** Work that a killed worker had claimed and not sent: it reads as waiting, and a worker with several kinds of lease takes it. */
import { randomBytes } from "node:crypto";
import { nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase } from "../services/addresses.ts";
import { until } from "../support/gate.ts";
import { startS3 } from "../support/s3-server.ts";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";

const WORKER = new URL("./abandoned-work.mjs", import.meta.url).pathname;
// Longer than any round trip on a starved machine, short enough that the test need not wait long for its end.
const LEASE_MS = 2_000;
const EACH = 3;

process.env.AWS_ACCESS_KEY_ID ??= "test";
process.env.AWS_SECRET_ACCESS_KEY ??= "test";
afterAll(cleanUp);

const stores: Record<string, () => Promise<string>> = {
  PostgreSQL: async () => `${(await freshDatabase()).url}?schema=t_${randomBytes(4).toString("hex")}`,
  SQLite: async () => `sqlite:${temporaryFolder()}/ledger.db`,
  "a JSONL file": async () => `file:${temporaryFolder()}/ledger.jsonl`,
  Redis: flushableRedisDb,
  S3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    return `s3://ledger/t?endpoint=${encodeURIComponent(server.endpoint)}`;
  },
};

describe.each(Object.entries(stores))("%s", (_, open) => {
  it("a worker killed while it held claimed work of several kinds: status says queued, and another worker runs all of it once", async () => {
    const store = await open();
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const options = {
      key: ["id"] as const,
      keep: "forever",
      doubt: "retry",
      run: async (_: { id: string }) => null,
    } as const;
    const kinds = {
      prepared: nt.action("prepared", options),
      manual: nt.action("manual", options),
      tasks: nt.queue<{ id: string }, null>("tasks", { key: ["id"] }),
    };
    const ids: string[] = [];
    for (const [name, kind] of Object.entries(kinds)) {
      // The queue hands out one task at a time.
      const inputs = Array.from({ length: name === "tasks" ? 1 : EACH }, (_, i) => ({ id: `${name}-${i}` }));
      ids.push(...inputs.map(({ id }) => id));
      if ("addMany" in kind) await kind.addMany(inputs);
      else await kind.enqueueMany(inputs);
    }
    const statusOf = (id: string) => kinds[id.split("-")[0] as keyof typeof kinds].status({ id });
    const states = async () => (await nt.store.stats()).states;

    const victim = startProgram(WORKER, { store, leaseMs: LEASE_MS, holds: true });
    await until(() => victim.said.filter(({ event }) => event === "holding").length === ids.length, "all of it held");
    for (const id of ids) expect(await statusOf(id)).toMatchObject({ status: "in_flight" });
    await victim.kill();

    await until(async () => (await nt.store.stats()).lapsed === ids.length, "the leases over");
    expect(await states()).toMatchObject({ claimed: ids.length });
    for (const id of ids) expect(await statusOf(id)).toMatchObject({ status: "queued", dueAt: expect.any(Number) });

    const rescuer = startProgram(WORKER, { store, leaseMs: 60_000 });
    await until(async () => (await states()).confirmed === ids.length, "all of it done");
    const ran = rescuer.said.filter(({ event }) => event === "ran").map(({ id }) => id);
    expect(ran.sort()).toEqual([...ids].sort());
    for (const id of ids) expect(await statusOf(id)).toMatchObject({ status: "done", attempt: 2 });
    rescuer.end();
  });
});
