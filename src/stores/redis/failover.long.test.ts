/** F28: what a failover takes. F29: a slot on its way to another node, under load. */
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { DURABLE, ownRedis, ownRedisCluster, ownRedisReplica, proxyTo } from "../../../test/services/on-demand.ts";
import { gate } from "../../../test/support/gate.ts";
import { startProvider } from "../../../test/support/provider.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import { bucketOf, Names, slotOf, TAGS } from "./buckets.ts";
import { type RedisClient, redisStore } from "./index.ts";

function programOn(options: Parameters<typeof redisStore>[0]): Nevertwice {
  const nt = nevertwice({ store: redisStore(options), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

type Order = { id: number };

describe("F28: a replica is promoted that never heard of a claim", () => {
  it("a provider that honours keys performs the effect once; hold is refused before anything is sent", async () => {
    const provider = await startProvider();
    const primary = await ownRedis(DURABLE);
    const stream = await proxyTo({ port: primary.port });
    const replica = await ownRedisReplica({ port: stream.port });
    const options = {
      key: ["id"],
      doubt: { resendWithin: "24h" },
      run: (order: Order, { key }: { key: string }) => provider.send(order, key),
    } as const;
    const before = programOn({ url: primary.url });
    const sending = gate();
    const died = gate();
    const send = before.action("send", {
      ...options,
      run: async (order: Order, ctx) => {
        const answer = await options.run(order, ctx);
        sending.open();
        // Its primary is gone before it can confirm.
        await died.opened;
        return answer;
      },
    });
    await expect(before.once("hold", [1], () => "never")).rejects.toMatchObject({ code: "CONFIG" });

    stream.set("blackhole");
    const first = send({ id: 1 }).catch(() => "the ledger is gone");
    await sending.opened;
    await primary.stop("kill");
    await replica.promote();

    const after = programOn({ url: replica.url });
    const again = after.action("send", options);
    expect(await again.status({ id: 1 }), "the claim is lost").toMatchObject({ status: "absent" });
    expect(await again({ id: 1 })).toEqual({ id: "msg_1" });
    died.open();
    await first;
    expect(provider.requests).toHaveLength(2);
    expect(provider.effects).toHaveLength(1);
  });
});

const CLUSTER_CLIENTS: Readonly<Record<string, (ports: readonly number[]) => Promise<RedisClient>>> = {
  ioredis: async (ports) => {
    const client = new Cluster(ports.map((port) => ({ host: "127.0.0.1", port })));
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    return client;
  },
  "node-redis": async (ports) => {
    const client = createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })) });
    client.on("error", () => {});
    await client.connect();
    onTestFinished(() => client.destroy());
    return client;
  },
};

type Node = Awaited<ReturnType<typeof ownRedisCluster>>["nodes"][number];

/** As redis-cli --cluster reshard does it, with a pause between keys so that the callers meet every stage. */
async function moveSlot(slot: number, from: Node, to: Node, others: readonly Node[]): Promise<number> {
  const [source, target] = [String(await from.call("CLUSTER", "MYID")), String(await to.call("CLUSTER", "MYID"))];
  await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source);
  await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target);
  let moved = 0;
  for (;;) {
    const keys = (await from.call("CLUSTER", "GETKEYSINSLOT", slot, 5)) as string[];
    if (keys.length === 0) break;
    await from.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", ...keys);
    moved += keys.length;
    await new Promise((done) => setTimeout(done, 5));
  }
  for (const node of [to, from, ...others]) await node.call("CLUSTER", "SETSLOT", slot, "NODE", target).catch(() => {});
  return moved;
}

describe.each(Object.entries(CLUSTER_CLIENTS))("F29: slots move under load (%s)", (_, connect) => {
  it("every intent has its effect once, no record and no entry is lost, and CROSSSLOT never happens", async () => {
    const cluster = await ownRedisCluster();
    const [one, two, three] = cluster.nodes as [Node, Node, Node];
    const ports = cluster.nodes.map(({ port }) => port);
    const effects = new Map<number, number>();
    const programs = await Promise.all(
      [1, 2].map(async () => programOn({ client: await connect(ports), allowUnsafe: true, timeoutMs: 10_000 })),
    );
    const actions = programs.map((nt) =>
      nt.action("send", {
        key: ["id"],
        keep: "forever",
        run: async ({ id }: Order) => {
          effects.set(id, (effects.get(id) ?? 0) + 1);
          return id;
        },
      }),
    );
    let next = 0;
    let moving = true;
    const failures: string[] = [];
    // Two programs call every intent at the same time, so that every record is raced for.
    const caller = async () => {
      while (moving && next < 20_000) {
        next += 1;
        const id = next;
        const both = await Promise.allSettled(actions.map((send) => send({ id })));
        for (const end of both) if (end.status === "rejected") failures.push(String(end.reason));
      }
    };
    const callers = Array.from({ length: 24 }, caller);
    await new Promise((done) => setTimeout(done, 300));
    // The first buckets lie on the first node, one after the other.
    let moved = 0;
    for (const tag of TAGS.slice(0, 3)) moved += await moveSlot(slotOf(tag), one, two, [three]);
    moving = false;
    await Promise.all(callers);

    expect(moved).toBeGreaterThan(10);
    expect(failures).toEqual([]);
    expect([...effects.values()].filter((count) => count !== 1)).toEqual([]);
    expect(effects.size).toBe(next);
    const { store } = programs[0] as Nevertwice;
    expect(await store.stats()).toMatchObject({ total: next, states: { confirmed: next }, lapsed: 0 });
    const ids = [1, Math.ceil(next / 2), next];
    for (const id of ids) expect(await actions[1]?.attempt({ id })).toMatchObject({ status: "done", result: id });
    expect(await store.sweep({ limit: 1_000, thorough: true }), "no entry without its record").toBe(0);
  });
});

it("a record and its index share a slot", () => {
  const names = new Names("x");
  const tagOf = (name: string) => /\{(.+?)\}/.exec(name)?.[1];
  for (const key of ["nt1_a", "nt1_b", "nt1_é", ""]) expect(tagOf(names.record(key))).toBe(TAGS[bucketOf(key)]);
});
