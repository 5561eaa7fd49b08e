/** Options of a call that are there without a value: refused, in every entry, and nothing runs. */
import { afterEach, describe, expect, it } from "vitest";
import { type Nevertwice, nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";

const SIGNED = { by: "ana", reason: "checked" };
const opened: Nevertwice[] = [];
afterEach(async () => {
  for (const nt of opened.splice(0)) await nt.close();
});

interface Ways {
  readonly nt: Nevertwice;
  readonly ran: unknown[];
  readonly ways: Readonly<Record<string, (given: object) => Promise<unknown>>>;
}

async function program(): Promise<Ways> {
  const nt = nevertwice({ store: memoryStore(), tenant: "acme", sweep: false });
  opened.push(nt);
  const ran: unknown[] = [];
  const greet = nt.action("greet", { key: ["u"], run: async (input: { u: number }) => ran.push(input) });
  const tasks = nt.queue<{ u: number }>("tasks", { key: ["u"] });
  const drip = nt.sequence("drip", ["a"], { run: async () => ran.push("drip") });
  const key = await greet.keyOf({ u: 1 });
  const ways = {
    call: (given: object) => greet({ u: 1 }, given),
    attempt: (given: object) => greet.attempt({ u: 1 }, given),
    enqueue: (given: object) => greet.enqueue({ u: 1 }, given),
    enqueueMany: (given: object) => greet.enqueueMany([{ u: 1 }], given),
    each: (given: object) => greet.each([{ u: 1 }], given),
    keyOf: (given: object) => greet.keyOf({ u: 1 }, given),
    status: (given: object) => greet.status({ u: 1 }, given),
    "status by key": (given: object) => greet.status({ key }, given),
    resolve: (given: object) => greet.resolve({ u: 1 }, { as: "done", ...SIGNED }, given),
    "resolve by key": (given: object) => greet.resolve({ key }, { as: "done", ...SIGNED }, given),
    resend: (given: object) => greet.resend({ u: 1 }, { ...SIGNED, ...given }),
    "queue.add": (given: object) => tasks.add({ u: 1 }, given),
    "queue.addMany": (given: object) => tasks.addMany([{ u: 1 }], given),
    "queue.status": (given: object) => tasks.status({ u: 1 }, given),
    once: (given: object) => nt.once("hello", ["x"], () => ran.push("once"), given),
    "sequence.start": (given: object) => drip.start("ana", undefined, given),
    run: (given: object) => nt.run("trip", "1", () => ran.push("run"), given),
    step: (given: object) =>
      nt.run("walk", "1", (run) => run.step("one", () => ran.push("step"), given), { keep: "1h" }),
    "sequence.stop": (given: object) => drip.stop("ana", SIGNED, given),
    "sequence.restart": (given: object) => drip.restart("ana", SIGNED, given),
    "sequence.status": (given: object) => drip.status("ana", given),
  };
  return { nt, ran, ways };
}

const NO_TENANT = ["step"];
const NO_SCOPE = ["run", "step", "sequence.start", "sequence.stop", "sequence.restart", "sequence.status"];
const NO_TX = ["each", "run", "sequence.stop", "sequence.restart", "sequence.status"];

describe("a tenant that is given without a name does not leave the tenant of nevertwice()", () => {
  it.each([
    ["an empty string", "", "CONFIG"],
    ["null", null, "CONFIG"],
    ["undefined", undefined, "CONFIG"],
    ["blank", " \t", "INVALID_KEY"],
    ["a number", 7, "INVALID_KEY"],
    ["U+0000 in it", "a\0", "INVALID_KEY"],
  ])("%s", async (_, tenant, code) => {
    const { nt, ran, ways } = await program();
    for (const [way, call] of Object.entries(ways)) {
      if (NO_TENANT.includes(way)) continue;
      await expect.soft(call({ tenant }), way).rejects.toMatchObject({ code });
    }
    expect(ran).toEqual([]);
    expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
  });
});

describe("a scope that is given without a value does not widen the intent", () => {
  it.each([
    ["an empty string", "", "CONFIG"],
    ["null", null, "CONFIG"],
    ["undefined", undefined, "CONFIG"],
    ["blank", " ", "INVALID_KEY"],
    ["a number", 7, "INVALID_KEY"],
  ])("%s", async (_, scope, code) => {
    const { nt, ran, ways } = await program();
    for (const [way, call] of Object.entries(ways)) {
      // By key, nothing is derived from it.
      if (NO_SCOPE.includes(way) || (code === "INVALID_KEY" && way.endsWith("by key"))) continue;
      await expect.soft(call({ scope }), way).rejects.toMatchObject({ code });
    }
    expect(ran).toEqual([]);
    expect((await nt.store.list({ limit: 10 })).items).toEqual([]);
  });
});

describe("a transaction that is given as undefined is not no transaction", () => {
  it.each([undefined, null])("%s", async (tx) => {
    const { nt, ran, ways } = await program();
    for (const [way, call] of Object.entries(ways)) {
      if (NO_TX.includes(way)) continue;
      await expect.soft(call({ tx }), way).rejects.toMatchObject({
        code: "CONFIG",
        message: expect.stringMatching(/tx is (undefined|null)|takes no tx/),
      });
    }
    expect(ran).toEqual([]);
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.filter(({ record }) => record.action !== "run:walk")).toEqual([]);
  });
});

describe("a target that is not { key } is refused", () => {
  it.each([["nt1_x"], [undefined], [null], [{}], [{ key: "" }], [{ key: 7 }], [{ id: "nt1_x" }]])(
    "%j",
    async (target) => {
      const { nt } = await program();
      const refused = { code: "INVALID_KEY", message: expect.stringContaining("Give { key:") };
      await expect(nt.status(target as never)).rejects.toMatchObject(refused);
      await expect(nt.resolve(target as never, { as: "done", ...SIGNED })).rejects.toMatchObject(refused);
      await expect(nt.retry(target as never, SIGNED)).rejects.toMatchObject(refused);
    },
  );
});
