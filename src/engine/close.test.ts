/** close(): what runs is waited for and settled, what has not begun is handed back, and nothing begins any more. */

import type { Store } from "nevertwice";
import { nevertwice } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { expect, it, onTestFinished } from "vitest";
import { type Bench, eachStore as everyStore, type Open, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}
const mailTo = (to: string) => ({ to });
const turn = () => new Promise((done) => setTimeout(done, 10));
const CLOSED = { code: "STORE_UNAVAILABLE", message: expect.stringContaining("is closed") };

/** The records are looked at after close(), which the memory store would not outlive. */
function lastsLonger(store: Store): Store {
  onTestFinished(() => store.close());
  return new Proxy(store, {
    get(target, name) {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function eachStore(title: string, body: (open: Open) => void): void {
  everyStore(title, (open) =>
    body(() => {
      const bench = open({ wrap: lastsLonger });
      return { ...bench, another: () => bench.another({ wrap: lastsLonger }) };
    }),
  );
}

/** An action whose effect has left and whose answer waits for the gate. */
function slowMail({ nt }: Pick<Bench, "nt">, more: object = {}) {
  const answer = gate();
  const begun: string[] = [];
  const send = nt.action("mail", {
    key: ["to"],
    run: async ({ to }: Mail) => {
      begun.push(to);
      await answer.opened;
      return `sent to ${to}`;
    },
    ...more,
  });
  return { send, answer, begun };
}

async function closesOnlyAfter(nt: Bench["nt"], answer: { open(): void }): Promise<void> {
  let closed = false;
  const closing = nt.close().then(() => {
    closed = true;
  });
  await turn();
  expect(closed).toBe(false);
  answer.open();
  await closing;
}

eachStore("close ends the waiting of calls", (open) => {
  const REFUSED = { code: "ECONNREFUSED", syscall: "connect" };

  it("a call that waits for its next try ends with what is true, and tries no more", async () => {
    const { nt } = open();
    let tries = 0;
    const send = nt.action("mail", {
      key: ["to"],
      wait: "1h",
      retry: { attempts: 5, backoff: "10m", max: "10m" },
      run: async (_: Mail) => {
        tries += 1;
        throw Object.assign(new Error("refused"), REFUSED);
      },
    });
    const asked = send.attempt(mailTo("ana"));
    await until(async () => (await send.status(mailTo("ana"))).status === "failed", "the first try has failed");
    await nt.close();
    expect(await asked).toMatchObject({ status: "failed", final: false, retryAt: expect.any(Number) });
    expect(tries).toBe(1);
  });

  it("a call that waits until it may ask its provider leaves the doubt, and asks no more", async () => {
    const { nt } = open();
    let probes = 0;
    const send = nt.action("mail", {
      key: ["to"],
      wait: "1h",
      doubt: {
        quietFor: "10m",
        probe: async () => {
          probes += 1;
          return "not-done" as const;
        },
      },
      run: async (_: Mail) => {
        throw new Error("lost");
      },
    });
    const asked = send.attempt(mailTo("ana"));
    await until(async () => (await send.status(mailTo("ana"))).status === "unknown", "the answer was lost");
    await nt.close();
    expect(await asked).toMatchObject({ status: "unknown" });
    expect(probes).toBe(0);
  });

  it("a call that waits for another instance's attempt ends as in_flight", async () => {
    const bench = open();
    const { answer, begun, send } = slowMail({ nt: bench.another() });
    const held = send.attempt(mailTo("ana"));
    await until(() => begun.length === 1, "it has begun");
    const same = bench.nt.action("mail", { key: ["to"], wait: "1h", run: async (_: Mail) => "never" });
    const asked = same.attempt(mailTo("ana"));
    await until(async () => (await same.status(mailTo("ana"))).status === "in_flight");
    await bench.nt.close();
    expect(await asked).toMatchObject({ status: "in_flight" });
    answer.open();
    expect(await held).toMatchObject({ status: "done" });
  });

  it("a call inside a running attempt goes on trying: the attempt's end depends on it", async () => {
    const { nt } = open();
    let tries = 0;
    const inner = nt.action("inner", {
      key: ["to"],
      retry: { attempts: 5, backoff: "20ms", max: "20ms" },
      run: async (_: Mail) => {
        tries += 1;
        if (tries < 3) throw Object.assign(new Error("refused"), REFUSED);
        return "inner";
      },
    });
    const outer = nt.action("outer", { key: ["to"], run: async (mail: Mail) => inner(mail) });
    const asked = outer.attempt(mailTo("ana"));
    await until(() => tries > 0, "the inner call has begun");
    await nt.close();
    expect(await asked).toMatchObject({ status: "done", result: "inner" });
  });
});

eachStore("close waits and settles", (open) => {
  it("waits for worker.drain(): what it sent is confirmed, what it had not begun is pending", async () => {
    const bench = open();
    const { send, answer, begun } = slowMail(bench);
    await send.enqueueMany(Array.from({ length: 8 }, (_, i) => mailTo(`n${i}`)));
    const drained = bench.nt.worker({ concurrency: 5 }).drain();
    await until(() => begun.length === 5);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await drained).toMatchObject({ done: 5 });
    expect(begun).toHaveLength(5);
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 5, pending: 3, unknown: 0, sent: 0 });
  });

  it("waits for worker.tick()", async () => {
    const bench = open();
    const { send, answer, begun } = slowMail(bench);
    await send.enqueueMany(["a", "b", "c"].map(mailTo));
    const ticked = bench.nt.worker({ concurrency: 2 }).tick();
    await until(() => begun.length === 2);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await ticked).toBe(2);
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 2, pending: 1, unknown: 0 });
  });

  it("waits for what a worker that was stopped `within` a time still runs", async () => {
    const bench = open();
    const { send, answer, begun } = slowMail(bench);
    await send.enqueue(mailTo("a"));
    const worker = bench.nt.worker();
    await worker.start();
    await until(() => begun.length === 1);
    expect(await worker.stop({ within: "1ms" })).toEqual({ stillRunning: 1 });
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 1 });
  });

  it("waits for job.tick()", async () => {
    const bench = open();
    const answer = gate();
    let begun = 0;
    const job = bench.nt.job("digest", {
      every: "1s",
      run: async () => {
        begun += 1;
        await answer.opened;
      },
    });
    await job.tick();
    bench.clock.advance(1_000);
    const ticked = job.tick();
    await until(() => begun === 1);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await ticked).toMatchObject([{ outcome: { status: "done" } }]);
    await expect(job.tick()).rejects.toMatchObject(CLOSED);
  });

  it("a call inside what runs goes on: its attempt ends as it would have", async () => {
    const { nt, store } = open();
    const go = gate();
    let begun = 0;
    const charge = nt.action("charge", { key: ["to"], run: async ({ to }: Mail) => `charged ${to}` });
    const order = nt.action("order", {
      key: ["to"],
      run: async (input: Mail) => {
        begun += 1;
        await go.opened;
        await charge.enqueue(mailTo("later"));
        return charge(input);
      },
    });
    const ordered = order(mailTo("ada"));
    await until(() => begun === 1);
    await closesOnlyAfter(nt, go as { open(): void });
    expect(await ordered).toBe("charged ada");
    expect((await store.stats()).states).toMatchObject({ confirmed: 2, pending: 1, unknown: 0 });
  });

  it("waits for the step of a run under way, and hands the run back: the next process takes it up at once", async () => {
    const bench = open();
    const answer = gate();
    const steps: string[] = [];
    const body = (nt: Bench["nt"], wait: Promise<void>) =>
      nt.run("onboard", "ada", async (run) => {
        await run.step("account", async () => {
          steps.push("account");
          await wait;
        });
        await run.step("mail", async () => void steps.push("mail"));
        return "ok";
      });
    const running = body(bench.nt, answer.opened);
    const ended = running.catch((error: unknown) => error);
    await until(() => steps.length === 1);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await ended).toMatchObject(CLOSED);
    // No time passes: were its record still claimed, this would wait for the lease.
    expect(await body(bench.another(), Promise.resolve())).toBe("ok");
    expect(steps).toEqual(["account", "mail"]);
  });

  it("does not wait for what a run does between its steps: its record is handed back and its signal aborted", async () => {
    const bench = open();
    let signal: AbortSignal | undefined;
    const between = gate();
    const running = bench.nt.run("onboard", "ada", async (run) => {
      await run.step("account", async () => 1);
      signal = run.signal;
      await between.opened;
      return "too late";
    });
    const ended = running.catch((error: unknown) => error);
    await until(() => signal !== undefined);
    await bench.nt.close();
    expect(signal?.aborted).toBe(true);
    const again = bench.another().run("onboard", "ada", (run) => run.step("account", async () => "once more"));
    expect(await again).toBe(1);
    between.open();
    expect(await ended).toMatchObject(CLOSED);
  });

  it("a run that returns after its last step is confirmed", async () => {
    const bench = open();
    const answer = gate();
    let begun = 0;
    const running = bench.nt.run("onboard", "ada", async (run) => {
      await run.step("account", async () => {
        begun += 1;
        await answer.opened;
      });
      return "done";
    });
    await until(() => begun === 1);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await running).toBe("done");
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 2, claimed: 0, failed: 0 });
  });

  it("hands taken tasks back at once, and says so to their holder", async () => {
    const { nt, another } = open();
    const queue = nt.queue<Mail, string>("research", { key: ["to"] });
    await queue.add(mailTo("ada"));
    const task = await queue.take();
    await nt.close();
    expect(task?.signal.aborted).toBe(true);
    await expect(task?.done("late")).rejects.toMatchObject(CLOSED);
    const next = await another()
      .queue<Mail, string>("research", { key: ["to"] })
      .take();
    expect(next).toMatchObject({ input: { to: "ada" }, attempt: 1 });
    await next?.done("ok");
  });

  it("ends a take() that waits for a task", async () => {
    const { nt } = open();
    const queue = nt.queue<Mail, string>("research");
    const taking = queue.take({ wait: "1h" });
    await turn();
    await nt.close();
    expect(await taking).toBeNull();
    await expect(queue.take()).rejects.toMatchObject(CLOSED);
  });

  it("each() ends after what runs, and can be started again; enqueueMany stops between its chunks", async () => {
    const bench = open();
    const { send, answer, begun } = slowMail(bench);
    const inputs = Array.from({ length: 10 }, (_, i) => mailTo(`n${i}`));
    const each = send.each(inputs, { concurrency: 2 }).catch((error: unknown) => error);
    const fed = gate();
    const many = send
      .enqueueMany(
        (async function* () {
          yield mailTo("first");
          await fed.opened;
          yield mailTo("second");
        })(),
      )
      .catch((error: unknown) => error);
    await until(() => begun.length === 2);
    await closesOnlyAfter(bench.nt, answer as { open(): void });
    expect(await each).toMatchObject({ code: "STORE_UNAVAILABLE", outcome: { sent: 2, complete: false } });
    fed.open();
    expect(await many).toMatchObject(CLOSED);
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 2, sent: 0, unknown: 0, pending: 0 });
  });

  it("welcomes the answer of a timed-out attempt for a moment, and waits no longer for one that never comes", async () => {
    const bench = open();
    const late = gate();
    const send = bench.nt.action("mail", {
      key: ["to"],
      timeout: "20ms",
      lease: "1s",
      run: async ({ to }: Mail) => (to === "never" ? new Promise(() => {}) : late.opened),
    });
    const outcomes = await Promise.all(["ada", "never"].map((to) => send.attempt(mailTo(to))));
    expect(outcomes).toMatchObject([{ status: "unknown" }, { status: "unknown" }]);
    const closing = bench.nt.close();
    late.open();
    await closing;
    expect((await bench.store.stats()).states).toMatchObject({ confirmed: 1, unknown: 1 });
  });
});

