/** An attempt that was taken for not done succeeds late, after its input was corrected. */
import { refused } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  id: string;
  to: string;
}

const FIRST: Mail = { id: "1", to: "first" };
const CORRECTED: Mail = { id: "1", to: "corrected" };
const BY = { by: "ana", reason: "looked at the provider" };

/** The first is in doubt by its timeout, and somebody decided too early that it did not happen. */
async function decidedTooEarly({ nt, another }: Bench) {
  const [late, second] = [gate(), gate()];
  const impatient = nt.action("mail", {
    key: ["id"],
    timeout: "50ms",
    run: async ({ to }: Mail) => {
      await late.opened;
      return `sent to ${to}`;
    },
  });
  const send = another().action("mail", {
    key: ["id"],
    run: async ({ to }: Mail) => {
      await second.opened;
      return `sent to ${to}`;
    },
  });
  expect(await impatient.attempt(FIRST)).toMatchObject({ status: "unknown" });
  await send.resolve(FIRST, { as: "not-done", ...BY });
  return { send, late, second };
}

eachStore("a late success after a correction", (open) => {
  it("while the corrected input runs: that one's failure is a doubt, and never done with the other's result", async () => {
    const bench = open();
    const { send, late, second } = await decidedTooEarly(bench);
    const running = send.attempt(CORRECTED);
    await until(async () => (await send.status(CORRECTED)).status === "in_flight");
    late.open();
    await until(() => bench.events.some(({ type }) => type === "duplicate_detected"), "the second effect is said");
    second.fail(refused("no such address"));
    expect(await running).toMatchObject({ status: "unknown" });
    const { state, history } = await bench.record(await send.keyOf(FIRST));
    expect(state).toBe("unknown");
    expect(history.map(({ event }) => event)).toContain("late-success");
  });

  it("while the corrected input runs, and succeeds: it has its own result", async () => {
    const bench = open();
    const { send, late, second } = await decidedTooEarly(bench);
    const running = send.attempt(CORRECTED);
    await until(async () => (await send.status(CORRECTED)).status === "in_flight");
    late.open();
    await until(() => bench.events.some(({ type }) => type === "duplicate_detected"), "the second effect is said");
    second.open();
    expect(await running).toMatchObject({ status: "done", result: "sent to corrected", replayed: false });
    expect(await send.attempt(CORRECTED)).toMatchObject({ status: "done", result: "sent to corrected" });
  });

  it("after the corrected input was refused: the record is about what happened", async () => {
    const bench = open();
    const { send, late, second } = await decidedTooEarly(bench);
    second.fail(refused("no such address"));
    expect(await send.attempt(CORRECTED)).toMatchObject({ status: "failed" });
    late.open();
    await until(async () => (await bench.record(await send.keyOf(FIRST))).state === "confirmed", "the late success");
    expect(await send.attempt(FIRST)).toMatchObject({ status: "done", result: "sent to first", replayed: true });
    expect(await send.attempt(CORRECTED)).toMatchObject({ status: "conflict", differs: ["to"] });
  });
});
