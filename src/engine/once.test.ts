import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

eachStore("once", (open) => {
  it("O12: wraps one existing function, ad hoc", async () => {
    const { nt, another } = open();
    let runs = 0;
    const welcome = async () => ({ sent: ++runs });
    expect(await nt.once("welcome", ["user-1"], welcome)).toEqual({ sent: 1 });
    expect(await nt.once("welcome", ["user-1"], welcome)).toEqual({ sent: 1 });
    expect(await another().once("welcome", ["user-1"], welcome)).toEqual({ sent: 1 });
    expect(await nt.once("welcome", ["user-2"], welcome)).toEqual({ sent: 2 });
    expect(await nt.once("goodbye", ["user-1"], welcome)).toEqual({ sent: 3 });
  });

  it("O12: at once, too: one runs, the others get its result", async () => {
    const { nt } = open();
    let runs = 0;
    const all = Array.from({ length: 20 }, () => nt.once("welcome", [1], async () => ++runs));
    expect(await Promise.all(all)).toEqual(Array(20).fill(1));
  });

  it("takes the options of an action and of a call", async () => {
    const { nt, clock } = open();
    let runs = 0;
    const run = () => ++runs;
    const options = { keep: "1d", scope: "run-1", tenant: "acme", version: 2 } as const;
    expect(await nt.once("tick", [1], run, options)).toBe(1);
    expect(await nt.once("tick", [1], run, options)).toBe(1);
    expect(await nt.once("tick", [1], run)).toBe(2);
    clock.advance(86_400_001);
    expect(await nt.once("tick", [1], run, options)).toBe(3);
  });

  it("K7: a name that an action uses as well is noticed as a conflict, not taken for a repeat", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", { key: ["to"], run: async (_mail: { to: string }) => ++runs });
    await send({ to: "a" });
    await expect(nt.once("mail", ["a"], () => ++runs)).rejects.toMatchObject({ code: "KEY_CONFLICT" });
    expect(runs).toBe(1);
  });

  it("says what is wrong with its arguments", async () => {
    const { nt } = open();
    await expect(nt.once("x", [1], 5 as unknown as () => number)).rejects.toThrow(
      /third argument must be the function/,
    );
    await expect(nt.once("x", [], () => 1)).rejects.toMatchObject({ code: "INVALID_KEY" });
    await expect(nt.once("x", [1], () => 1, { kep: "1d" } as object)).rejects.toThrow(/no option "kep"/);
  });
});

it("names made at call time keep nothing of their functions alive", async () => {
  const { nt } = openMemory();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const held: WeakRef<object>[] = [];
  for (let i = 0; i < 50; i += 1) {
    const large = { body: "x".repeat(1_000) };
    held.push(new WeakRef(large));
    await nt.once(`welcome-${i}`, [i], () => large.body.length);
  }
  await new Promise((turn) => setTimeout(turn, 10));
  collect();
  // The last one may still be in the hands of the loop that made it.
  expect(held.filter((one) => one.deref() !== undefined).length).toBeLessThan(5);
});
