import { describe, expect, it, onTestFinished } from "vitest";
import { notSent } from "../../core/errors.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { toolMemory } from "./memory.ts";

function ledger() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  return nt;
}

describe.each([
  { where: "in the process", nt: () => ({}) },
  { where: "on a ledger", nt: () => ({ nt: ledger() }) },
])("toolMemory $where", ({ nt }) => {
  it("A1: the same call again in one trace gets the first result, whatever the order of its arguments", async () => {
    const memory = toolMemory({ scope: "run-1", ...nt() });
    let runs = 0;
    const run = async () => ++runs;
    expect(await memory.call("post", { a: 1, b: 2 }, run)).toEqual({ kind: "result", result: 1, note: null });
    const again = await memory.call("post", { b: 2, a: 1 }, run);
    expect(again).toMatchObject({ kind: "result", result: 1 });
    expect(again.kind === "result" && again.note).toMatch(/^Already done at .*post was not run again\.$/);
    expect((await memory.call("post", { a: 1, b: 3 }, run)).kind === "result" && runs).toBe(2);
    expect(await Promise.all([memory.call("wipe", {}, run), memory.call("wipe", {}, run)])).toMatchObject([
      { result: 3 },
      { result: 3 },
    ]);
  });

  it("a declared number of repeats really runs; one call id delivered twice is one of them", async () => {
    const memory = toolMemory({ scope: "run-1", repeats: { roll: 1, look: Number.POSITIVE_INFINITY }, ...nt() });
    let runs = 0;
    const roll = async (tool: string, id?: string) => {
      const answer = await memory.call(tool, { dice: 6 }, async () => ++runs, id);
      return answer.kind === "result" ? answer.result : answer.text;
    };
    expect([
      await roll("roll", "c1"),
      await roll("roll", "c1"),
      await roll("roll", "c2"),
      await roll("roll", "c3"),
    ]).toEqual([1, 1, 2, 2]);
    expect([await roll("look"), await roll("look")]).toEqual([3, 4]);
  });

  it("a doubt is told and not run again; what surely did not happen may be tried again", async () => {
    const memory = toolMemory({ scope: "run-1", ...nt(), tools: { free: { retry: { attempts: 1 } } } });
    let runs = 0;
    const lost = async () => {
      runs += 1;
      throw new Error("socket hang up");
    };
    const first = await memory.call("pay", { id: 1 }, lost);
    expect(first.kind === "refused" && first.text).toMatch(
      /^pay failed: socket hang up\. It may have happened all the same/,
    );
    expect((await memory.call("pay", { id: 1 }, lost)).kind).toBe("refused");
    expect(runs).toBe(1);
    const cause = new Error("no quota");
    let tries = 0;
    const free = async () => {
      tries += 1;
      if (tries === 1) throw notSent(cause);
      return tries;
    };
    await expect(memory.call("free", { id: 1 }, free)).rejects.toThrow(/no quota/);
    expect(await memory.call("free", { id: 1 }, free)).toMatchObject({ result: 2 });
  });
});

describe("toolMemory", () => {
  it("on a ledger it outlives the loop, and a tool's own key and free fields hold", async () => {
    const nt = ledger();
    const open = () => toolMemory({ scope: "run-1", nt, tools: { mail: { key: ["to"], free: ["body"] } } });
    let runs = 0;
    await open().call("mail", { to: "ada", body: "Hello" }, async () => ++runs);
    const again = await open().call("mail", { to: "ada", body: "Good day" }, async () => ++runs);
    expect(again.kind === "result" && again.note).toContain("Your body differs");
    expect(await open().call("mail", { to: "ada", amount: 1 }, async () => ++runs)).toMatchObject({
      kind: "refused",
      outcome: { status: "conflict" },
    });
    expect(runs).toBe(1);
  });

  it("says what is wrong with an option", async () => {
    expect(() => toolMemory({ scope: " " })).toThrow(/scope is missing/);
    expect(() => toolMemory({ scope: "a", repeats: { roll: 1.5 } })).toThrow(
      /repeats\.roll is 1\.5; it takes a whole number, or Infinity/,
    );
    expect(() => toolMemory({ scope: "a", repeats: 3 as never })).toThrow(
      /repeats is 3; it takes a number by the tool/,
    );
    expect(() => toolMemory({ scope: "a", repeat: {} } as never)).toThrow(/there is no option "repeat"\. The options/);
    await expect(toolMemory({ scope: "a" }).call("send", {}, undefined as never)).rejects.toThrow(
      /call\("send", …\): the third argument must be the function that runs the tool/,
    );
  });
});

it("an answer of classify that it may not give is doubt: the call is not made again", async () => {
  const memory = toolMemory({ scope: "run-1", tools: { mail: { classify: () => "notsent" as never } } });
  let runs = 0;
  const send = () =>
    memory.call("mail", { to: "ada" }, async () => {
      runs += 1;
      throw new Error("no reply");
    });
  const first = await Promise.resolve(send()).then(String, String);
  const again = await Promise.resolve(send()).then(String, String);
  expect([runs, first, again]).toEqual([1, expect.anything(), expect.anything()]);
});

it("a trace of more calls than can be remembered is refused, and its first calls are not run again", async () => {
  const memory = toolMemory({ scope: "run-1" });
  const ran: number[] = [];
  const call = (n: number) => memory.call("send", { n }, async () => ran.push(n));
  for (let n = 0; n < 10_000; n += 1) await call(n);
  await expect(call(10_000)).rejects.toThrow(/made 10000 different calls\. The tool was not run/);
  await call(0);
  expect([ran.length, ran.includes(10_000)]).toEqual([10_000, false]);
});

it("a call id whose turn was given out long ago does not get another", async () => {
  const memory = toolMemory({ scope: "run-1", repeats: { roll: 1 } });
  let rolls = 0;
  const roll = (id: string) => memory.call("roll", {}, async () => ++rolls, id);
  expect(await roll("first")).toMatchObject({ result: 1 });
  for (let n = 0; n < 10_050; n += 1) await roll(`id ${n}`);
  expect(await roll("first")).toMatchObject({ result: 1 });
  expect(rolls).toBe(2);
});
