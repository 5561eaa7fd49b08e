import { describe, expect, it } from "vitest";
import { readTwice, runOn } from "./lib/agents/mcp-server.mjs";
import { tellStories, world } from "./lib/stories.ts";

describe.each([1, 2])("an MCP server on SDK %i.x", (version) => {
  tellStories(runOn(version), { agent: `mcp-server:${version}` });

  it("a tool that says readOnlyHint passes", async () => {
    const { world: at } = await world(true);
    const [first, second] = await readTwice(at, version);
    expect(first).not.toBe(second);
  });
});
