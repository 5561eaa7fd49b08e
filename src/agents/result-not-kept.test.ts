import { describe, expect, it, onTestFinished } from "vitest";
import { type Nevertwice, nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { inStep, isPointlessToRetry } from "./durable.ts";
import { guardTool } from "./guard-tool.ts";
import { queuedTool } from "./queued-tool.ts";

interface Mail {
  readonly to: string;
}

function openMemory() {
  const store = memoryStore();
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return { nt, store };
}

const BY = { by: "ana", reason: "found in the provider's log" };

function losing(nt: Nevertwice) {
  const send = nt.action("send", {
    key: ["to"],
    wait: 0,
    run: async (_: Mail): Promise<{ id: string }> => {
      throw new Error("socket hang up");
    },
  });
  return { send };
}

describe("what a model is told when the result was not kept", () => {
  it("a guarded tool: already done, and nothing to repeat", async () => {
    const { nt, store } = openMemory();
    const tool = guardTool(nt, { name: "send", scope: "t", wait: 0 }, async (_: Mail) => {
      throw new Error("socket hang up");
    });
    await expect(tool.answer({ to: "ana" }, undefined)).resolves.toMatchObject({ outcome: { status: "unknown" } });
    const { items } = await store.list({ states: ["unknown"], limit: 1 });
    await nt.resolve({ key: items[0]?.record.key as string }, { as: "done", ...BY });
    const answer = await tool.answer({ to: "ana" }, undefined);
    expect(answer).toMatchObject({
      text: expect.stringMatching(
        /^Already done at .*Z\. send was not run again, and its result was not kept .*Do not repeat it/,
      ),
    });
    await expect(tool({ to: "ana" }, undefined)).rejects.toMatchObject({
      code: "RESULT_UNAVAILABLE",
      message: expect.stringMatching(/^Already done at/),
    });
  });

  it("a tool that records for a worker", async () => {
    const { nt } = openMemory();
    const { send } = losing(nt);
    const tool = queuedTool(send, { scope: null });
    await send.attempt({ to: "ana" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY });
    expect(await tool({ to: "ana" }, undefined)).toMatch(/^Already done at .* its result was not kept/);
  });

  it("a durable engine does not try the step again", async () => {
    const { nt } = openMemory();
    const { send } = losing(nt);
    await send.attempt({ to: "ana" }, { scope: "w" });
    await send.resolve({ to: "ana" }, { as: "done", ...BY }, { scope: "w" });
    const step = inStep({ scope: "w", stop: (error) => new Error(`stop: ${error.code}`) });
    await expect(step(send, { to: "ana" })).rejects.toThrow("stop: RESULT_UNAVAILABLE");
    expect(isPointlessToRetry(new Error("x"))).toBe(false);
  });
});
