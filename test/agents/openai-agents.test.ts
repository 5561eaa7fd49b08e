import { describe, expect, it } from "vitest";
import { resumedTwice, run } from "./lib/agents/openai-agents.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe("OpenAI Agents SDK", () => {
  tellStories(run, { agent: "openai-agents" });

  it.each(WAYS)("an approved state resumed twice, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await resumedTwice(at);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });
});
