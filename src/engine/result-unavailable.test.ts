import { expect, it } from "vitest";
import { type Bench, eachStore } from "../../test/support/each-store.ts";

interface Mail {
  readonly to: string;
}

const BY = { by: "ana", reason: "found in the provider's log" };

/** Its reply is lost: in doubt at first. */
function losing(nt: Bench["nt"], options: object = {}) {
  const runs: Mail[] = [];
  const send = nt.action("send", {
    key: ["to"],
    wait: 0,
    ...options,
    run: async (mail: Mail): Promise<{ id: string }> => {
      runs.push(mail);
      throw new Error("socket hang up");
    },
  });
  return { send, runs };
}

async function onlyDoubt(store: Bench["store"]): Promise<string> {
  const { items } = await store.list({ states: ["unknown"], limit: 2 });
  expect(items).toHaveLength(1);
  return items[0]?.record.key as string;
}

eachStore("done, and the result was not kept", (open) => {
  it("resolved as done without a result: action() says so and what to do, attempt() and status() say done", async () => {
    const { nt, another } = open();
    const { send, runs } = losing(nt);
    await send.attempt({ to: "ana" });
    const resolved = await send.resolve({ to: "ana" }, { as: "done", ...BY });
    const why = "it was resolved as done without a result";
    expect(resolved).toMatchObject({ status: "done", result: undefined, resultOmitted: why });
    for (const { send: one } of [{ send }, losing(another())]) {
      await expect(one({ to: "ana" })).rejects.toMatchObject({
        code: "RESULT_UNAVAILABLE",
        outcome: { status: "done", resultOmitted: why },
        message: expect.stringMatching(/it is done .* not kept: .*Nothing was run.* use attempt\(\).*ask the provider/),
      });
      expect(await one.attempt({ to: "ana" })).toMatchObject({ status: "done", replayed: true, resultOmitted: why });
      expect(await one.status({ to: "ana" })).toMatchObject({ status: "done", resultOmitted: why });
    }
    expect(runs).toHaveLength(1);
  });

  it("resolved with a result, null too, and as one that returns nothing", async () => {
    for (const result of [{ id: "m1" }, null, undefined]) {
      const { nt, another } = open();
      const { send } = losing(nt);
      await send.attempt({ to: "ana" });
      const outcome = await send.resolve({ to: "ana" }, { as: "done", result: result as { id: string }, ...BY });
      expect(outcome).not.toHaveProperty("resultOmitted");
      expect(await send({ to: "ana" })).toEqual(result);
      expect(await losing(another()).send({ to: "ana" })).toEqual(result);
    }
  });

  it("a run that returned undefined is an effect without a result: a repeat gets undefined", async () => {
    const { nt, another } = open();
    const options = { key: ["to"] as const, run: async (_: Mail) => undefined };
    expect(await nt.action("send", options)({ to: "ana" })).toBeUndefined();
    expect(await another().action("send", options)({ to: "ana" })).toBeUndefined();
  });

  it("a result that is too large, or no JSON: the call that ran has it, a repeat throws", async () => {
    for (const value of ["x".repeat(1_100_000), 1n]) {
      const { nt, another } = open();
      const options = { key: ["to"] as const, run: async (_: Mail) => value };
      expect(await nt.action("send", options)({ to: "ana" })).toBe(value);
      const repeat = another().action("send", options);
      await expect(repeat({ to: "ana" })).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
    }
  });

  it("callers of one process that joined the one that ran get its real result", async () => {
    const { nt } = open();
    const send = nt.action("send", { key: ["to"], run: async (_: Mail) => 1n });
    expect(await Promise.all([send({ to: "ana" }), send({ to: "ana" })])).toEqual([1n, 1n]);
  });

  it.each([
    ["without a result", { as: "done" }, "throws"],
    ["with one", { as: "done", result: { id: "m1" } }, "returns"],
    ["with undefined", { as: "done", result: undefined }, "returns"],
  ])("a probe that answers done %s", async (_, answer, what) => {
    const { nt } = open();
    const probe = async () => answer as { as: "done"; result?: { id: string } };
    const { send } = losing(nt, { doubt: { probe, quietFor: 0 } });
    await send.attempt({ to: "ana" });
    const repeat = send({ to: "ana" });
    if (what === "returns") expect(await repeat).toEqual((answer as { result?: unknown }).result);
    else await expect(repeat).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
  });

  it("a record of an earlier release, which left out the result that a resolution did not give", async () => {
    const { nt, store, record } = open();
    const { send } = losing(nt);
    await send.attempt({ to: "ana" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY });
    const key = await send.keyOf({ to: "ana" });
    const [stored] = await store.read([key]);
    await store.write([{ record: { ...(await record(key)), result: null }, expected: stored?.version as number }]);
    expect(await send.status({ key })).toMatchObject({ status: "done", resultOmitted: expect.any(String) });
  });

  it("nt.once, resend and each", async () => {
    const { nt, store } = open();
    const lost = () => {
      throw new Error("socket hang up");
    };
    await expect(nt.once("welcome", ["ana"], lost, { wait: 0 })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await nt.resolve({ key: await onlyDoubt(store) }, { as: "done", ...BY });
    await expect(nt.once("welcome", ["ana"], lost)).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
    const { send } = losing(nt);
    await send.attempt({ to: "ana" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY });
    expect(await send.each([{ to: "ana" }])).toMatchObject({ replayed: 1, failed: 0, inDoubt: 0 });
    await expect(send.resend({ to: "ana" }, { after: 1, ...BY })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY }, { version: 2 });
    await expect(send.resend({ to: "ana" }, { after: 1, ...BY })).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
  });

  it("enqueue of what is done says that its result was not kept", async () => {
    const { nt } = open();
    const { send } = losing(nt);
    await send.attempt({ to: "ana" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY });
    const known = await send.enqueue({ to: "ana" });
    expect(known).toMatchObject({ created: false, state: "confirmed", resultOmitted: expect.any(String) });
    expect(known).not.toHaveProperty("result");
  });

  it("a step of a run is not settled as done without its result, one by one or together: the run could not go on", async () => {
    const { nt, store } = open();
    let sends = 0;
    const start = () =>
      nt.run("onboard", "ana", async (run) => {
        const mail = await run.step("send", async () => {
          sends += 1;
          throw new Error("socket hang up");
        });
        return mail;
      });
    await expect(start()).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    const key = await onlyDoubt(store);
    await expect(nt.resolve({ key }, { as: "done", ...BY })).rejects.toThrow(/Give result, or result: undefined/);
    const { resolved, refused } = await nt.resolveAll({ where: (one) => one.key === key }, { as: "done", ...BY });
    expect({ resolved, refused: refused.map((one) => one.key) }).toEqual({ resolved: [], refused: [key] });
    await nt.resolve({ key }, { as: "done", result: undefined, ...BY });
    expect(await start()).toBeUndefined();
    expect(sends).toBe(1);
  });

  it("a run whose end was too large to keep", async () => {
    const { nt } = open();
    const start = () => nt.run("report", 1, async () => "x".repeat(1_100_000));
    expect(await start()).toHaveLength(1_100_000);
    await expect(start()).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
  });
});
