import { describe, expect, it } from "vitest";
import { eachStore, kinds, openMemory } from "../../test/support/each-store.ts";
import { gate } from "../../test/support/gate.ts";
import { faulty } from "../../test/support/store-faults.ts";

interface Mail {
  to: string;
  amount: number;
  body?: string;
}

eachStore("same key, other input", (open) => {
  const mail = (nt: ReturnType<typeof open>["nt"], sent: Mail[]) =>
    nt.action("mail", {
      key: ["to"],
      free: ["body"],
      run: async (input: Mail) => {
        sent.push(input);
        return { id: "m1" };
      },
    });

  it("F2: another guarded field is a conflict: named, and 0 further sends", async () => {
    const { nt, events } = open();
    const sent: Mail[] = [];
    const send = mail(nt, sent);
    await send({ to: "a", amount: 1 });
    expect(await send.attempt({ to: "a", amount: 2 })).toMatchObject({ status: "conflict", differs: ["amount"] });
    await expect(send({ to: "a", amount: 2 })).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    expect(sent).toHaveLength(1);
    expect(kinds(events)).toContain("conflict");
  });

  it("F2: a conflict with an attempt that is still in flight, in this process and in another", async () => {
    const { nt, another } = open();
    const finish = gate();
    const started = gate();
    let runs = 0;
    const options = {
      key: ["to"] as const,
      run: async (_input: Mail) => {
        runs += 1;
        started.open();
        await finish.opened;
      },
    };
    const send = nt.action("mail", options);
    const first = send({ to: "a", amount: 1 });
    await started.opened;
    const other = another().action("mail", options);
    for (const action of [send, other]) {
      expect(await action.attempt({ to: "a", amount: 2 })).toMatchObject({ status: "conflict", differs: ["amount"] });
    }
    finish.open();
    await first;
    expect(runs).toBe(1);
  });

  it("K3: a reworded free field is the same intent, and the repeat says what differs", async () => {
    const { nt } = open();
    const sent: Mail[] = [];
    const send = mail(nt, sent);
    await send({ to: "a", amount: 1, body: "Dear Ana" });
    const repeat = await send.attempt({ to: "a", amount: 1, body: "Hi Ana" });
    expect(repeat).toMatchObject({ status: "done", replayed: true, differs: ["body"] });
    expect(await send.attempt({ to: "a", amount: 1, body: "Dear Ana" })).not.toHaveProperty("differs");
    expect(sent).toHaveLength(1);
  });

  it("K3: a free field that is missing on the repeat differs too", async () => {
    const { nt } = open();
    const send = mail(nt, []);
    await send({ to: "a", amount: 1, body: "Dear Ana" });
    expect(await send.attempt({ to: "a", amount: 1 })).toMatchObject({ status: "done", differs: ["body"] });
  });

  it("O4: a corrected input may follow a failure that is not final", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (input: Mail) => {
        runs += 1;
        if (input.amount < 0) throw Object.assign(new Error("bad amount"), { status: 422 });
        return input.amount;
      },
    });
    expect(await send.attempt({ to: "a", amount: -1 })).toMatchObject({ status: "failed", final: false });
    expect(await send({ to: "a", amount: 1 })).toBe(1);
    expect(runs).toBe(2);
  });
});

describe("another input that gets in between while claiming", () => {
  const raced = (early: (nt: ReturnType<typeof openMemory>["nt"]) => Promise<unknown>) => {
    const other = gate();
    const bench = openMemory();
    const loser = bench.another({ wrap: (store) => faulty(store, { beforeWrite: () => other.opened }) });
    const late = loser.action("mail", { key: ["to"], run: async (input: Mail) => input.amount });
    const racing = late.attempt({ to: "a", amount: 2 });
    return {
      bench,
      racing: early(bench.nt)
        .then(() => other.open())
        .then(() => racing),
    };
  };

  it("F2 G1: the loser of the race leaves the other intent's record alone", async () => {
    const { bench, racing } = raced(async (nt) => {
      const early = nt.action("mail", { key: ["to"], run: async (_: Mail) => "x" });
      await early.enqueue({ to: "a", amount: 1 });
    });
    const outcome = await racing;
    expect(outcome).toMatchObject({ status: "conflict", differs: ["amount"] });
    // Queued, and still so: nobody's claim was left behind.
    expect(await bench.record(outcome.key)).toMatchObject({ state: "pending", queued: true, lease: null, attempt: 0 });
  });

  it("O4: what the other input surely did not do may be corrected, also where it waits for its next try", async () => {
    const { bench, racing } = raced(async (nt) => {
      const early = nt.action("mail", {
        key: ["to"],
        retry: { attempts: 5, backoff: "1h", max: "1h" },
        run: async (_: Mail) => {
          throw Object.assign(new Error("refused"), { code: "ECONNREFUSED", syscall: "connect" });
        },
      });
      expect(await early.attempt({ to: "a", amount: 1 }, { wait: 0 })).toMatchObject({ status: "failed" });
    });
    const outcome = await racing;
    expect(outcome).toMatchObject({ status: "done", result: 2, attempt: 2 });
    expect(await bench.record(outcome.key)).toMatchObject({ state: "confirmed", tries: 1 });
  });
});
