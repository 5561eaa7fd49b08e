import { expect, it } from "vitest";
import { eachStore, kinds, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { faulty } from "../../test/support/store-faults.ts";

interface Mail {
  to: string;
}
const mail = { to: "a" };
const fast = { retry: { attempts: 5, backoff: "1ms", max: "5ms" } } as const;

eachStore("a holder that falls silent", (open) => {
  it("O9 F4: silent before the send mark: taken over at once after the lease, 1 effect", async () => {
    const { nt, another, clock } = open();
    const never = gate();
    let sent = 0;
    const options = { key: ["to"], lease: "60s", run: async (_mail: Mail) => ++sent } as const;
    const stuck = nt.action("mail", { ...options, prepare: () => never.opened });
    const first = stuck.attempt(mail);
    const rescuer = another().action("mail", { ...options, prepare: async () => {} });
    await until(async () => (await rescuer.status(mail)).status === "in_flight");
    expect(await rescuer.attempt(mail, { wait: 0 })).toMatchObject({ status: "in_flight" });
    clock.advance(61_000);
    // Nobody holds it and nothing was sent: a caller may not be told to wait for anybody.
    expect(await rescuer.status(mail)).toMatchObject({
      status: "failed",
      final: false,
      error: { message: expect.stringMatching(/stopped answering before anything was sent/) },
    });
    expect(await rescuer.attempt(mail)).toMatchObject({ status: "done", attempt: 2, result: 1 });
    never.open();
    expect(await first).toMatchObject({ status: "done", replayed: true, result: 1 });
    expect(sent).toBe(1);
  });

  it("F15 F26 G2: silent after the send mark: unknown, held, and its late success is evidence", async () => {
    const { nt, another, clock } = open();
    const answer = gate<string>();
    let runs = 0;
    const run = async (_mail: Mail) => {
      runs += 1;
      return answer.opened;
    };
    const first = nt.action("mail", { key: ["to"], run }).attempt(mail);
    await until(() => runs === 1);
    clock.advance(61_000);
    const second = another().action("mail", { key: ["to"], run });
    expect(await second.attempt(mail)).toMatchObject({ status: "unknown", attempt: 1 });
    answer.open("m1");
    expect(await first).toMatchObject({ status: "done", result: "m1" });
    expect(await second.attempt(mail)).toMatchObject({ status: "done", replayed: true, result: "m1" });
    expect(runs).toBe(1);
  });

  it("F25: a late rejection of attempt 1 during attempt 2 is ignored", async () => {
    const { nt, another, clock, store } = open();
    const first = gate<string>();
    const second = gate<string>();
    const answers = [first, second];
    let runs = 0;
    const options = {
      key: ["to"],
      doubt: { resendWithin: "1h" },
      ...fast,
      run: async (_mail: Mail) => (answers[runs++] as typeof first).opened,
    } as const;
    const one = nt.action("mail", options).attempt(mail);
    await until(() => runs === 1);
    clock.advance(61_000);
    const two = another().action("mail", options).attempt(mail);
    await until(() => runs === 2);
    first.fail(Object.assign(new Error("refused"), { status: 422 }));
    await new Promise((done) => setTimeout(done, 20));
    expect(await nt.status({ key: (await store.list({ limit: 1 })).items[0]?.record.key ?? "" })).toMatchObject({
      status: "in_flight",
    });
    second.open("m2");
    expect(await two).toMatchObject({ status: "done", attempt: 2, result: "m2" });
    expect(await one).toMatchObject({ status: "done", replayed: true, result: "m2" });
  });

  it("F26: both attempts succeed with different ids: the first stands, and the duplicate is told", async () => {
    const { nt, another, clock, events } = open();
    const late = gate<{ id: string }>();
    let runs = 0;
    const options = {
      key: ["to"],
      doubt: "retry",
      ...fast,
      run: async (_mail: Mail) => (++runs === 1 ? late.opened : { id: "m2" }),
    } as const;
    const one = nt.action("mail", options).attempt(mail);
    await until(() => runs === 1);
    clock.advance(61_000);
    expect(await another().action("mail", options)(mail)).toEqual({ id: "m2" });
    late.open({ id: "m1" });
    expect(await one).toMatchObject({ status: "done", replayed: true, result: { id: "m2" } });
    expect(kinds(events)).toContain("duplicate_detected");
  });

  it("F26: the same id seen twice is one effect, not a duplicate", async () => {
    const { nt, another, clock, events } = open();
    const late = gate<{ id: string; seen: number }>();
    let runs = 0;
    const options = {
      key: ["to"],
      doubt: "retry",
      ...fast,
      run: async (_mail: Mail) => (++runs === 1 ? late.opened : { id: "m1", seen: 2 }),
    } as const;
    const one = nt.action("mail", options).attempt(mail);
    await until(() => runs === 1);
    clock.advance(61_000);
    await another().action("mail", options)(mail);
    late.open({ id: "m1", seen: 1 });
    await one;
    expect(kinds(events)).not.toContain("duplicate_detected");
  });

  it("F26: a success after a person resolved it as done is no duplicate, whatever its result", async () => {
    for (const result of ["m1", 7n, undefined]) {
      const { nt, clock, events } = open();
      const late = gate<unknown>();
      let runs = 0;
      const send = nt.action("mail", {
        key: ["to"],
        run: async (_mail: Mail) => {
          runs += 1;
          return late.opened;
        },
      });
      const one = send.attempt(mail);
      await until(() => runs === 1);
      clock.advance(61_000);
      await nt.resolve({ key: await send.keyOf(mail) }, { as: "done", by: "ana", reason: "saw it arrive" });
      late.open(result);
      expect(await one).toMatchObject({ status: "done" });
      expect(kinds(events)).not.toContain("duplicate_detected");
    }
  });

  it("F17: stopped between the mark and the socket: a hold is held, a probe waits until it is quiet", async () => {
    const { nt, another, clock } = open();
    const never = gate();
    let runs = 0;
    const asked: number[] = [];
    const stuck = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        await never.opened;
      },
    });
    void stuck.attempt(mail).catch(() => {});
    await until(() => runs === 1);
    clock.advance(61_000);
    const probing = another().action("mail", {
      key: ["to"],
      doubt: {
        quietFor: "2m",
        probe: async () => {
          asked.push(clock.instant().now);
          return "not-done" as const;
        },
      },
      run: async (_mail: Mail) => {
        runs += 1;
      },
    });
    expect(await probing.attempt(mail, { wait: 50 })).toMatchObject({ status: "unknown" });
    clock.advance(119_000);
    expect(await probing.attempt(mail, { wait: 50 })).toMatchObject({ status: "unknown" });
    expect(asked).toEqual([]);
    clock.advance(2_000);
    expect(await probing.attempt(mail)).toMatchObject({ status: "done", attempt: 2 });
    expect(asked).toHaveLength(1);
    expect(runs).toBe(2);
    never.open();
  });

  it("F19: heartbeat lost, work alive: the work is aborted, and nothing is sent a second time", async () => {
    const { nt, another, clock, events } = open();
    let runs = 0;
    let reason: unknown;
    const send = nt.action("mail", {
      key: ["to"],
      // Long enough that a starved machine does not sleep through it; the heartbeat that notices comes after a third.
      lease: "3s",
      timeout: "3s",
      run: (_mail: Mail, ctx) => {
        runs += 1;
        return new Promise<void>((_, reject) => {
          ctx.signal.addEventListener("abort", () => {
            reason = ctx.signal.reason;
            reject(ctx.signal.reason);
          });
        });
      },
    });
    const first = send.attempt(mail);
    await until(() => runs === 1);
    clock.advance(4_000);
    const other = another().action("mail", { key: ["to"], run: async (_mail: Mail) => ++runs });
    expect(await other.attempt(mail, { wait: 0 })).toMatchObject({ status: "unknown" });
    expect(await first).toMatchObject({ status: "unknown", attempt: 1 });
    expect(reason).toMatchObject({ code: "LEASE_LOST" });
    expect(kinds(events)).toContain("lease_lost");
    expect(runs).toBe(1);
  });

  it("O9: a long run keeps its lease by heartbeats", async () => {
    const { nt, another, clock, store } = open();
    const finish = gate();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      lease: "6s",
      timeout: "6s",
      run: async (_mail: Mail) => {
        runs += 1;
        await finish.opened;
      },
    });
    const first = send(mail);
    await until(() => runs === 1);
    const [begun] = (await store.list({ limit: 1 })).items;
    const leasedUntil = begun?.record.lease?.until ?? 0;
    // A third of the lease passes on the store's clock, and the next heartbeat renews it from there: past the first end.
    clock.advance(2_000);
    await until(async () => ((await store.list({ limit: 1 })).items[0]?.record.lease?.until ?? 0) > leasedUntil);
    clock.advance(4_000);
    const other = another().action("mail", { key: ["to"], run: async (_mail: Mail) => ++runs });
    expect(await other.attempt(mail, { wait: 0 })).toMatchObject({ status: "in_flight" });
    finish.open();
    await first;
    expect(runs).toBe(1);
  });
});

