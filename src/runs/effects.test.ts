import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

const DAY = 86_400_000;

eachStore("O13 kinds of effect in runs and sequences", (open) => {
  it("a step is kept as long as its run, or as its effect needs, whichever is longer", async () => {
    const { nt, store } = open();
    await nt.run("order", "o-1", async (run) => {
      await run.step("charge", () => "paid", { effect: "payment" });
      await run.step("confirm", () => "mailed", { effect: "mail" });
      await run.step("note", () => "noted");
    });
    const { items } = await store.list({ limit: 100 });
    const keptOf = (name: string) =>
      items.find(
        ({ record }) => record.input !== null && "json" in record.input && record.input.json.includes(`"${name}"`),
      )?.record.keepMs;
    expect([keptOf("charge"), keptOf("confirm"), keptOf("note")]).toEqual([null, 90 * DAY, 90 * DAY]);
  });

  it("a step has time for its effect, with a lease of three times that", async () => {
    const { nt, clock } = open();
    await nt.run("order", "o-1", async (run) => {
      const left = (deadline: number) => Math.round((deadline - clock.instant().now) / 1_000);
      expect(await run.step("charge", ({ deadline }) => left(deadline), { effect: "payment" })).toBe(60);
      expect(await run.step("slow", ({ deadline }) => left(deadline), { effect: "mail", timeout: "5m" })).toBe(300);
    });
  });

  it("an unknown effect of a step is refused, and so is a payment that would run again in doubt", async () => {
    const { nt } = open();
    const step = (options: object) =>
      nt.run("order", JSON.stringify(options), (run) => run.step("pay", () => 1, options));
    await expect(step({ effect: "pay" })).rejects.toThrow(/effect is "pay"\. Did you mean "payment"\?/);
    await expect(step({ effect: "payment", doubt: "retry" })).rejects.toThrow(/could be made twice/);
  });

  it("the steps of a sequence have an effect; a sequence that takes long is kept longer than its effect needs", async () => {
    const { nt, store } = open();
    const drip = nt.sequence("drip", ["welcome", { step: "tips", after: "60d" }], {
      effect: "mail",
      run: async () => 1,
    });
    await drip.start("ada", undefined);
    await nt.worker().drain();
    const { items } = await store.list({ limit: 10, states: ["confirmed"], action: "sequence:drip" });
    expect(items.map(({ record }) => record.keepMs)).toEqual([120 * DAY]);
  });
});