eachStore("after close", (open) => {
  it("every entry is refused with a clear error, and runs nothing", async () => {
    const { nt, store } = open();
    let runs = 0;
    const send = nt.action("mail", { key: ["to"], run: async (_: Mail) => ++runs });
    const queue = nt.queue<Mail, string>("research", { key: ["to"] });
    const drip = nt.sequence("drip", ["one"], { run: async () => ++runs });
    const job = nt.job("digest", { every: "1s", run: async () => ++runs });
    const worker = nt.worker();
    const { key } = await send.enqueue(mailTo("ada"));
    const by = { by: "ana", reason: "test" };
    await nt.close();
    const entries: Record<string, () => Promise<unknown>> = {
      call: () => send(mailTo("a")),
      attempt: () => send.attempt(mailTo("a")),
      enqueue: () => send.enqueue(mailTo("a")),
      enqueueMany: () => send.enqueueMany([mailTo("a")]),
      each: () => send.each([mailTo("a")]),
      status: () => send.status(mailTo("a")),
      "status by key": () => nt.status({ key }),
      resolve: () => nt.resolve({ key }, { as: "done", ...by }),
      "action.resolve": () => send.resolve({ key }, { as: "done", ...by }),
      retry: () => nt.retry({ key }, by),
      retryAll: () => nt.retryAll({}, by),
      resend: () => send.resend(mailTo("a"), by),
      once: () => nt.once("x", [1], () => ++runs),
      run: () => nt.run("r", 1, () => ++runs),
      sweep: () => nt.sweep(),
      start: () => worker.start(),
      tick: () => worker.tick(),
      drain: () => nt.worker().drain(),
      "job.tick": () => job.tick(),
      "job.start": async () => job.start(),
      "job.recent": () => job.recent(1, "x"),
      add: () => queue.add(mailTo("a")),
      take: () => queue.take({ wait: "1h" }),
      "sequence.start": () => drip.start("s", undefined),
      "sequence.stop": () => drip.stop("s", by),
      "sequence.restart": () => drip.restart("s", by),
      "sequence.status": () => drip.status("s"),
    };
    for (const [name, entry] of Object.entries(entries))
      await expect(entry(), name).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(runs).toBe(0);
    expect((await store.stats()).states).toMatchObject({ pending: 1, confirmed: 0 });
  });
});

