/** What guards keep in the ledger beside the records of calls, on every store: what was prevented, limits, one more run. */
import { join } from "node:path";
import { nevertwice, type Store } from "nevertwice";
import { guardTool, onceMoreTool } from "nevertwice/agents";
import { fileStore } from "nevertwice/file";
import { memoryStore } from "nevertwice/memory";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import { expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase, freshPrefix } from "./services/addresses.ts";
import { temporaryFolder } from "./support/each-store.ts";
import { startS3 } from "./support/s3-server.ts";

type Connect = () => Store;

const STORES: Readonly<Record<string, () => Promise<Connect>>> = {
  memory: async () => {
    const store = memoryStore();
    return () => ({ ...sharing(store), close: async () => {} });
  },
  sqlite: async () => {
    const path = join(temporaryFolder(), "ledger.db");
    return () => sqliteStore({ path });
  },
  file: async () => {
    const path = join(temporaryFolder(), "ledger.jsonl");
    return () => fileStore({ path });
  },
  postgres: async () => {
    const { url } = await freshDatabase();
    return () => postgresStore({ url, listen: false });
  },
  redis: async () => {
    const [url, prefix] = [await flushableRedisDb(), freshPrefix().slice(0, -1)];
    return () => redisStore({ url, prefix });
  },
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    return () => s3Store({ url: server.url, endpoint: server.endpoint, credentials });
  },
};

/** What a memory store has, bound to it: its data outlives who closes it. */
function sharing(store: Store): Store {
  return {
    name: store.name,
    traits: store.traits,
    now: () => store.now(),
    ...(store.instant && { instant: () => (store.instant as NonNullable<Store["instant"]>)() }),
    read: (keys) => store.read(keys),
    write: (puts) => store.write(puts),
    lease: (query) => store.lease(query),
    list: (query) => store.list(query),
    stats: (query) => store.stats(query),
    sweep: (query) => store.sweep(query),
    close: () => store.close(),
  };
}

function opener(connect: Connect) {
  return (options: { readonly tenant?: string } = {}) => {
    const nt = nevertwice({ store: connect(), onWarning: () => {}, ...options });
    onTestFinished(() => nt.close());
    return nt;
  };
}

const EACH = Object.entries(STORES);

it.each(EACH)("%s: what several processes prevented adds up, and close() writes it", async (_, make) => {
  const open = opener(await make());
  const sent: string[] = [];
  const sending = (nt: ReturnType<typeof open>) =>
    guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1" }, async ({ to }: { to: string }) => sent.push(to));
  for (let process = 0; process < 3; process += 1) {
    const nt = open();
    const send = sending(nt);
    for (let call = 0; call < 2; call += 1) await send({ to: "ada" }, undefined);
    await nt.close();
  }
  expect(sent).toEqual(["ada"]);
  const nt = open();
  expect(await nt.prevented({ since: "1d" })).toMatchObject({
    prevented: 5,
    observed: 0,
    entries: [{ action: "send_mail", cause: "done", prevented: 5, tenant: "" }],
  });
});

it.each(EACH)(
  "%s: under mode: observe all of it runs, and what would have been prevented is known",
  async (_, make) => {
    const open = opener(await make());
    const sent: string[] = [];
    for (let process = 0; process < 2; process += 1) {
      const nt = open();
      const send = guardTool(
        nt,
        { name: "send_mail", key: ["to"], scope: "s1", mode: "observe" },
        async ({ to }: { to: string }) => sent.push(to),
      );
      for (let call = 0; call < 2; call += 1) await send({ to: "ada" }, undefined);
      await nt.close();
    }
    expect(sent).toHaveLength(4);
    expect(await open().prevented()).toMatchObject({ prevented: 0, observed: 3, entries: [{ cause: "done" }] });
  },
);

it.each(EACH)("%s: a limit holds over programs, and a place that was given back is free", async (_, make) => {
  const open = opener(await make());
  let letGo = () => {};
  const gate = new Promise<void>((done) => {
    letGo = done;
  });
  let running = 0;
  const toolOf = (nt: ReturnType<typeof open>) =>
    guardTool(
      nt,
      { name: "send_mail", key: ["to"], scope: "s1", limit: { concurrency: 2 } },
      async ({ to }: { to: string }) => {
        running += 1;
        if (to.startsWith("slow")) await gate;
        return to;
      },
    );
  const [here, there] = [toolOf(open()), toolOf(open())];
  const slow = [here({ to: "slow 1" }, undefined)];
  await expect.poll(() => running).toBe(1);
  slow.push(there({ to: "slow 2" }, undefined));
  await expect.poll(() => running).toBe(2);
  for (const tool of [here, there])
    expect(await tool.answer({ to: "z" }, undefined)).toMatchObject({ kind: "refused" });
  letGo();
  await Promise.all(slow);
  await expect.poll(async () => (await there.answer({ to: "z" }, undefined)).kind, { timeout: 10_000 }).toBe("result");
});

it.each(EACH)("%s: one more run is asked for, granted and used once, over programs", async (_, make) => {
  const open = opener(await make());
  const sent: string[] = [];
  const sending = (nt: ReturnType<typeof open>) =>
    guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1" }, async ({ to }: { to: string }) => sent.push(to));
  const [one, two] = [open(), open()];
  const [here, there] = [sending(one), sending(two)];
  await here({ to: "ada" }, undefined);
  const { items } = await one.store.list({ action: "send_mail", limit: 1 });
  const key = items[0]?.record.key as string;
  for (const nt of [one, two]) await onceMoreTool(nt).execute({ reference: key, reason: "a second copy" });
  expect(await two.onceMoreRequests()).toMatchObject([{ key, action: "send_mail", reason: "a second copy" }]);
  expect(await there({ to: "ada" }, undefined)).toBe(1);
  await two.grantOnceMore({ key }, { by: "kim", reason: "she lost it" });
  expect(await one.onceMoreRequests()).toEqual([]);
  const calls = [here, there, here, there].map((send) => send({ to: "ada" }, undefined));
  expect(await Promise.all(calls)).toEqual([2, 2, 2, 2]);
  expect(await there({ to: "ada" }, undefined)).toBe(2);
  expect(sent).toHaveLength(2);
});
