/** Records that guard until their answer has arrived: at once in this process, a moment later in the ledger. */
import { expect, it } from "vitest";
import { untilDelivered } from "../core/policy.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { deliveredOf, fenceOf } from "./delivered.ts";

function world() {
  // Ends with its test, not with the program that it is closed by.
  const store = Object.assign(memoryStore(), { close: async () => {} });
  let toggles = 0;
  const program = () => {
    const nt = nevertwice({ store, sweep: false });
    const toggle = nt.action(
      "toggle",
      untilDelivered({ key: ["lamp"] as const, keep: "15m", run: async (_: { lamp: string }) => ++toggles }),
    );
    const call = () => toggle.attempt({ lamp: "a" });
    const result = async () => {
      const outcome = await call();
      return outcome.status === "done" ? [outcome.result, outcome.replayed] : outcome.status;
    };
    const tell = async () => {
      const outcome = await call();
      deliveredOf(toggle)?.add(outcome.key, fenceOf(outcome) as number);
      return { ...outcome, fence: fenceOf(outcome) as number };
    };
    return { nt, toggle, result, tell };
  };
  return { program };
}

it("a repeat gets the first answer until it has arrived; then the same call runs, and gets its own", async () => {
  const { result, tell } = world().program();
  expect(await result()).toEqual([1, false]);
  expect(await result()).toEqual([1, true]);
  await tell();
  expect(await result()).toEqual([2, false]);
  // The answer of the second has not arrived.
  expect(await result()).toEqual([2, true]);
});

it("close tells the ledger: another process runs it; one that was killed before leaves the first answer", async () => {
  const { program } = world();
  const killed = program();
  await killed.tell();
  expect(await program().result()).toEqual([1, true]);
  await killed.nt.close();
  expect(await program().result()).toEqual([2, false]);
});

it("the answer of one attempt ends no other's guard, also when the ledger is told late", async () => {
  const { program } = world();
  const [one, other] = [program(), program()];
  const { key, fence } = await one.tell();
  expect(await one.result()).toEqual([2, false]);
  deliveredOf(other.toggle)?.add(key, fence);
  await other.nt.close();
  expect(await program().result()).toEqual([2, true]);
});

it("can be taken back until the ledger knows", async () => {
  const { program } = world();
  const { nt, toggle, result, tell } = program();
  const { key, fence } = await tell();
  expect(deliveredOf(toggle)?.takeBack(key, fence)).toBe(true);
  expect(await result()).toEqual([1, true]);
  await tell();
  await nt.close();
  expect(deliveredOf(toggle)?.takeBack(key, fence)).toBe(false);
});

it("two callers at once get one answer, and both know whose it is", async () => {
  const { toggle } = world().program();
  const outcomes = await Promise.all([toggle.attempt({ lamp: "a" }), toggle.attempt({ lamp: "a" })]);
  expect(outcomes.map((outcome) => [outcome.status, fenceOf(outcome)])).toEqual([
    ["done", 1],
    ["done", 1],
  ]);
});
