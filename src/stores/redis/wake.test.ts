/** Who waits for another process is woken by the settle itself, over pub/sub; where that is lost, looking now and then serves. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import { describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshPrefix } from "../../../test/services/addresses.ts";
import { DURABLE, ownRedis } from "../../../test/services/on-demand.ts";
import { gate, until } from "../../../test/support/gate.ts";
import { manualClock } from "../../../test/support/manual-clock.ts";
import { REDIS_CLIENTS } from "../../../test/support/redis-clients.ts";
import type { Store } from "../../core/store.ts";
import type { Ledger } from "../../engine/ledger.ts";
import { WaitBudget } from "../../engine/wait-budget.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { type RedisStoreOptions, redisStore } from "./index.ts";

const url = await flushableRedisDb();

function program(options: RedisStoreOptions) {
  const nt = nevertwice({ store: redisStore({ allowUnsafe: true, ...options }), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

/** A caller's patience whose clock stands still: no poll ever comes, so only the store can end it. */
function woken(store: Store, key: string): Promise<boolean> {
  const patience = new WaitBudget({ clock: manualClock(), random: Math.random }, 10_000);
  return patience.change({ store } as Ledger, key);
}

/** Settles again and again: what is settled before the other side has subscribed wakes nobody. */
async function settleUntil(store: Store, key: string, over: () => boolean): Promise<void> {
  const sent = sampleRecord({ key, state: "sent", fence: 1, holder: "h" });
  const [put] = await store.write([{ record: sent, expected: null }]);
  let version = put?.ok ? put.version : 0;
  await until(async () => {
    for (const state of ["confirmed", "sent"] as const) {
      const [next] = await store.write([{ record: { ...sent, state }, expected: version }]);
      if (next?.ok) version = next.version;
    }
    await new Promise((done) => setTimeout(done, 20));
    return over();
  }, "the wake");
}

describe.each(Object.entries(REDIS_CLIENTS))("waiting (%s)", (_, connect) => {
  async function two() {
    const prefix = freshPrefix().slice(0, -1);
    const clients = await Promise.all([connect(url), connect(url)]);
    onTestFinished(async () => {
      for (const one of clients) await one.end();
    });
    return clients.map(({ client }) => program({ client, prefix }));
  }

  it("is ended by the settle of another process, with no poll at all", async () => {
    const [one, other] = await two();
    let over = false;
    const waiting = woken((other as typeof one & object).store, "nt1_waited").then((ended) => {
      over = ended;
    });
    await settleUntil((one as typeof one & object).store, "nt1_waited", () => over);
    await waiting;
    expect(over).toBe(true);
  });

  it("an idle worker is woken by each enqueue of another process, and not by what is due later", async () => {
    const [one, other] = await two();
    const begun: number[] = [];
    const ring = { key: ["id"] as const, run: async ({ id }: { id: number }) => void begun.push(id) };
    const send = one?.action("ring", ring);
    other?.action("ring", ring);
    // Within this test it never looks by itself.
    await other?.worker({ poll: "1h" }).start();
    for (const id of [1, 2, 3]) {
      await send?.enqueue({ id: 100 + id }, { delay: "1h" });
      await send?.enqueue({ id });
      await until(() => begun.length === id, `ring ${id}`);
    }
    expect(begun).toEqual([1, 2, 3]);
  });

  it("F1: many duplicates in two processes wait for one attempt and get its result", async () => {
    const programs = await two();
    const finish = gate();
    let attempts = 0;
    const works = programs.map((nt) =>
      nt.action("work", {
        key: ["id"],
        wait: "20s",
        run: async (_: { id: number }) => {
          attempts += 1;
          await finish.opened;
          return "the one result";
        },
      }),
    );
    const callers = Array.from({ length: 100 }, (_, n) => works[n % 2]?.({ id: 1 }));
    await until(() => attempts === 1, "the attempt");
    finish.open();
    expect(new Set(await Promise.all(callers))).toEqual(new Set(["the one result"]));
    expect(attempts).toBe(1);
  });
});

describe("where pub/sub does not arrive", () => {
  /** What two programs come to: one works, the other waits. */
  async function waitsThrough(optionsOf: () => Promise<RedisStoreOptions> | RedisStoreOptions): Promise<void> {
    const [one, other] = [program(await optionsOf()), program(await optionsOf())];
    const finish = gate();
    const begun = gate();
    const options = { key: ["id"], wait: "20s" } as const;
    const works = one.action("work", {
      ...options,
      run: async (_: { id: number }) => {
        begun.open();
        await finish.opened;
        return "done";
      },
    });
    const waits = other.action("work", { ...options, run: async (_: { id: number }) => expect.unreachable() });
    const first = works({ id: 1 });
    await begun.opened;
    const second = waits.attempt({ id: 1 });
    await until(async () => (await waits.status({ id: 1 })).status === "in_flight", "the wait");
    finish.open();
    expect(await second).toMatchObject({ status: "done", result: "done", replayed: true });
    expect(await first).toBe("done");
  }

  const drivers = {
    ioredis: async (to: string) => {
      const client = new Redis(to);
      client.on("error", () => {});
      onTestFinished(() => client.disconnect());
      return client;
    },
    "node-redis": async (to: string) => {
      const client = createClient({ url: to });
      client.on("error", () => {});
      await client.connect();
      onTestFinished(() => client.destroy());
      return client;
    },
  };

  it.each(Object.entries(drivers))("a user who may use no channel: looking now and then serves (%s)", async (_, of) => {
    const server = await ownRedis(DURABLE);
    await server.call("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "resetchannels", "+@all");
    const to = `redis://deaf:pw@127.0.0.1:${server.port}`;
    await waitsThrough(async () => ({ client: await of(to) }));
    expect(await server.call("PUBSUB", "CHANNELS"), "nobody listens").toEqual([]);
  });

  it.each(Object.entries(drivers))("a subscription that was cut is taken up again (%s)", async (_, of) => {
    const server = await ownRedis(DURABLE);
    const [one, other] = [program({ client: await of(server.url) }), program({ client: await of(server.url) })];
    let over = false;
    const listen = async () => {
      over = await woken(other.store, "nt1_cut");
    };
    void listen();
    const subscribed = async () => ((await server.call("PUBSUB", "CHANNELS")) as string[]).length > 0;
    await until(subscribed, "the subscription");
    expect(Number(await server.call("CLIENT", "KILL", "TYPE", "pubsub"))).toBe(1);
    await waitsThrough(() => ({ url: server.url }));
    await settleUntil(one.store, "nt1_cut", () => over);
    expect(over).toBe(true);
  });

  it("an idle worker whose driver gave the subscription up hears of work that came meanwhile, and of what comes then", async () => {
    const server = await ownRedis(DURABLE);
    const client = new Redis(server.url, { retryStrategy: () => null });
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    const [one, other] = [program({ url: server.url }), program({ client })];
    const begun: number[] = [];
    const ring = { key: ["id"] as const, run: async ({ id }: { id: number }) => void begun.push(id) };
    const send = one.action("ring", ring);
    other.action("ring", ring);
    await other.worker({ poll: "1h" }).start();
    const subscribed = async () => ((await server.call("PUBSUB", "CHANNELS")) as string[]).length > 0;
    await until(subscribed, "the subscription");
    expect(await server.call("PUBSUB", "CHANNELS"), "not the settles of everybody").toEqual(["nevertwice:due"]);
    expect(Number(await server.call("CLIENT", "KILL", "TYPE", "pubsub"))).toBe(1);
    for (const id of [1, 2]) {
      await send.enqueue({ id });
      await until(() => begun.length === id, `ring ${id}`);
    }
  });
});
