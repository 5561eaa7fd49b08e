import { describe, expect, it } from "vitest";
import { readTwice, replaced, runOn } from "./lib/agents/mcp-server.mjs";
import { tellStories, type World, world } from "./lib/stories.ts";

describe.each([1, 2])("an MCP server on SDK %i.x", (version) => {
  tellStories(runOn(version), { agent: `mcp-server:${version}` });

  it.each(["before", "after"])("a tool that says readOnlyHint passes, guarded %s it was registered", async (when) => {
    const { world: at } = await world(true);
    const [first, second] = await readTwice({ ...at, late: when === "after" }, version);
    expect(first).not.toBe(second);
  });

  it("tools that are registered already are guarded too, and so is a callback that replaces another", async () => {
    const { provider, world: at } = await world(true);
    const late = { ...at, late: true } as World;
    const told = await runOn(version)(late, [[{ to: "ada", body: "Hello" }], [{ to: "ada", body: "Hello" }]]);
    expect(told[1]).toMatch(/^Already done at .*mail_1/s);
    const [, again] = await replaced({ ...at, thread: "another" }, version);
    expect(again).toMatch(/^Already done at .*mail_2/s);
    expect(provider.mails).toHaveLength(2);
  });
});
