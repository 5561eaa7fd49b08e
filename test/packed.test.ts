/** The package as npm would publish it: every subpath is imported by a program that has nothing but the packed files. */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const exec = promisify(execFile);
const project = mkdtempSync(join(tmpdir(), "nevertwice-packed-"));
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
};
const subpaths = Object.keys(exports).filter((path) => path !== "./package.json");

/** What programs outside are written against, by subpath. */
const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  ".": [
    ...["nevertwice", "day", "week", "month", "windowOf", "billingPeriod", "email", "text", "amount", "type"],
    ...["notSent", "refused", "rejected", "NevertwiceError", "outcomeOf", "currentAttempt", "keepFor"],
  ],
  "./sqlite": ["sqliteStore"],
  "./postgres": ["postgresStore"],
  "./redis": ["redisStore"],
  "./file": ["fileStore"],
  "./s3": ["s3Store"],
  "./memory": ["memoryStore"],
  "./schedule": ["seed"],
  "./testing": ["storeConformance", "sampleRecord"],
  "./agents": ["guardTool", "queuedTool", "statusTool", "onceMoreTool", "toolMemory", "promptFragment"],
  "./agents/ai-sdk": ["guardAiTool", "guardAiTools"],
  "./agents/claude-agent-sdk": ["claudeGuard"],
  "./agents/langchain": ["guardLangChainTool", "guardLangChainTools", "guardToolCalls"],
  "./agents/mastra": ["guardMastraTool", "guardMastraTools"],
  "./agents/mcp": ["guardMcpServer", "guardMcpTool", "subjectOf", "sessionOf"],
  "./agents/openai-agents": ["guardOpenAiTool", "guardOpenAiTools", "guardOpenAiMcpServer"],
};

beforeAll(() => {
  const modules = join(project, "node_modules");
  mkdirSync(join(modules, "nevertwice"), { recursive: true });
  execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", project], { cwd: root, stdio: "ignore" });
  execFileSync("tar", ["-xf", "nevertwice-0.1.0.tgz", "-C", join(modules, "nevertwice"), "--strip-components=1"], {
    cwd: project,
  });
  for (const name of ["csv-parse", "@photostructure", "node-gyp-build"])
    symlinkSync(join(root, "node_modules", name), join(modules, name));
  writeFileSync(join(project, "package.json"), '{ "type": "module" }\n');
}, 60_000);

afterAll(() => rmSync(project, { recursive: true, force: true }));

async function program(code: string): Promise<string> {
  const file = join(project, "program.js");
  writeFileSync(file, code);
  return (await exec(process.execPath, [file], { cwd: project })).stdout;
}

it("every subpath can be imported, and has the names of the contract", async () => {
  const names = subpaths.map((path) => path.replace(/^\./, "nevertwice"));
  const printed = await program(`
    const found = {};
    for (const name of ${JSON.stringify(names)}) found[name.replace("nevertwice", ".")] = Object.keys(await import(name));
    console.log(JSON.stringify(found));`);
  const found = JSON.parse(printed) as Record<string, string[]>;
  expect(Object.keys(found)).toEqual(subpaths);
  const missing = Object.entries(CONTRACT).flatMap(([path, wanted]) =>
    wanted.filter((name) => !found[path]?.includes(name)).map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

it("a call runs once, by import and by require(), and the command shows it", async () => {
  const call = `
    const nt = nevertwice({ store: "sqlite:packed.db" });
    const send = nt.action("send", { key: ["to"], run: async ({ to }) => { console.log("sent", to); return "m-" + to; } });
    console.log(await send({ to: "ada" }));
    await nt.close();`;
  expect(await program(`import { nevertwice } from "nevertwice";${call}`)).toBe("sent ada\nm-ada\n");
  const required = `import { createRequire } from "node:module";
    const { nevertwice } = createRequire(import.meta.url)("nevertwice");${call}`;
  expect(await program(required)).toBe("m-ada\n");
  const command = join(project, "node_modules/nevertwice/dist/cli/main.js");
  const { stdout } = await exec(process.execPath, [command, "ls", "--json", "--store", "sqlite:packed.db"], {
    cwd: project,
  });
  expect(stdout).toContain('"send"');
});
