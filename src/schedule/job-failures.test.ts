/** R8, R9: a job is a container. It may take its time, and a slot that failed is run again, within bounds. */
import { describe, expect, it, onTestFinished } from "vitest";
import { notSent, refused, rejected } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { hasEnded, thisProcess } from "./command/process-group.ts";
import type { JobOptions } from "./job.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SLOT = "2026-01-15T06:00:00Z";

/** A run that holds its slot until the test lets it go. */
function hanging() {
  let release = () => {};
  const gate = new Promise<void>((open) => {
    release = open;
  });
  return { run: () => gate, release: () => release() };
}

/** A ledger with a wall clock and a steady clock in the test's hand; many programs may share it. */
function world(iso = "2026-01-15T06:00:30Z") {
  let now = Date.parse(iso);
  let steady = 0;
  // Steady time passes for real too: heartbeats are sent by real timers.
  const began = performance.now();
  const instant = () => ({ now, steady: steady + performance.now() - began, epoch: "test" });
  const store = memoryStore({ clock: { instant } });
  onTestFinished(() => store.close());
  const shared = new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const host = (options: Partial<JobOptions<unknown, unknown>> = {}, more: { encrypt?: string } = {}) => {
    const nt = nevertwice({ store: shared, sweep: false, onWarning: () => {}, ...more });
    onTestFinished(() => nt.close());
    return { nt, ...nt.job<unknown, unknown>("digest", { every: "1h", run: () => "ran", ...options }) };
  };
  const record = async () => {
    const { items } = await store.list({ limit: 9, action: "job:digest" });
    return items.map((one) => one.record).find((one) => one.action === "job:digest");
  };
  const pass = (ms: number) => {
    now += ms;
    steady += ms;
  };
  return { host, record, store, pass };
}

const failing = (ran: string[], name: string, failure: () => unknown = () => new Error("502 Bad Gateway")) => ({
  run: () => {
    ran.push(name);
    throw failure();
  },
});

