/** Steps of a sequence that were forgotten: they count as over, and nothing of the subject's data is left in them. */
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const STEPS = ["welcome", { step: "social_proof", after: "2d" }, { step: "first_dollar", after: "3d" }] as const;
const SIGNED = { by: "ada", reason: "erasure" };

eachStore("a sequence whose step is forgotten", (open) => {
  it("goes on with the next, once; what was taken is not taken again", async () => {
    const { nt, clock, store } = open();
    const sent: string[] = [];
    const sequence = nt.sequence<{ email: string }, unknown>("drip", STEPS, {
      run: ({ step, data }) => {
        sent.push(step);
        return { to: data.email };
      },
    });
    await sequence.start("ann", { email: "ann@example.com" });
    const status = await sequence.status("ann");
    const keys = status.steps.map(({ outcome }) => outcome.key);
    const [welcome = "", social = ""] = keys;
    // Not taken yet: it is skipped.
    await nt.forget({ key: welcome }, SIGNED);
    const worker = nt.worker();
    for (let days = 0; days < 10; days += 1) {
      clock.advance(DAY + 1_000);
      await nt.sweep();
      await worker.drain();
    }
    expect(sent).toEqual(["social_proof", "first_dollar"]);
    // Taken: gone, and not taken again when the subject is started again.
    await nt.forget({ key: social }, SIGNED);
    await sequence.start("ann", { email: "ann@example.com" });
    clock.advance(10 * DAY);
    await worker.drain();
    expect(sent).toEqual(["social_proof", "first_dollar"]);
    expect(JSON.stringify(await store.read([welcome, social]))).not.toContain("ann@example.com");
  });
});