eachStore("await close() inside what close() waits for returns, and the store is closed afterwards", (open) => {
  /** The entry awaits nt.close() inside; it must come back, its record must be settled, and the store closed. */
  const inside: Record<string, (bench: Bench) => Promise<unknown>> = {
    "run of an action": ({ nt }) => nt.action("a", { run: async (_: Mail) => nt.close() })(mailTo("x")),
    "run of two actions at once": ({ nt }) => {
      const send = nt.action("a", { key: ["to"], run: async (_: Mail) => nt.close() });
      return Promise.all([send(mailTo("x")), send(mailTo("y"))]);
    },
    "run of an action inside another": ({ nt }) => {
      const inner = nt.action("inner", { run: async (_: Mail) => nt.close() });
      return nt.action("outer", { run: async (i: Mail) => inner(i) })(mailTo("x"));
    },
    once: ({ nt }) => nt.once("a", [1], () => nt.close()),
    prepare: ({ nt }) =>
      nt.action("a", { prepare: async (_: Mail) => nt.close(), run: async () => "sent" })(mailTo("x")),
    "a worker's action": async ({ nt }) => {
      await nt.action("a", { key: ["to"], run: async (_: Mail) => nt.close() }).enqueue(mailTo("x"));
      return nt.worker().drain();
    },
    "a job": async ({ nt, clock }) => {
      const job = nt.job("j", { every: "1s", run: async () => nt.close() });
      await job.tick();
      clock.advance(1_000);
      return job.tick();
    },
    "a step": ({ nt }) => nt.run("r", 1, (run) => run.step("s", () => nt.close())),
    "a run between its steps": ({ nt }) => nt.run("r", 1, () => nt.close()).catch(() => {}),
    "a probe": async ({ nt, clock }) => {
      const send = nt.action("a", {
        key: ["to"],
        doubt: { quietFor: 0, probe: async () => nt.close().then(() => "not-done" as const) },
        wait: 0,
        run: async (_: Mail) => {
          throw new Error("socket hang up");
        },
      });
      await send.attempt(mailTo("x"));
      clock.advance(60_000);
      return send.attempt(mailTo("x"));
    },
    "the holder of a task": async ({ nt }) => {
      const queue = nt.queue<Mail, string>("q", { key: ["to"] });
      await queue.add(mailTo("x"));
      const task = await queue.take();
      await nt.close();
      return task;
    },
    "an event listener": async ({ nt }) => {
      let closed: Promise<void> | undefined;
      nt.on((event) => {
        if (event.type === "executed") closed ??= nt.close();
      });
      await nt.once("a", [1], () => 1);
      return closed;
    },
    "a worker's listener": async ({ nt }) => {
      await nt.action("a", { key: ["to"], run: async (_: Mail) => 1 }).enqueue(mailTo("x"));
      const worker = nt.worker();
      let closed: Promise<void> | undefined;
      worker.on((event) => {
        if (event.type === "finished") closed ??= nt.close();
      });
      await worker.drain();
      return closed;
    },
  };

  it.each(Object.keys(inside))("%s", async (name) => {
    const bench = open();
    await (inside[name] as (bench: Bench) => Promise<unknown>)(bench);
    await bench.nt.close();
    const { states } = await bench.store.stats();
    expect(states).toMatchObject({ sent: 0, claimed: 0 });
    await expect(bench.nt.once("later", [1], () => 1)).rejects.toMatchObject(CLOSED);
  });
});

