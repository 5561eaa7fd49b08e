import { notSent, rejected } from "nevertwice";
import { describe, expect, it } from "vitest";
import { kinds, openMemory } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty, firstInto } from "../../test/support/store-faults.ts";

interface Job {
  id: string;
}

function withFaults() {
  const faults: Faults = {};
  const bench = openMemory({ wrap: (store) => faulty(store, faults) });
  return { ...bench, faults };
}

describe("the store is down", () => {
  it("F44 O10: refused by default: STORE_UNAVAILABLE, and nothing is run", async () => {
    const { nt, faults } = withFaults();
    let runs = 0;
    const send = nt.action("send", { run: async (_job: Job) => ++runs });
    faults.down = true;
    await expect(send.attempt({ id: "1" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(send({ id: "1" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(runs).toBe(0);
  });

  it("F44 O10: the reason is said once, however often the store failed, and no advice that the action follows already", async () => {
    const { nt, faults } = withFaults();
    const send = nt.action("send", { whenStoreDown: "run", run: async (_job: Job) => "sent" });
    faults.down = true;
    for (let i = 0; i < 12; i += 1) {
      const { message } = (await send.enqueue({ id: String(i) }).catch((error: Error) => error)) as Error;
      expect(message).not.toContain("whenStoreDown");
      expect(message.match(/Nothing is run without it/g)).toHaveLength(1);
      expect(message.match(/did not answer/g)).toHaveLength(1);
    }
  });

  it("F44 O10: fails open where asked, and says so", async () => {
    const { nt, faults, events } = withFaults();
    let runs = 0;
    const send = nt.action("send", {
      whenStoreDown: "run",
      prepare: async () => "draft",
      run: async (_job: Job, ctx, draft: string) => `${draft} ${++runs} ${ctx.key.slice(0, 4)}`,
    });
    faults.down = true;
    expect(await send({ id: "1" })).toBe("draft 1 nt1_");
    expect(await send({ id: "2" })).toBe("draft 2 nt1_");
    expect(kinds(events).filter((kind) => kind === "bypassed")).toHaveLength(2);
    expect(events).toContainEqual(expect.objectContaining({ type: "store_down", store: "memory" }));
  });

  it("O10: run without the ledger, the action's own classify counts as it does with one", async () => {
    const { nt, faults } = withFaults();
    const run = async (_job: Job) => Promise.reject(new Error("invalid email"));
    const send = nt.action("send", { whenStoreDown: "run", classify: () => "refused", run });
    faults.down = true;
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "failed", final: false });
  });

  it("O10: fails open too where repeats are the rule and the ledger is read first", async () => {
    const { nt, faults } = withFaults();
    let runs = 0;
    const send = nt.action("send", { whenStoreDown: "run", run: async (_job: Job) => ++runs });
    const large = nt.action("large", { run: async (_job: Job) => "x".repeat(5_000) });
    for (let i = 0; i < 100; i += 1) await large({ id: "1" });
    faults.down = true;
    expect(await send({ id: "1" })).toBe(1);
  });

  it("O10: an effect that fails while the ledger is down is unknown, with its own error as the cause", async () => {
    const { nt, faults } = withFaults();
    const broken = new Error("reset");
    const send = nt.action("send", {
      whenStoreDown: "run",
      run: async (_job: Job): Promise<void> => {
        throw broken;
      },
    });
    faults.down = true;
    await expect(send({ id: "1" })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN", cause: broken });
  });

  it("O10 O4: what surely did not happen while the ledger is down is failed, not a doubt", async () => {
    const { nt, faults } = withFaults();
    const refused = new Error("refused");
    const send = nt.action("send", {
      whenStoreDown: "run",
      run: async (job: Job) => {
        throw job.id === "1" ? notSent(refused) : rejected(refused);
      },
    });
    faults.down = true;
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "failed", error: refused, final: false });
    expect(await send.attempt({ id: "2" })).toMatchObject({ status: "failed", error: refused, final: true });
  });

  it("O10: the breaker opens after repeated failures, and closes when the store is back", async () => {
    const { nt, faults, events } = withFaults();
    const send = nt.action("send", { run: async (_job: Job) => "ok" });
    faults.down = true;
    for (const id of ["1", "2"]) await send.attempt({ id }).catch(() => {});
    expect(kinds(events)).toEqual(["store_down"]);
    faults.down = false;
    await until(async () => (await send.attempt({ id: "3" }).catch(() => null))?.status === "done");
    expect(kinds(events)).toEqual(["store_down", "store_up", "executed"]);
  });

  it("G3: an effect that ran and could not be recorded is done for its caller, told later, and never run again", async () => {
    const { nt, faults, events, store } = withFaults();
    let runs = 0;
    const send = nt.action("send", {
      whenStoreDown: "run",
      run: async (_job: Job) => {
        faults.down = true;
        return ++runs;
      },
    });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "done", result: 1 });
    expect(kinds(events)).toEqual(expect.arrayContaining(["confirm_delayed"]));
    faults.down = false;
    const key = await send.keyOf({ id: "1" });
    await until(async () => (await store.read([key]))[0]?.record.state === "confirmed");
    expect(await send({ id: "1" })).toBe(1);
    expect(runs).toBe(1);
  });

  it("G3: failing open never runs an effect a second time within one call", async () => {
    const { nt, faults } = withFaults();
    let runs = 0;
    const send = nt.action("send", {
      whenStoreDown: "run",
      mark: "manual",
      run: async (_job: Job) => {
        faults.down = true;
        return ++runs;
      },
    });
    await send.attempt({ id: "1" }).catch(() => {});
    expect(runs).toBe(1);
  });

  it("O4: a failure that could not be recorded is told as soon as the store listens", async () => {
    const { nt, faults, store } = withFaults();
    const send = nt.action("send", {
      run: async (_job: Job): Promise<void> => {
        faults.down = true;
        throw Object.assign(new Error("no such address"), { status: 422 });
      },
    });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "failed", final: false });
    faults.down = false;
    const key = await send.keyOf({ id: "1" });
    await until(async () => (await store.read([key]))[0]?.record.state === "failed");
  });

  it("close() tells the ledger what it does not know yet", async () => {
    const { nt, faults, store } = withFaults();
    const send = nt.action("send", { run: async (_job: Job) => "ok" });
    let told: string | undefined;
    faults.afterWrite = (puts) => {
      told = puts[0]?.record.state;
    };
    faults.loseReply = firstInto("confirmed", 3);
    await send({ id: "1" });
    expect(await store.read([await send.keyOf({ id: "1" })])).toMatchObject([{ record: { state: "confirmed" } }]);
    await nt.close();
    expect(told).toBe("confirmed");
  });
});