describe("R9: a run that threw is run again by the loop, within retry", () => {
  it("by the next tick after its pause, with the default pauses of minutes; a success ends it", async () => {
    const { host, pass, record } = world();
    const ran: number[] = [];
    const job = host({
      run: ({ attempt }) => {
        ran.push(attempt);
        if (attempt < 3) throw new Error("502 Bad Gateway");
        return { slug: "done" };
      },
    });
    await job.tick();
    pass(HOUR);
    const [first] = await job.tick();
    expect(first?.outcome).toMatchObject({ status: "failed", final: false, retryAt: expect.any(Number) });
    expect(await record()).toMatchObject({ state: "pending", error: { message: "502 Bad Gateway" } });
    for (let tick = 0; tick < 6; tick += 1) {
      pass(4 * MINUTE);
      await job.tick();
    }
    expect(ran).toEqual([1, 2, 3]);
    expect(await record()).toMatchObject({ state: "confirmed", attempt: 3 });
  });

  it("the bound holds over restarts: twelve attempts in all unless given, then it is left to a person", async () => {
    const { host, pass, record } = world();
    const ran: string[] = [];
    await host({ every: "1d" }).tick();
    pass(24 * HOUR);
    for (let start = 0; start < 15; start += 1) {
      await host({ every: "1d", ...failing(ran, `start ${start}`) }).tick();
      // Longer than the longest pause.
      pass(61 * MINUTE);
    }
    expect(ran.length).toBe(12);
    expect(await record()).toMatchObject({ state: "failed", final: false });
  });

  it("retry.attempts is counted in the ledger: two programs together make no more", async () => {
    const { host, pass, record } = world();
    const ran: string[] = [];
    const retry = { attempts: 3, backoff: "1s", max: "1s" };
    const [a, b] = [host({ ...failing(ran, "a"), retry }), host({ ...failing(ran, "b"), retry })];
    await Promise.all([a.tick(), b.tick()]);
    pass(HOUR);
    for (let tick = 0; tick < 12; tick += 1) {
      await a.tick();
      await b.tick();
      pass(2_000);
    }
    expect(ran.length).toBe(3);
    expect(await record()).toMatchObject({ state: "failed", final: false, tries: 3 });
    // A program that is started only then does not begin again; a person, or runAt, does.
    await host({ ...failing(ran, "c"), retry }).tick();
    expect(ran.length).toBe(3);
    expect(await host({ retry }).runAt("2026-01-15T07:00:00Z")).toMatchObject({ status: "done" });
  });

  it("keeps to the pause that another program's failure left", async () => {
    const { host, pass } = world();
    const ran: string[] = [];
    const retry = { attempts: 5, backoff: "30m", max: "30m" };
    const after = () => notSent(new Error("busy"), { retryAfter: "20m" });
    const [a, b] = [host({ ...failing(ran, "a", after), retry }), host({ ...failing(ran, "b", after), retry })];
    await Promise.all([a.tick(), b.tick()]);
    pass(HOUR);
    await a.tick();
    for (const minutes of [1, 5, 10]) {
      pass(minutes * MINUTE);
      expect((await b.tick())[0]?.outcome.status ?? "failed").toBe("failed");
    }
    expect(ran).toEqual(["a"]);
    pass(30 * MINUTE);
    await b.tick();
    expect(ran.length).toBe(2);
  });

  it("an error that looks like a refusal (404) is retried too; rejected() by name is final", async () => {
    const { host, pass } = world();
    const ran: string[] = [];
    const notFound = () => Object.assign(new Error("Not Found"), { status: 404 });
    const job = host({ ...failing(ran, "a", notFound), retry: { attempts: 2, backoff: "1s", max: "1s" } });
    await job.tick();
    pass(HOUR);
    await job.tick();
    pass(5_000);
    await job.tick();
    expect(ran.length).toBe(2);
    const other = world();
    const final = other.host(failing(ran, "b", () => rejected(new Error("no"))));
    expect(await final.runAt(SLOT)).toMatchObject({ status: "failed", final: true });
    expect(await other.host().runAt(SLOT)).toMatchObject({ status: "failed", final: true });
  });

  it("O4: refused() by name is not retried, by this process or another one; runAt() may run the slot again", async () => {
    const { host, pass } = world();
    const ran: string[] = [];
    const job = host(failing(ran, "a", () => refused(new Error("no rates for this hour"))));
    await job.tick();
    pass(HOUR);
    const [first] = await job.tick();
    expect(first?.outcome).toMatchObject({ status: "failed", final: false });
    expect(first?.outcome).not.toHaveProperty("retryAt");
    pass(10 * MINUTE);
    expect(await job.tick()).toEqual([]);
    // Another process that begins to look finds the same answer.
    const other = host(failing(ran, "b"));
    const seen = await other.tick();
    expect(seen.map(({ outcome }) => outcome.status)).toEqual(["failed"]);
    expect(ran).toEqual(["a"]);
    expect(await host().runAt(first?.at as Date)).toMatchObject({ status: "done" });
  });

  it("the effects inside are guarded: a retry of the job repeats none of them", async () => {
    const { host, pass } = world();
    let sent = 0;
    let fail = true;
    const job = host({
      run: async ({ slot }) => {
        await job.nt.once("post", [slot], () => {
          sent += 1;
          return "posted";
        });
        if (fail) throw new Error("gateway");
        return "ok";
      },
    });
    await job.tick();
    pass(HOUR);
    await job.tick();
    fail = false;
    pass(5 * MINUTE);
    expect((await job.tick())[0]?.outcome).toMatchObject({ status: "done" });
    expect(sent).toBe(1);
  });
});

describe("R9: a holder that died", () => {
  it("is taken over when its lease is over, by any process, and the bound counts it", async () => {
    const { host, pass, record, store } = world();
    const { run, release } = hanging();
    const dead = host({ run, lease: "10m" });
    void dead.runAt(SLOT);
    while ((await record())?.state !== "sent") await new Promise((done) => setTimeout(done, 5));
    const other = host({ lease: "10m" });
    expect(await other.runAt(SLOT)).toMatchObject({ status: "in_flight" });
    // Its process is elsewhere, so nothing but the lease tells.
    const [stored] = await store.read([(await record())?.key as string]);
    await store.write([
      { record: { ...(stored?.record as never as object), draft: null } as never, expected: stored?.version ?? 0 },
    ]);
    pass(11 * MINUTE);
    expect(await other.runAt(SLOT)).toMatchObject({ status: "done", attempt: 2 });
    expect((await record())?.history.map(({ event }) => event)).toEqual(["lapse", "probed-not-done"]);
    release();
  });

  it("with doubt: hold waits for a person, also when a later program no longer says so", async () => {
    const { host, pass, record } = world();
    const { run, release } = hanging();
    const dead = host({ run, lease: "10m", doubt: "hold" });
    void dead.runAt(SLOT);
    while ((await record())?.state !== "sent") await new Promise((done) => setTimeout(done, 5));
    pass(11 * MINUTE);
    const other = host({ lease: "10m" });
    expect(await other.runAt(SLOT)).toMatchObject({ status: "unknown" });
    await other.nt.resolve({ key: (await record())?.key as string }, { as: "not-done", by: "kim", reason: "looked" });
    expect(await other.runAt(SLOT)).toMatchObject({ status: "done" });
    release();
  });

  it("with encrypt: a draft that is sealed is read by those who have the key", async () => {
    const { host, pass, record } = world();
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    const { run, release } = hanging();
    const dead = host({ run, lease: "10m", doubt: "hold" }, { encrypt });
    void dead.runAt(SLOT);
    while ((await record())?.state !== "sent") await new Promise((done) => setTimeout(done, 5));
    pass(11 * MINUTE);
    expect(await host({}, { encrypt }).runAt(SLOT)).toMatchObject({ status: "unknown" });
    release();
  });

  it("a process is known to have ended by its start, not by its number alone", () => {
    const here = thisProcess() as NonNullable<ReturnType<typeof thisProcess>>;
    expect(hasEnded(here)).toBe(false);
    expect(hasEnded({ ...here, started: "1" })).toBe(true);
    expect(hasEnded({ ...here, pid: 2 ** 22 + 1 })).toBe(true);
    expect(hasEnded({ ...here, realm: "another boot", pid: 2 ** 22 + 1 })).toBe(false);
  });
});

