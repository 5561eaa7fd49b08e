import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, onTestFinished } from "vitest";
import { run } from "./lib/agents/claude.mjs";
import { type Run, tellStories } from "./lib/stories.ts";

/** The CLI's own folder goes with the test. */
const tidy: Run = (world, steps) => {
  const home = join(tmpdir(), `nevertwice-claude-${new URL(world.url).port}`);
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
  return run(world, steps);
};

describe("Claude Agent SDK", () => {
  tellStories(tidy, { agent: "claude" });
});
