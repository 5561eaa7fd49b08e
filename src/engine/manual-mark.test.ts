import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { faulty } from "../../test/support/store-faults.ts";

interface Job {
  id: string;
}

eachStore('mark: "manual"', (open) => {
  it("O2: claimed until ctx.sent(), sent from then on", async () => {
    const { nt, record } = open();
    const seen: string[] = [];
    const send = nt.action("send", {
      mark: "manual",
      run: async (_job: Job, ctx) => {
        seen.push((await record(ctx.key)).state);
        await ctx.sent();
        await ctx.sent();
        seen.push((await record(ctx.key)).state);
        return "ok";
      },
    });
    expect(await send({ id: "1" })).toBe("ok");
    expect(seen).toEqual(["claimed", "sent"]);
  });

  it("O4: what throws before sent() was surely not sent, whatever it is", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("send", {
      mark: "manual",
      retry: { attempts: 3, backoff: "1ms" },
      run: async (_job: Job, ctx) => {
        runs += 1;
        if (runs < 3) throw new Error("a bug before the effect");
        await ctx.sent();
        return runs;
      },
    });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "done", attempt: 3, result: 3 });
  });

  it("G3: what throws after sent() is doubt", async () => {
    const { nt } = open();
    const send = nt.action("send", {
      mark: "manual",
      run: async (_job: Job, ctx): Promise<void> => {
        await ctx.sent();
        throw new Error("a bug after the effect");
      },
    });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "unknown", attempt: 1 });
  });

  it("returning without sent() is a CONFIG error, and the attempt is held", async () => {
    const { nt } = open();
    const send = nt.action("send", { mark: "manual", run: async (_job: Job) => "forgot" });
    await expect(send.attempt({ id: "1" })).rejects.toMatchObject({ code: "CONFIG" });
    expect(await send.status({ id: "1" })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "unknown", attempt: 1 });
  });

  it("F21: a resend of a manually marked attempt may call sent() again and succeed", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("send", {
      mark: "manual",
      doubt: { resendWithin: "1h" },
      retry: { attempts: 3, backoff: "1ms" },
      run: async (_job: Job, ctx) => {
        await ctx.sent();
        runs += 1;
        if (runs === 1) throw new Error("reply lost");
        return runs;
      },
    });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "done", attempt: 2, result: 2 });
  });

  it("a resend that returns without sent() is held too", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("send", {
      mark: "manual",
      doubt: "retry",
      retry: { attempts: 3, backoff: "1ms" },
      run: async (_job: Job, ctx) => {
        runs += 1;
        if (runs > 1) return runs;
        await ctx.sent();
        throw new Error("reply lost");
      },
    });
    await expect(send.attempt({ id: "1" })).rejects.toMatchObject({ code: "CONFIG" });
    expect(await send.status({ id: "1" })).toMatchObject({ status: "unknown" });
  });

  it("a timeout before sent() was not sent, and the straggler's sent() is refused", async () => {
    const { nt } = open();
    const refusals: unknown[] = [];
    const go = gate();
    let runs = 0;
    const send = nt.action("send", {
      mark: "manual",
      timeout: 20,
      retry: { attempts: 2, backoff: "1ms" },
      run: async (_job: Job, ctx) => {
        runs += 1;
        if (runs === 1) {
          await go.opened;
          await ctx.sent().catch((error) => refusals.push(error));
          return "straggler";
        }
        await ctx.sent();
        return "second";
      },
    });
    expect(await send({ id: "1" })).toBe("second");
    go.open();
    await until(() => refusals.length > 0);
    expect(refusals).toEqual([expect.objectContaining({ code: "LEASE_LOST" })]);
  });
});

describe("a send mark that is under way when the timeout comes", () => {
  it("G1 G3: the mark may still arrive, so the attempt counts as sent and is not run again", async () => {
    let sends = 0;
    let marks = 0;
    const { nt } = openMemory({
      wrap: (store) =>
        faulty(store, {
          // Committed at once, but the answer takes longer than the attempt may.
          afterWrite: async (puts) => {
            if (puts.some(({ record }) => record.state === "sent") && ++marks === 1) {
              await new Promise((done) => setTimeout(done, 80));
            }
          },
        }),
    });
    const send = nt.action("send", {
      mark: "manual",
      timeout: 20,
      retry: { attempts: 5, backoff: "1ms" },
      run: async (_job: Job, ctx) => {
        await ctx.sent();
        sends += 1;
        return sends;
      },
    });
    expect(await send.attempt({ id: "1" }, { wait: "2s" })).toMatchObject({ status: "unknown", attempt: 1 });
    await until(async () => (await send.status({ id: "1" })).status === "done", "the late success");
    expect(sends).toBe(1);
  });
});
