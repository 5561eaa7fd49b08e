import { describe, expect, it } from "vitest";
import { resumedTwice, runBy } from "./lib/agents/langchain.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe.each(["tool", "middleware"])("LangChain and LangGraph, guarded by %s", (by) => {
  tellStories(runBy(by), { agent: `langchain:${by}` });

  it.each([
    { asks: "an interrupt goes through and is never stored", how: { ask: true } },
    { asks: "LangChain asks for approval", how: { approval: true } },
  ])("$asks; the answer is submitted twice", async ({ how }) => {
    for (const { guarded } of WAYS) {
      const { provider, world: at } = await world(guarded);
      await resumedTwice(at, by, how);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    }
  });
});
