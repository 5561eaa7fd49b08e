import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";
import { gate } from "../../test/support/gate.ts";

eachStore("one key, many callers", (open) => {
  it("F1 O1 O3: 100 callers of one process: 1 attempt, the rest replay its result", async () => {
    const { nt, events } = open();
    let runs = 0;
    const send = nt.action("send", {
      key: ["leadId"],
      run: async (_input: { leadId: string }) => ({ id: `msg_${++runs}` }),
    });
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => send.attempt({ leadId: "l1" })));
    expect(runs).toBe(1);
    expect(outcomes.every((one) => one.status === "done" && one.result.id === "msg_1")).toBe(true);
    expect(outcomes.filter((one) => one.status === "done" && !one.replayed)).toHaveLength(1);
    expect(kinds(events).filter((kind) => kind === "replayed")).toHaveLength(99);
  });

  it("F1 O3: ten instances on one ledger, ten callers each: 1 attempt, all others wait and replay", async () => {
    const { nt, another } = open();
    let runs = 0;
    const actions = [nt, ...Array.from({ length: 9 }, () => another())].map((instance) =>
      instance.action("send", {
        key: ["leadId"],
        run: async (_input: { leadId: string }) => {
          await new Promise((done) => setTimeout(done, 20));
          return ++runs;
        },
      }),
    );
    const calls = actions.flatMap((send) => Array.from({ length: 10 }, () => send.attempt({ leadId: "l1" })));
    const outcomes = await Promise.all(calls);
    expect(runs).toBe(1);
    expect(outcomes.map((one) => one.status === "done" && one.result)).toEqual(Array(100).fill(1));
    expect(outcomes.filter((one) => one.status === "done" && !one.replayed)).toHaveLength(1);
  });

  it("O3: who may not wait is told in_flight, and by whom it is held until when", async () => {
    const { nt, another, clock } = open();
    const started = gate();
    const finish = gate();
    const options = {
      key: ["leadId"],
      lease: "60s",
      run: async (_input: { leadId: string }) => {
        started.open();
        await finish.opened;
        return "sent";
      },
    } as const;
    const first = nt.action("send", options)({ leadId: "l1" });
    await started.opened;
    const second = another().action("send", options);
    const outcome = await second.attempt({ leadId: "l1" }, { wait: 0 });
    expect(outcome).toMatchObject({ status: "in_flight" });
    expect(outcome.status === "in_flight" && outcome.until > clock.instant().now).toBe(true);
    await expect(second({ leadId: "l1" }, { wait: 0 })).rejects.toMatchObject({ code: "IN_FLIGHT" });
    finish.open();
    expect(await first).toBe("sent");
  });

  it("O3: in the process that runs it, too, a caller with no patience is told in_flight", async () => {
    const { nt, events } = open();
    const finish = gate();
    const send = nt.action("send", { key: ["leadId"], run: async (_input: { leadId: string }) => finish.opened });
    const first = send({ leadId: "l1" });
    expect(await send.attempt({ leadId: "l1" }, { wait: 0 })).toMatchObject({ status: "in_flight" });
    expect(kinds(events)).toContain("in_flight");
    finish.open();
    await first;
  });

  it("O3: a patient caller is not cut short by an impatient one it joined", async () => {
    const { nt, another } = open();
    const started = gate();
    const finish = gate();
    const run = async (_input: { leadId: string }) => {
      started.open();
      await finish.opened;
      return "sent";
    };
    const first = another().action("send", { key: ["leadId"], run })({ leadId: "l1" });
    await started.opened;
    const send = nt.action("send", { key: ["leadId"], run });
    const impatient = send.attempt({ leadId: "l1" }, { wait: 30 });
    const patient = send.attempt({ leadId: "l1" }, { wait: "20s" });
    expect(await impatient).toMatchObject({ status: "in_flight" });
    finish.open();
    expect(await patient).toMatchObject({ status: "done", replayed: true, result: "sent" });
    await first;
  });

  it("O1: different intents run side by side", async () => {
    const { nt } = open();
    const send = nt.action("send", { key: ["n"], run: async ({ n }: { n: number }) => n * 2 });
    const results = await Promise.all(Array.from({ length: 300 }, (_, n) => send({ n })));
    expect(results).toEqual(Array.from({ length: 300 }, (_, n) => n * 2));
    expect(await Promise.all(Array.from({ length: 300 }, (_, n) => send({ n })))).toEqual(results);
  });

  it("O2: the ledger says sent before the effect begins, and claimed while it is prepared", async () => {
    const { nt, record } = open();
    const seen: string[] = [];
    const send = nt.action("send", {
      key: ["leadId"],
      prepare: async (_input: { leadId: string }, ctx) => {
        seen.push((await record(ctx.key)).state);
        return "draft";
      },
      run: async (_input, ctx, draft) => {
        seen.push((await record(ctx.key)).state);
        return draft;
      },
    });
    expect(await send({ leadId: "l1" })).toBe("draft");
    expect(seen).toEqual(["claimed", "sent"]);
    expect(await record(await send.keyOf({ leadId: "l1" }))).toMatchObject({
      state: "confirmed",
      attempt: 1,
      fence: 1,
    });
  });
});
