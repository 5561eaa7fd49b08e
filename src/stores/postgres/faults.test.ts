/** The faults of a server and of the way to it, at each point of a call. What they must never be is a second effect. */
import { type Nevertwice, nevertwice, notSent } from "nevertwice";
import { type PostgresStoreOptions, postgresStore } from "nevertwice/postgres";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { type FreshDatabase, freshDatabase } from "../../../test/services/addresses.ts";
import { ownPostgres, proxyTo } from "../../../test/services/on-demand.ts";
import { gate, until } from "../../../test/support/gate.ts";
import { closedPort, post, startProvider } from "../../../test/support/provider.ts";
import type { LedgerRecord } from "../../core/record.ts";

function program(options: PostgresStoreOptions): Nevertwice {
  const nt = nevertwice({ store: postgresStore({ listen: false, ...options }), sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

async function superuser({ adminUrl }: FreshDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const EVERYBODY_ELSE = "datname = current_database() AND pid <> pg_backend_pid()";

/** Ends sessions as an administrator, a crash or a failover would. */
async function terminate(admin: pg.Client, where = EVERYBODY_ELSE): Promise<number> {
  const { rowCount } = await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${where}`);
  return rowCount ?? 0;
}

/** Sessions that wait for a lock: the statement has arrived, and is neither done nor refused. */
const BLOCKED = `${EVERYBODY_ELSE} AND wait_event_type = 'Lock'`;

async function ledgerRecord(nt: Nevertwice, key: string): Promise<LedgerRecord> {
  return (await nt.store.read([key]))[0]?.record as LedgerRecord;
}

describe("F1 F2: several programs on one key", () => {
  it.each(["url", "pgbouncerUrl"] as const)(
    "%s: one attempt, the rest wait or replay; other input conflicts",
    async (which) => {
      const database = await freshDatabase();
      let runs = 0;
      const calls = [1, 2, 3, 4].map(() =>
        program({ url: database[which] }).action("send", {
          key: ["id"],
          wait: "30s",
          run: async (_: { id: number; to: string }) => {
            runs += 1;
            await new Promise((done) => setTimeout(done, 50));
            return runs;
          },
        }),
      );
      const outcomes = await Promise.all(
        Array.from({ length: 100 }, (_, i) => calls[i % 4]?.attempt({ id: 1, to: "a" })),
      );
      expect(outcomes.every((one) => one?.status === "done" && one.result === 1)).toBe(true);
      expect(outcomes.filter((one) => one?.status === "done" && !one.replayed)).toHaveLength(1);
      expect(runs).toBe(1);
      for (const call of calls)
        expect(await call.attempt({ id: 1, to: "b" })).toMatchObject({ status: "conflict", differs: ["to"] });
      expect(runs).toBe(1);
    },
  );
});

describe("a backend that is terminated", () => {
  /** The statement that a lock on the whole table stops: the claim, the send mark or the confirm. */
  async function stopped(at: "claim" | "mark" | "confirm") {
    const database = await freshDatabase();
    const nt = program({ url: database.url });
    const admin = await superuser(database);
    const holdUp = await superuser(database);
    await nt.once("warm", [1], () => 1);
    const lock = () => holdUp.query("BEGIN; LOCK TABLE nevertwice.records IN SHARE MODE");
    const unlock = () => holdUp.query("ROLLBACK");
    let runs = 0;
    const send = nt.action("send", {
      key: ["id"],
      wait: 0,
      prepare: async () => {
        if (at === "mark") await lock();
        return "draft";
      },
      run: async (_: Record<string, unknown>) => {
        runs += 1;
        if (at === "confirm") await lock();
        return { id: `msg_${runs}` };
      },
    });
    if (at === "claim") await lock();
    const outcome = send.attempt({ id: 1 }).catch((error: unknown) => error);
    await until(async () => (await terminate(admin, BLOCKED)) > 0, "a blocked statement");
    return { nt, admin, send, outcome, unlock, runs: () => runs };
  }

  it.each(["claim", "mark", "confirm"] as const)("F20 F30: in the %s: written again, one effect", async (at) => {
    const { outcome, unlock, runs, nt } = await stopped(at);
    await unlock();
    const done = (await outcome) as { status: string; key: string };
    expect(done).toMatchObject({ status: "done", replayed: false, result: { id: "msg_1" } });
    expect(runs()).toBe(1);
    expect(await ledgerRecord(nt, done.key)).toMatchObject({ state: "confirmed", attempt: 1, fence: 1 });
  });

  it.each(["claim", "mark"] as const)(
    "F30: in the %s, again and again: nothing is sent without the ledger's word",
    async (at) => {
      const { outcome, unlock, runs, send, admin } = await stopped(at);
      let over = false;
      void outcome.then(() => {
        over = true;
      });
      await until(async () => {
        await terminate(admin, BLOCKED);
        return over;
      }, "the end of the call");
      expect(await outcome).toMatchObject({ code: "STORE_UNAVAILABLE" });
      expect(runs()).toBe(0);
      await unlock();
      // What had been claimed is taken over when its lease is over, or at once where nothing was.
      expect(["done", "in_flight"]).toContain((await send.attempt({ id: 1 })).status);
    },
  );

  it("F6 F7: during the run: the confirm takes another session", async () => {
    const database = await freshDatabase();
    const nt = program({ url: database.url });
    const admin = await superuser(database);
    let runs = 0;
    const outcome = await nt
      .action("send", {
        key: ["id"],
        run: async (_: Record<string, unknown>) => {
          await terminate(admin);
          return ++runs;
        },
      })
      .attempt({ id: 1 });
    expect(outcome).toMatchObject({ status: "done", result: 1 });
    expect(await ledgerRecord(nt, outcome.key)).toMatchObject({ state: "confirmed", attempt: 1 });
  });

  it.each(["url", "pgbouncerUrl"] as const)("F30 F32: under load (%s): every intent once", async (which) => {
    const database = await freshDatabase();
    const nt = program({ url: database[which], timeout: "5s" });
    const admin = await superuser(database);
    await nt.once("warm", [1], () => 1);
    const effects = new Map<number, number>();
    const send = nt.action("send", {
      key: ["id"],
      run: async ({ id }: { id: number }) => {
        effects.set(id, (effects.get(id) ?? 0) + 1);
        return id;
      },
    });
    const ids = Array.from({ length: 300 }, (_, id) => id);
    let finished = false;
    const settled = async (id: number) => {
      await until(
        () =>
          send.attempt({ id }).then(
            ({ status }) => status === "done",
            () => false,
          ),
        `intent ${id}`,
      );
    };
    const killer = (async () => {
      for (let kills = 0; kills < 10 && !finished; kills += 1) {
        await terminate(admin);
        await new Promise((done) => setTimeout(done, 20));
      }
    })();
    await Promise.all(ids.map(settled));
    finished = true;
    await killer;
    expect([...effects.values()].every((times) => times === 1)).toBe(true);
    expect(effects.size).toBe(ids.length);
  });
});

describe("F20: the way to the server, at each write of a call", () => {
  const points = ["claim", "mark", "confirm"] as const;
  const ways = ["cut-reply", "reset", "blackhole"] as const;
  const cases = points.flatMap((at) => ways.map((how) => [at, how] as const));

  it.each(cases)("in the %s (%s): recognised as its own or written again, one effect", async (at, how) => {
    const { url } = await freshDatabase();
    const proxy = await proxyTo(url);
    const nt = program({ url: proxy.url(url), timeout: "1s" });
    await nt.once("warm", [1], () => 1);
    let runs = 0;
    const struck = gate();
    const arm = (point: string) => {
      if (point !== at) return;
      void proxy.when(/nevertwice"?\.records|nevertwice_/, how).then(() => {
        struck.open();
        setTimeout(() => proxy.set("pass"), how === "blackhole" ? 1_200 : 30);
      });
    };
    const send = nt.action("send", {
      key: ["id"],
      wait: "20s",
      prepare: async () => arm("mark"),
      run: async (_: Record<string, unknown>) => {
        runs += 1;
        arm("confirm");
        return runs;
      },
    });
    arm("claim");
    const outcome = await send.attempt({ id: 1 });
    await struck.opened;
    expect(outcome).toMatchObject({ status: "done", result: 1 });
    expect(runs).toBe(1);
    expect(await ledgerRecord(program({ url }), outcome.key)).toMatchObject({ state: "confirmed", fence: 1 });
  });
});

describe("what providers do, with the ledger in PostgreSQL", () => {
  async function calls(honoursKeys: boolean, doubt: "hold" | { resendWithin: "24h" }) {
    const { url } = await freshDatabase();
    const provider = await startProvider({ honoursKeys });
    const nt = program({ url });
    const send = nt.action("send", {
      key: ["id"],
      doubt,
      wait: "20s",
      retry: { attempts: 5, backoff: 5, max: 20 },
      run: (input: { id: number }, { key }) => provider.send(input, key),
    });
    return { provider, send, nt };
  }

  it.each(["drop-after-effect", "500-after-effect"] as const)(
    "F21 F23: %s: a provider with keys gets the same again, any other is held",
    async (mode) => {
      const keyed = await calls(true, { resendWithin: "24h" });
      keyed.provider.plan(mode);
      expect(await keyed.send.attempt({ id: 1 })).toMatchObject({ status: "done", result: { id: "msg_1" } });
      expect(keyed.provider.effects).toHaveLength(1);
      expect(new Set(keyed.provider.requests.map(({ key }) => key)).size).toBe(1);

      const plain = await calls(false, "hold");
      plain.provider.plan(mode);
      expect(await plain.send.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
      expect(await plain.send.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
      expect(plain.provider.effects).toHaveLength(1);
    },
  );

  it("F23: in progress (409) and a cached 500: the same key, no fresh one", async () => {
    const { provider, send } = await calls(true, { resendWithin: "24h" });
    provider.plan("409");
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "done" });
    provider.plan("500-cached");
    expect(await send.attempt({ id: 2 })).toMatchObject({ status: "unknown" });
    expect(provider.effects).toHaveLength(2);
    expect(new Set(provider.requests.map(({ key }) => key)).size).toBe(2);
  });

  it("F22: a provider that cannot be reached: surely not sent, tried again", async () => {
    const { url } = await freshDatabase();
    const provider = await startProvider();
    const nowhere = await closedPort();
    let tries = 0;
    const send = program({ url }).action("send", {
      key: ["id"],
      retry: { attempts: 3, backoff: 1, max: 2 },
      run: (input: { id: number }, { key }) => {
        tries += 1;
        return tries < 3 ? post(nowhere, input, key) : provider.send(input, key);
      },
    });
    expect(await send.attempt({ id: 1 })).toMatchObject({ status: "done", attempt: 3 });
    expect(provider.effects).toHaveLength(1);
  });
});

describe("F44: the server is down", () => {
  it("refused and nothing run; run where asked, with an alert; on again by itself when it is back", async () => {
    const server = await ownPostgres();
    const nt = program({ url: server.url, timeout: "2s" });
    const events: string[] = [];
    nt.on(({ type }) => events.push(type));
    let runs = 0;
    const run = async (_: { id: number }) => ++runs;
    const strict = nt.action("strict", { key: ["id"], wait: 0, run });
    const open = nt.action("open", { key: ["id"], wait: 0, whenStoreDown: "run", run });
    expect(await strict({ id: 1 })).toBe(1);
    await server.stop("kill");
    await expect(strict({ id: 2 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(runs).toBe(1);
    expect(await open({ id: 2 })).toBe(2);
    expect(events).toContain("bypassed");
    await server.start();
    await until(
      () =>
        strict.attempt({ id: 1 }).then(
          ({ status }) => status === "done",
          () => false,
        ),
      "the way back",
    );
    expect(await strict.attempt({ id: 1 })).toMatchObject({ replayed: true, result: 1 });
    expect(runs).toBe(2);
  });

  it("it dies while the effect runs: the result is told to the ledger when it is back, and not sent again", async () => {
    const server = await ownPostgres();
    const nt = program({ url: server.url, timeout: "2s" });
    let runs = 0;
    const send = nt.action("send", {
      key: ["id"],
      lease: "60s",
      wait: "30s",
      run: async (_: Record<string, unknown>) => {
        runs += 1;
        if (runs === 1) await server.stop("kill");
        return runs;
      },
    });
    // Told what happened, or that the ledger could not be told: never that it failed.
    const told = await send.attempt({ id: 1 }).then(
      ({ status }) => status,
      (error: { code: string }) => error.code,
    );
    expect(["done", "unknown", "STORE_UNAVAILABLE"]).toContain(told);
    await server.start();
    const again = program({ url: server.url }).action("send", {
      key: ["id"],
      wait: 0,
      run: async (_: Record<string, unknown>) => ++runs,
    });
    await until(async () => {
      await nt.sweep().catch(() => {});
      return again.status({ id: 1 }).then(
        ({ status }) => status === "done",
        () => false,
      );
    }, "the late confirm");
    expect(await again.attempt({ id: 1 })).toMatchObject({ status: "done", result: 1, replayed: true });
    expect(runs).toBe(1);
  });
});

it("F4: what was claimed and surely not sent is given back at once, not after its lease", async () => {
  const { url } = await freshDatabase();
  const nt = program({ url });
  let tries = 0;
  const send = nt.action("send", {
    key: ["id"],
    lease: "60s",
    wait: 0,
    prepare: async () => {
      tries += 1;
      if (tries === 1) throw notSent(new Error("no draft"));
    },
    run: async (_: Record<string, unknown>) => "sent",
  });
  expect(await send.attempt({ id: 1 })).toMatchObject({ status: "failed", final: false });
  expect(await send.attempt({ id: 1 })).toMatchObject({ status: "done", result: "sent" });
});