it("F16: an event loop that stood still past its lease after the claim sends nothing under it", async () => {
  const bench = openMemory();
  let stalls = 1;
  let runs = 0;
  const stalled = bench.another({
    wrap: (store) =>
      faulty(store, {
        afterWrite: () => {
          if (stalls-- > 0) bench.clock.advance(61_000);
        },
      }),
  });
  const heard: string[] = [];
  stalled.on((event) => heard.push(event.type));
  const send = stalled.action("mail", { key: ["to"], ...fast, run: async (_mail: Mail) => ++runs });
  expect(await send.attempt(mail)).toMatchObject({ status: "done", attempt: 2, result: 1 });
  expect(heard).toEqual(["lease_lost", "failed", "executed"]);
});

it("F16 G1: a stall after the claim, and another took it for a doubt: nothing is sent", async () => {
  const bench = openMemory();
  let stall = true;
  let runs = 0;
  const other = bench.another().action("mail", { key: ["to"], run: async (_mail: Mail) => ++runs });
  const stalled = bench.another({
    wrap: (store) =>
      faulty(store, {
        afterWrite: async () => {
          if (!stall) return;
          stall = false;
          bench.clock.advance(61_000);
          await other.attempt(mail);
        },
      }),
  });
  const send = stalled.action("mail", { key: ["to"], ...fast, run: async (_mail: Mail) => ++runs });
  expect(await send.attempt(mail)).toMatchObject({ status: "unknown" });
  expect(runs).toBe(0);
});
