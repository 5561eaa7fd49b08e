import { describe, expect, it } from "vitest";
import { resumedTwice, run } from "./lib/agents/openai-agents.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe("OpenAI Agents SDK", () => {
  tellStories(run, { agent: "openai-agents" });

  it.each(WAYS)("the SDK's own timeout passes and the model calls again, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    provider.hold();
    const again = run({ ...at, timeoutMs: 500 }, [[{ to: "ada", body: "Hello" }], [{ to: "ada", body: "Hello" }]]);
    await provider.sent(1);
    // The first call has timed out by the time the second is on its way.
    setTimeout(() => provider.release(), 700);
    const told = await again;
    expect(told[0]).toMatch(/timed out/);
    expect(told[1]).toContain(guarded ? "mail_1" : "mail_2");
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });

  it.each(WAYS)("an approved state resumed twice, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await resumedTwice(at);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });
});
