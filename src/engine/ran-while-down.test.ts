/** O15: while the store is down, an action that runs without it runs an intent once in this process, and the ledger hears of it. */
import { notSent, rejected } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore, kinds, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";

const KEY = Buffer.alloc(32, 1).toString("base64");

interface Mail {
  to: string;
  body?: string;
}

eachStore("O15: the store is down", (open) => {
  function bench(options: Parameters<typeof open>[0] = {}) {
    const faults: Faults = {};
    return { ...open({ ...options, wrap: (store) => faulty(store, faults) }), faults };
  }

  it("three identical calls have one effect; the two after the first get its result", async () => {
    const { nt, faults, events } = bench();
    let runs = 0;
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => `m${++runs}` });
    faults.down = true;
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "done", result: "m1", replayed: false });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "done", result: "m1", replayed: true });
    expect(await send({ to: "a" })).toBe("m1");
    expect(await send({ to: "b" })).toBe("m2");
    expect(kinds(events).filter((kind) => kind === "bypassed")).toHaveLength(2);
  });

  it("fifty calls at once have one effect", async () => {
    const { nt, faults } = bench();
    let runs = 0;
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => `m${++runs}` });
    faults.down = true;
    const results = await Promise.all(Array.from({ length: 50 }, () => send({ to: "a" })));
    expect(new Set(results)).toEqual(new Set(["m1"]));
  });

  it("the record is written when the store is back, so that another process gets the result", async () => {
    const { nt, faults, another, store } = bench();
    let runs = 0;
    const options = { key: ["to"] as const, whenStoreDown: "run" as const, run: async (_mail: Mail) => `m${++runs}` };
    const send = nt.action("send", options);
    faults.down = true;
    await send({ to: "a" });
    faults.down = false;
    const key = await send.keyOf({ to: "a" });
    await until(async () => (await store.read([key]))[0]?.record.state === "confirmed");
    const [stored] = await store.read([key]);
    expect(stored?.record.history).toMatchObject([{ event: "ran-unguarded", to: "confirmed" }]);
    expect(await another().action("send", options).attempt({ to: "a" })).toMatchObject({
      replayed: true,
      result: "m1",
    });
    expect(runs).toBe(1);
  });

  it.each(["call", "status", "enqueue", "close", "worker"] as const)(
    "a %s after the outage tells the ledger first, and nothing is sent again",
    async (next) => {
      const { nt, faults, another, store, events } = bench();
      let runs = 0;
      const run = async (_mail: Mail) => `m${++runs}`;
      const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run });
      // Queued by another process before the outage.
      if (next === "worker")
        await another()
          .action("send", { key: ["to"], run })
          .enqueue({ to: "a" });
      faults.down = true;
      await send({ to: "a" });
      faults.down = false;
      const key = await send.keyOf({ to: "a" });
      const worker = nt.worker();
      if (next === "call") expect(await send({ to: "a" })).toBe("m1");
      if (next === "status") expect(await send.status({ to: "a" })).toMatchObject({ status: "done", result: "m1" });
      if (next === "enqueue") expect(await send.enqueue({ to: "a" })).toMatchObject({ created: false, result: "m1" });
      if (next === "close") await nt.close();
      if (next !== "close") await worker.drain();
      expect(events.filter(({ type }) => type === "warning")).toEqual([]);
      const [stored] = await store.read([key]).catch(() => []);
      if (next !== "close") expect(stored?.record.state).toBe("confirmed");
      expect(runs).toBe(1);
    },
  );

  it("another input under the same key is a conflict meanwhile", async () => {
    const { nt, faults } = bench();
    let runs = 0;
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => `m${++runs}` });
    faults.down = true;
    await send({ to: "a", body: "one" });
    expect(await send.attempt({ to: "a", body: "two" })).toMatchObject({ status: "conflict", differs: ["body"] });
    expect(runs).toBe(1);
  });

  it("a doubt is held meanwhile, and is visible in the ledger afterwards", async () => {
    const { nt, faults, store } = bench();
    let runs = 0;
    const send = nt.action("send", {
      key: ["to"],
      whenStoreDown: "run",
      run: async (_mail: Mail): Promise<string> => {
        runs += 1;
        throw new Error("reset by peer");
      },
    });
    faults.down = true;
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "unknown" });
    expect(runs).toBe(1);
    faults.down = false;
    const key = await send.keyOf({ to: "a" });
    await until(async () => (await store.read([key]))[0]?.record.state === "unknown");
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "unknown" });
    expect(runs).toBe(1);
    expect(await store.read([await send.keyOf({ to: "a" })])).toMatchObject([
      { record: { state: "unknown", error: { message: "reset by peer" } } },
    ]);
  });

  it("what surely did not happen may be tried again meanwhile; what was refused for good is not", async () => {
    const { nt, faults } = bench();
    let runs = 0;
    const send = nt.action("send", {
      key: ["to"],
      whenStoreDown: "run",
      run: async (mail: Mail) => {
        runs += 1;
        if (mail.to === "nobody") throw rejected(new Error("no such address"));
        if (runs < 3) throw notSent(new Error("refused"));
        return `m${runs}`;
      },
    });
    faults.down = true;
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "failed", final: false });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "failed", final: false });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "done", result: "m3" });
    expect(await send.attempt({ to: "nobody" })).toMatchObject({ status: "failed", final: true });
    expect(await send.attempt({ to: "nobody" })).toMatchObject({ status: "failed", final: true });
    expect(runs).toBe(4);
    faults.down = false;
    expect(await send.attempt({ to: "nobody" })).toMatchObject({ status: "failed", final: true });
    expect(runs).toBe(4);
  });

  it("another process has done it too: duplicate_detected; with the provider's own id the same, not", async () => {
    const { nt, faults, another, events } = bench();
    const of = (id: string) => ({
      key: ["to"] as const,
      whenStoreDown: "run" as const,
      run: async (_mail: Mail) => ({ id }),
    });
    const [mine, same] = [nt.action("send", of("m1")), nt.action("charge", of("c1"))];
    const other = another();
    const [theirs, theirSame] = [other.action("send", of("m2")), other.action("charge", of("c1"))];
    faults.down = true;
    await mine({ to: "a" });
    await same({ to: "a" });
    faults.down = false;
    await theirs({ to: "a" });
    await theirSame({ to: "a" });
    await until(() => kinds(events).includes("duplicate_detected"));
    // The first result on record counts.
    expect(await mine({ to: "a" })).toEqual({ id: "m2" });
    expect(await same({ to: "a" })).toEqual({ id: "c1" });
    const detected = events.filter(({ type }) => type === "duplicate_detected");
    expect(detected).toMatchObject([{ action: "send" }]);
  });

  it("an attempt of another process that may have happened is a duplicate too", async () => {
    const { nt, faults, another, events, store } = bench();
    const options = { key: ["to"] as const, whenStoreDown: "run" as const };
    const theirs = another().action("send", {
      ...options,
      run: async (_mail: Mail): Promise<string> => {
        throw new Error("reset by peer");
      },
    });
    await theirs.attempt({ to: "a" });
    const mine = nt.action("send", { ...options, run: async (_mail: Mail) => "m1" });
    faults.down = true;
    await mine({ to: "a" });
    faults.down = false;
    expect(await mine({ to: "a" })).toBe("m1");
    expect(kinds(events)).toContain("duplicate_detected");
    expect(await store.read([await mine.keyOf({ to: "a" })])).toMatchObject([{ record: { state: "confirmed" } }]);
  });

  it("a claim that was written although its answer was lost is no duplicate", async () => {
    const { nt, faults, events, store } = bench();
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => "m1" });
    faults.loseReply = () => {
      faults.down = true;
      return true;
    };
    expect(await send({ to: "a" })).toBe("m1");
    faults.down = false;
    delete faults.loseReply;
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "done", result: "m1", replayed: true });
    expect(kinds(events)).not.toContain("duplicate_detected");
    expect(await store.read([await send.keyOf({ to: "a" })])).toMatchObject([{ record: { attempt: 1, fence: 1 } }]);
  });

  it("an effect whose confirmation could not be written is not run again by the next call", async () => {
    const { nt, faults } = bench();
    let runs = 0;
    const send = nt.action("send", {
      key: ["to"],
      whenStoreDown: "run",
      run: async (_mail: Mail) => {
        faults.down = true;
        return `m${++runs}`;
      },
    });
    expect(await send({ to: "a" })).toBe("m1");
    expect(await send({ to: "a" })).toBe("m1");
    faults.down = false;
    expect(await send({ to: "a" })).toBe("m1");
    expect(runs).toBe(1);
  });

  it("a doubt that could not be written is held by the next call", async () => {
    const { nt, faults } = bench();
    let runs = 0;
    const send = nt.action("send", {
      key: ["to"],
      whenStoreDown: "run",
      run: async (_mail: Mail): Promise<string> => {
        faults.down = true;
        runs += 1;
        throw new Error("reset by peer");
      },
    });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ to: "a" })).toMatchObject({ status: "unknown" });
    faults.down = false;
    await until(async () => (await send.attempt({ to: "a" })).status === "unknown");
    expect(runs).toBe(1);
  });

  it("a worker does not take what a call of its process is running without the ledger", async () => {
    const { nt, faults, another } = bench();
    const held = gate<string>();
    let runs = 0;
    const run = async (_mail: Mail) => {
      runs += 1;
      return held.opened;
    };
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run });
    await another()
      .action("send", { key: ["to"], run })
      .enqueue({ to: "a" });
    faults.down = true;
    const call = send({ to: "a" });
    await until(async () => runs === 1);
    faults.down = false;
    const worker = nt.worker();
    await worker.start();
    await new Promise((done) => setTimeout(done, 50));
    held.open("m1");
    expect(await call).toBe("m1");
    await worker.stop();
    expect(await send({ to: "a" })).toBe("m1");
    expect(runs).toBe(1);
  });

  it("what this process did, or left in doubt, before the outage is not run again in it", async () => {
    const { nt, faults, events } = bench();
    let runs = 0;
    const send = nt.action("send", {
      key: ["to"],
      whenStoreDown: "run",
      run: async ({ to }: Mail) => {
        runs += 1;
        if (to === "doubt") throw new Error("reset by peer");
        return to === "large" ? "x".repeat(5_000) : `m${runs}`;
      },
    });
    await send({ to: "done" });
    await send.attempt({ to: "doubt" });
    await send({ to: "large" });
    await send.enqueue({ to: "queued" });
    await nt.worker().drain();
    expect(runs).toBe(4);
    faults.down = true;
    expect(await send.attempt({ to: "done" })).toMatchObject({ status: "done", result: "m1", replayed: true });
    expect(await send.attempt({ to: "doubt" })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ to: "large" })).toMatchObject({ status: "done", replayed: true });
    expect(await send.attempt({ to: "queued" })).toMatchObject({ status: "done", result: "m4" });
    expect(runs).toBe(4);
    expect(kinds(events)).not.toContain("bypassed");
  });

  it("queued work with another input is not swallowed in silence", async () => {
    const { nt, faults, another, events } = bench();
    const options = { key: ["to"] as const, whenStoreDown: "run" as const };
    const send = nt.action("send", { ...options, run: async ({ body }: Mail) => body });
    await another()
      .action("send", { ...options, run: async ({ body }: Mail) => body })
      .enqueue({ to: "a", body: "one" });
    faults.down = true;
    await send({ to: "a", body: "two" });
    faults.down = false;
    await until(async () => kinds(events).includes("conflict"));
    expect(events).toContainEqual(expect.objectContaining({ type: "conflict", differs: ["body"] }));
  });

  it("a doubt is told to listeners; what failed before the send mark is no doubt", async () => {
    const { nt, faults, events } = bench();
    const fails = async (_: Mail): Promise<never> => {
      throw new Error("reset by peer");
    };
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: fails });
    const manual = nt.action("manual", { key: ["to"], whenStoreDown: "run", mark: "manual", run: fails });
    const prepared = nt.action("prepared", {
      key: ["to"],
      whenStoreDown: "run",
      prepare: fails,
      run: async (_: Mail) => "m1",
    });
    faults.down = true;
    const mail = { to: "a" } as never;
    expect(await send.attempt(mail)).toMatchObject({ status: "unknown" });
    expect(await manual.attempt(mail)).toMatchObject({ status: "failed", final: false });
    expect(await prepared.attempt(mail)).toMatchObject({ status: "failed", final: false });
    expect(events.filter(({ type }) => type === "unknown")).toMatchObject([{ action: "send" }]);
  });

  it("with encrypt the result is sealed for its record", async () => {
    const { nt, faults, another } = bench({ encrypt: KEY });
    const options = { key: ["to"] as const, whenStoreDown: "run" as const, run: async (_mail: Mail) => "m1" };
    const send = nt.action("send", options);
    faults.down = true;
    await send({ to: "a" });
    faults.down = false;
    expect(await send({ to: "a" })).toBe("m1");
    expect(await another({ encrypt: KEY }).action("send", options)({ to: "a" })).toBe("m1");
  });
});

