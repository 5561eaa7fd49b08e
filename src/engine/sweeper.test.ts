import { nevertwice } from "nevertwice";
import { expect, it, onTestFinished } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}

eachStore("sweep", (open) => {
  const silent = async (count: number, doubt: "hold" | { resendWithin: string }) => {
    const bench = open();
    const never = gate();
    const runs: string[] = [];
    const stuck = bench.nt.action("mail", {
      key: ["to"],
      doubt,
      run: async ({ to }: Mail) => {
        runs.push(to);
        await never.opened;
        return to;
      },
    });
    const calls = Array.from({ length: count }, (_, i) => stuck.attempt({ to: `n${i}` }));
    await until(() => runs.length === count);
    bench.clock.advance(61_000);
    onTestFinished(async () => {
      never.open();
      await Promise.allSettled(calls);
    });
    return { ...bench, runs, stuck, never };
  };

  it("G4: holders that fell silent become visible as unknown within one pass", async () => {
    const { another, runs, store } = await silent(5, "hold");
    const watcher = another();
    const heard: string[] = [];
    watcher.on((event) => heard.push(event.type));
    expect(await watcher.sweep()).toEqual({ lapsed: 5, settled: 0, removed: 0, damaged: 0 });
    expect((await store.stats()).states).toMatchObject({ unknown: 5, sent: 0 });
    expect(heard).toEqual(Array(5).fill("unknown"));
    expect(await watcher.sweep()).toEqual({ lapsed: 0, settled: 0, removed: 0, damaged: 0 });
    expect(runs).toHaveLength(5);
  });

  it("F21: doubts are settled as the policy allows, with the stored input", async () => {
    const { another, runs } = await silent(3, "hold");
    const rescuer = another();
    const sent: Mail[] = [];
    rescuer.action("mail", {
      key: ["to"],
      doubt: { resendWithin: "24h" },
      run: async (input: Mail) => {
        sent.push(input);
        return `again ${input.to}`;
      },
    });
    expect(await rescuer.sweep()).toMatchObject({ lapsed: 3, settled: 3 });
    expect(sent.map((one) => one.to).sort()).toEqual(["n0", "n1", "n2"]);
    expect(runs).toHaveLength(3);
  });

  it("G3: a hold is never settled by a sweep, and another action's doubts are not touched", async () => {
    const { another, runs } = await silent(2, "hold");
    const rescuer = another();
    let ran = 0;
    rescuer.action("other", { doubt: "retry", run: async (_mail: Mail) => ++ran });
    rescuer.action("mail", { key: ["to"], run: async (_mail: Mail) => ++ran });
    expect(await rescuer.sweep()).toMatchObject({ lapsed: 2, settled: 0 });
    await rescuer.sweep();
    expect([ran, runs.length]).toEqual([0, 2]);
  });

  it("G3: what a probe finds not done is left to the next call, not run from a sweep", async () => {
    const { another, runs } = await silent(1, "hold");
    const rescuer = another();
    const send = rescuer.action("mail", {
      key: ["to"],
      doubt: { quietFor: 0, probe: () => "not-done" },
      run: async ({ to }: Mail) => {
        runs.push(`again ${to}`);
        return to;
      },
    });
    await rescuer.sweep();
    expect(runs).toEqual(["n0"]);
    expect(await send.status({ to: "n0" })).toMatchObject({ status: "failed", final: false });
    expect(await send({ to: "n0" })).toBe("n0");
  });

  it("a doubt that cannot be settled blocks nobody, and is told without its input", async () => {
    const { another, store } = await silent(3, "hold");
    const warned: { code: string; message: string }[] = [];
    const rescuer = another({ onWarning: (warning) => warned.push(warning) });
    rescuer.action("mail", {
      key: (i: Mail) => {
        if (i.to === "n1") throw new Error(`cannot key ${i.to}`);
        return [i.to];
      },
      doubt: { resendWithin: "24h" },
      run: async ({ to }) => to,
    });
    expect(await rescuer.sweep()).toMatchObject({ settled: 2 });
    expect((await store.stats()).states).toMatchObject({ unknown: 1 });
    expect(warned).toMatchObject([{ code: "SETTLE_FAILED" }]);
    expect(warned[0]?.message).not.toContain("n1");
  });

  it("a sweep leaves a caller that is settling the same doubt alone, and close() waits for it", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      doubt: { resendWithin: "24h" },
      retry: { attempts: 3, backoff: "40ms", max: "40ms" },
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs < 3) throw new Error("reply lost");
        return runs;
      },
    });
    const call = send.attempt({ to: "a" });
    await until(() => runs === 1);
    await nt.sweep();
    await nt.close();
    expect(await call).toMatchObject({ status: "done" });
  });
});

it("G4: the background loop sweeps by itself once an action was used, and stops with close()", async () => {
  const bench = openMemory();
  const nt = nevertwice({ store: bench.store, sweep: 20, onWarning: () => {} });
  const never = gate();
  let runs = 0;
  const stuck = bench.nt.action("mail", {
    run: async (_mail: Mail) => {
      runs += 1;
      await never.opened;
    },
  });
  const call = stuck.attempt({ to: "a" });
  await until(() => runs === 1);
  bench.clock.advance(61_000);
  await nt.once("used", [1], () => 1);
  await until(async () => (await bench.store.stats()).states.unknown === 1);
  never.open();
  await call;
  await nt.close();
});