describe("R8: no timeout unless asked", () => {
  it("a run outlives its lease: heartbeats keep it, and nobody takes it over", async () => {
    const { host, record } = world();
    let release = () => {};
    const gate = new Promise<void>((open) => {
      release = open;
    });
    const job = host({ lease: "1s", run: () => gate.then(() => "slow") });
    const running = job.runAt(SLOT);
    while ((await record())?.state !== "sent") await new Promise((done) => setTimeout(done, 5));
    const since = performance.now();
    const other = host({ lease: "1s" });
    // Three leases.
    while (performance.now() - since < 3_000) {
      expect(await other.runAt(SLOT)).toMatchObject({ status: "in_flight" });
      await new Promise((done) => setTimeout(done, 20));
    }
    release();
    expect(await running).toMatchObject({ status: "done", result: "slow", attempt: 1 });
  });

  it("by default the lease is 30 minutes, and there is no deadline", async () => {
    const { host, record } = world();
    let deadline = 0;
    const job = host({
      run: async (context) => {
        deadline = context.deadline;
        expect(((await record())?.lease?.until ?? 0) / MINUTE).toBeGreaterThan(29);
      },
    });
    expect(await job.runAt(SLOT)).toMatchObject({ status: "done" });
    expect(deadline).toBe(Number.POSITIVE_INFINITY);
  });

  it("a timeout that was asked for may be longer than the lease, ends the run, and the slot is run again", async () => {
    const { host, record } = world();
    let first = true;
    let ended = () => {};
    const gate = new Promise<void>((done) => {
      ended = done;
    });
    const options = {
      lease: "1s",
      timeout: "1500ms",
      run: async ({ signal }: { signal: AbortSignal }) => {
        if (!first) return "second";
        first = false;
        await new Promise((aborted) => signal.addEventListener("abort", aborted));
        await gate;
        throw new Error("ended");
      },
    };
    const job = host(options);
    expect(await job.runAt(SLOT)).toMatchObject({ status: "unknown", why: "no answer within 1.5s" });
    // The function has not returned: this process does not run it beside itself.
    expect(await job.runAt(SLOT)).toMatchObject({ status: "unknown" });
    ended();
    await new Promise((done) => setTimeout(done, 20));
    expect(await job.runAt(SLOT)).toMatchObject({ status: "done", result: "second" });
    expect((await record())?.attempt).toBe(2);
  });

  it("a plan has no timeout either", async () => {
    const { host } = world();
    let release = () => {};
    const gate = new Promise<void>((open) => {
      release = open;
    });
    const job = host({ lease: "1s", plan: () => gate.then(() => "planned"), run: ({ plan }) => plan });
    const running = job.runAt(SLOT);
    await new Promise((done) => setTimeout(done, 1_500));
    release();
    expect(await running).toMatchObject({ status: "done", result: "planned" });
  });
});

it("R10: a run is given the last results too", async () => {
  const { host, pass } = world();
  const seen: unknown[] = [];
  const job = host({
    run: async ({ recent, attempt }) => {
      seen.push(await recent(10, "slug"));
      return { slug: `post-${seen.length}-${attempt}` };
    },
  });
  await job.tick();
  for (let slot = 0; slot < 2; slot += 1) {
    pass(HOUR);
    await job.tick();
  }
  expect(seen).toEqual([[], ["post-1-1"]]);
});
