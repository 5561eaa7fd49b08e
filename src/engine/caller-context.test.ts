import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, it } from "vitest";
import { nevertwice } from "../nevertwice.ts";
import { currentAttempt } from "./context.ts";

// A tracer's span, a request's id: what callers keep in storages of their own must be theirs inside `run`, however many
// of them share a batch.
describe("the caller's own async context", () => {
  const request = new AsyncLocalStorage<string>();

  it("is the one the effect runs in, for each of many callers in one batch", async () => {
    const nt = nevertwice({ store: "memory:", sweep: false });
    const seen = new Map<string, (string | undefined)[]>();
    const send = nt.action("send", {
      key: ["id"],
      run: async ({ id }: { id: string }) => {
        const before = request.getStore();
        await new Promise((done) => setTimeout(done, 1));
        seen.set(id, [before, request.getStore(), currentAttempt()?.key]);
        return id;
      },
    });
    const ids = Array.from({ length: 40 }, (_, i) => `req-${i}`);
    await Promise.all(ids.map((id) => request.run(id, () => send({ id }))));
    for (const id of ids) expect(seen.get(id)).toEqual([id, id, await send.keyOf({ id })]);
    await nt.close();
  });

  it("is the one of `prepare`, of a retry and of what follows the call", async () => {
    const nt = nevertwice({ store: "memory:", sweep: false });
    const seen: (string | undefined)[] = [];
    let tries = 0;
    const send = nt.action("send", {
      key: ["id"],
      retry: { attempts: 3, backoff: 1 },
      prepare: () => void seen.push(request.getStore()),
      run: async (_input: { id: string }) => {
        seen.push(request.getStore());
        tries += 1;
        if (tries === 1) throw Object.assign(new Error("nobody there"), { code: "ECONNREFUSED" });
      },
    });
    await request.run("mine", async () => {
      await send({ id: "a" });
      seen.push(request.getStore());
    });
    expect(seen.length).toBeGreaterThanOrEqual(4);
    expect(new Set(seen)).toEqual(new Set(["mine"]));
    await nt.close();
  });

  it("is the one of an attempt that follows a timeout, which a timer of somebody else's tells", async () => {
    const nt = nevertwice({ store: "memory:", sweep: false });
    const seen: string[] = [];
    const hung = new Set<string>();
    const send = nt.action("send", {
      key: ["id"],
      timeout: "30ms",
      doubt: "retry",
      retry: { attempts: 2, backoff: 1 },
      run: async ({ id }: { id: string }) => {
        seen.push(`${id} in ${request.getStore()}`);
        if (!hung.has(id)) await new Promise(() => hung.add(id));
      },
    });
    // One timer wakes all attempts, and the first call sets it.
    await Promise.all(["a", "b", "c"].map((id) => request.run(id, () => send({ id }))));
    expect(seen.toSorted()).toEqual(["a in a", "a in a", "b in b", "b in b", "c in c", "c in c"]);
    await nt.close();
  });

  it("of whoever set a worker going is the one that its jobs begin in, though they share batches with callers", async () => {
    const nt = nevertwice({ store: "memory:", sweep: false });
    const seen: (string | undefined)[] = [];
    const turn = () => new Promise((done) => setImmediate(done));
    const send = nt.action("send", {
      key: ["id"],
      run: async (_: { id: number }) => {
        seen.push(request.getStore());
        await turn();
      },
    });
    const call = nt.action("call", { key: ["id"], run: async (_: { id: number }) => void (await turn()) });
    await send.enqueueMany(Array.from({ length: 100 }, (_, id) => ({ id })));
    const worker = nt.worker({ concurrency: 2, actions: [send] });
    worker.on(({ type }) => seen.push(type === "finished" ? request.getStore() : "mine"));
    let drained = false;
    const draining = request
      .run("mine", () => worker.drain())
      .finally(() => {
        drained = true;
      });
    // Others' calls go out in the same batches, some of them first.
    await request.run("theirs", async () => {
      for (let id = 0; !drained && id < 10_000; id += 1) await call({ id });
    });
    await draining;
    expect(seen.length).toBeGreaterThanOrEqual(200);
    expect(new Set(seen)).toEqual(new Set(["mine"]));
    await nt.close();
  });
});
