/** Every example is started as a program; what it prints is what its comments say. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { folder } from "./lib/mcp.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const examples = readdirSync(`${root}examples/agents`).filter((file) => file.endsWith(".mjs"));

describe("examples/agents", () => {
  it.each(examples)("%s prints what it says", async (file) => {
    const program = `${root}examples/agents/${file}`;
    const promised = [...readFileSync(program, "utf8").matchAll(/\/\/ → (.*)$/gm)].map(([, line = ""]) => line);
    const argv = ["--import", `${root}test/agents/lib/resolve.mjs`, program];
    // Their temporary folders go with ours.
    const env = { ...process.env, TMPDIR: folder(), NO_COLOR: "1" };
    const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: root, env });
    expect(stdout.trimEnd().split("\n")).toEqual(promised);
    expect(promised.length).toBeGreaterThan(0);
  });

  it("there is one for each framework", () => {
    expect(examples).toHaveLength(8);
  });
});