describe("O15", () => {
  it("close() asks a store that was given a pause once more, and writes", async () => {
    const faults: Faults = {};
    const { nt, events, store } = openMemory({ wrap: (one) => faulty(one, faults) });
    let state: string | undefined;
    faults.afterWrite = (puts) => {
      state = puts[0]?.record.state;
    };
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => "m1" });
    faults.down = true;
    for (const to of "abcdefgh") await send({ to });
    expect(kinds(events)).toContain("store_down");
    faults.down = false;
    await nt.close();
    expect([state, events.filter(({ type }) => type === "warning")]).toEqual(["confirmed", []]);
    expect(store.name).toBe("memory");
  });

  it("close() says how many intents the ledger does not know of where the store is still down", async () => {
    const faults: Faults = {};
    const { nt, events } = openMemory({ wrap: (store) => faulty(store, faults) });
    const send = nt.action("send", { key: ["to"], whenStoreDown: "run", run: async (_mail: Mail) => "m1" });
    faults.down = true;
    await send({ to: "a" });
    await send({ to: "b" });
    await nt.close();
    expect(events).toContainEqual(
      expect.objectContaining({
        type: "warning",
        code: "UNGUARDED_NOT_WRITTEN",
        message: expect.stringMatching(/^2 /),
      }),
    );
  });
});
