import { describe, expect, it } from "vitest";
import { resumedTwice, runBy } from "./lib/agents/langchain.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe.each(["tool", "middleware"])("LangChain and LangGraph, guarded by %s", (by) => {
  tellStories(runBy(by), { agent: `langchain:${by}` });

  it.each(WAYS)(
    "an interrupt goes through and is never stored; its answer submitted twice, $way",
    async ({ guarded }) => {
      const { provider, world: at } = await world(guarded);
      await resumedTwice(at, by);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    },
  );
});