it("close() of another instance inside an attempt waits for that one in full", async () => {
  const [one, other] = [openMemory(), openMemory()];
  const { send, answer, begun } = slowMail(other);
  const sending = send(mailTo("ada"));
  await until(() => begun.length === 1);
  let closed = false;
  const call = one.nt.once("a", [1], async () => {
    await other.nt.close();
    closed = true;
  });
  await turn();
  expect(closed).toBe(false);
  answer.open();
  await Promise.all([call, sending]);
  expect(closed).toBe(true);
});

it("code that outlives the attempt it was started in closes as any other: nothing runs any more that it would wait for", async () => {
  const { nt } = openMemory();
  let closing: Promise<boolean> | undefined;
  const go = gate();
  let slow = 0;
  await nt.once("starter", [1], () => {
    closing = go.opened.then(async () => {
      await nt.close();
      return slow === 1;
    });
  });
  const answer = gate();
  const running = nt.once("slow", [1], async () => {
    await answer.opened;
    slow = 1;
  });
  await turn();
  go.open();
  await turn();
  answer.open();
  await running;
  expect(await closing).toBe(true);
});

it("await using closes it", async () => {
  const store = memoryStore();
  let closed = 0;
  const close = store.close.bind(store);
  store.close = async () => {
    closed += 1;
    await close();
  };
  {
    await using nt = nevertwice({ store, sweep: false });
    await nt.once("a", [1], () => 1);
    expect(closed).toBe(0);
  }
  expect(closed).toBe(1);
});

it("a chain of attempts that each start the next is not kept alive by it", async () => {
  const { nt } = openMemory();
  const { currentAttempt } = await import("nevertwice");
  const ended: WeakRef<object>[] = [];
  for (let i = 0, next = Promise.resolve(); i < 50; i += 1) {
    next = next.then(() =>
      nt.once("link", [i], () => {
        ended.push(new WeakRef(currentAttempt() as object));
      }),
    );
    await next;
  }
  expect(ended).toHaveLength(50);
});
