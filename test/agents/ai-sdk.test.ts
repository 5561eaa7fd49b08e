import { describe, expect, it } from "vitest";
import { agent } from "./lib/agents/ai-sdk.mjs";
import { type Run, tellStories, WAYS, world } from "./lib/stories.ts";

describe.each([6, 7])("AI SDK %i", (version) => {
  const { run, approvedTwice } = agent(version) as { run: Run; approvedTwice: (at: object) => Promise<void> };
  tellStories(run, { agent: `ai-sdk:${version}` });

  it.each(WAYS)("an approval submitted twice, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await approvedTwice(at);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });
});
