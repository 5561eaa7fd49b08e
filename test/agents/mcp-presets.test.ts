/** The configs that ship for known servers, and those that `mcp init` proposes, held against the servers from npm. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { readProxyConfig } from "../../src/agents/mcp/config.ts";
import { PRESETS, presetOf } from "../../src/agents/mcp/presets.ts";
import { withoutComments } from "../../src/cli/mcp/json-with-comments.ts";
import { COMMAND, connect, EVERYTHING, FILESYSTEM, folder, MEMORY, proxied, said } from "./lib/mcp.ts";

const packages = fileURLToPath(new URL("./mcp-servers/node_modules", import.meta.url));
const of = (path: string) => join(packages, path);

const READERS_SERVER = fileURLToPath(new URL("./lib/readers-server.mjs", import.meta.url));

const SERVERS: Record<string, (place: string) => { argv: string[]; env?: Record<string, string> }> = {
  filesystem: (place) => ({ argv: [FILESYSTEM, place] }),
  memory: (place) => ({ argv: [MEMORY], env: { MEMORY_FILE_PATH: join(place, "memory.jsonl") } }),
  github: () => ({
    argv: [of("@modelcontextprotocol/server-github/dist/index.js")],
    env: { GITHUB_PERSONAL_ACCESS_TOKEN: "none" },
  }),
  slack: () => ({
    argv: [of("@modelcontextprotocol/server-slack/dist/index.js")],
    env: { SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" },
  }),
  playwright: () => ({ argv: [of("@playwright/mcp/cli.js")] }),
  postgres: () => ({
    argv: [of("@modelcontextprotocol/server-postgres/dist/index.js"), "postgres://nobody@127.0.0.1:1/x"],
  }),
  fetch: () => ({ argv: [of("mcp-fetch-server/dist/index.js")] }),
};

function init(place: string, argv: readonly string[], env: Record<string, string> = {}, flags: readonly string[] = []) {
  const given = [COMMAND, "mcp", "init", ...flags, "--", process.execPath, ...argv];
  return spawnSync(process.execPath, given, { cwd: place, env: { ...process.env, ...env }, encoding: "utf8" });
}

const proposal = (place: string) => readFileSync(join(place, "nevertwice.mcp.jsonc"), "utf8");

describe.each(PRESETS)("the preset $name", (preset) => {
  const start = SERVERS[preset.name] as NonNullable<(typeof SERVERS)[string]>;

  it("names tools and arguments that its server has", async () => {
    const { argv, env } = start(folder());
    const { client } = await connect(argv, env);
    const { tools } = await client.listTools();
    expect(presetOf(tools.map(({ name }) => name))?.name).toBe(preset.name);
    for (const [name, { config }] of Object.entries(preset.tools)) {
      const tool = tools.find((one) => one.name === name);
      // The reference server "fetch" is written in Python, and has one tool of that name.
      if (tool === undefined && preset.name === "fetch" && name === "fetch") continue;
      expect(tool, name).toBeDefined();
      const has = Object.keys(tool?.inputSchema.properties ?? {});
      for (const argument of [...(config.key ?? []), ...(config.free ?? [])]) expect(has, name).toContain(argument);
    }
  });

  it("init finds it, and proposes a config that the proxy takes", async () => {
    const place = folder();
    const { argv, env } = start(place);
    const { status, stdout, stderr } = init(place, argv, env, ["--no-probe"]);
    expect([status, stderr.includes("could not")], stderr).toEqual([0, false]);
    expect(stdout).toContain(`preset ${preset.name}`);
    const config = readProxyConfig(JSON.parse(withoutComments(proposal(place))), "the file");
    const { client } = await connect(argv, env);
    const names = (await client.listTools()).tools.map(({ name }) => name);
    const known = Object.keys(preset.tools).filter((name) => names.includes(name));
    expect(Object.keys(config.tools ?? {}).toSorted()).toEqual(known.toSorted());
    for (const name of names) expect(proposal(place), name).toContain(JSON.stringify(name));
  });
});

describe("a preset in use", () => {
  it("--preset: an issue is created once however its body is worded, and reading goes through", async () => {
    const place = folder();
    const { argv, env } = (SERVERS.github as NonNullable<(typeof SERVERS)[string]>)(place);
    const { client } = await connect(proxied(place, argv, undefined, ["--preset", "github"]), env);
    const issue = (body: string) => ({
      name: "create_issue",
      arguments: { owner: "ada", repo: "engine", title: "It stops", body },
    });
    // There is no network: the server answers with an error, after which nobody knows.
    expect(said(await client.callTool(issue("It stops.")))).toMatch(/It may have happened/);
    expect(said(await client.callTool(issue("It just stops.")))).toMatch(/It may have happened/);
    const read = await client
      .callTool({ name: "get_issue", arguments: { owner: "a", repo: "b", issue_number: 1 } })
      .catch(String);
    expect(JSON.stringify(read)).not.toMatch(/It may have happened/);
  });

  it("what a config says of a tool wins over the preset", async () => {
    const place = folder();
    const { argv, env } = (SERVERS.memory as NonNullable<(typeof SERVERS)[string]>)(place);
    const config = { preset: "memory", tools: { read_graph: { readOnly: false, keep: "1h" } } };
    const { client } = await connect(proxied(place, argv, config), env);
    const graph = { name: "read_graph", arguments: {} };
    await client.callTool(graph);
    expect(said(await client.callTool(graph))).toMatch(/Already done/);
    expect(said(await client.callTool({ name: "search_nodes", arguments: { query: "x" } }))).not.toMatch(/Already/);
    expect(said(await client.callTool({ name: "search_nodes", arguments: { query: "x" } }))).not.toMatch(/Already/);
  });

  it("a name that is none is said, with those that there are", () => {
    const place = folder();
    const argv = proxied(place, [MEMORY], undefined, ["--preset", "gihub"]);
    const { status, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8" });
    expect([status, stderr]).toEqual([2, expect.stringMatching(/no preset "gihub".*github/)]);
  });
});

describe("mcp init --preset", () => {
  it("writes the preset that is named, whatever the tools look like", () => {
    const place = folder();
    const { status, stdout } = init(place, [EVERYTHING], {}, ["--preset", "slack"]);
    expect([status, stdout]).toEqual([0, expect.stringContaining("preset slack")]);
  });
});

describe("the reference server fetch", () => {
  it("is known by its one tool, and by none beside it", () => {
    expect(presetOf(["fetch"])?.name).toBe("fetch");
    for (const others of [["fetch", "send_mail"], ["query", "fetch"], ["query", "send_mail"], []])
      expect(presetOf(others)).toBeNull();
  });

  it("init finds it: its tool passes", () => {
    const place = folder();
    const { status, stdout } = init(place, [READERS_SERVER, "fetch"]);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/1 tool, preset fetch.*fetch +passes by the preset/s)]);
    expect(JSON.parse(withoutComments(proposal(place)))).toEqual({ tools: { fetch: { readOnly: true } } });
  });
});

describe("mcp init in front of a server that no preset knows", () => {
  it("says of each reader what it answered when it was called", () => {
    const place = folder();
    expect(init(place, [READERS_SERVER, "readers"]).status).toBe(0);
    const lines = proposal(place)
      .split("\n")
      .map((line) => line.trim());
    const passes = (name: string, seen = "") => `// "${name}" passes: the server declares it read-only${seen}`;
    expect(lines).toEqual(
      expect.arrayContaining([
        passes("list_mails", '; its answer is JSON, so that the "verify" of another tool can look with it'),
        passes("get_motto"),
        passes("get_weather", "; called without arguments, it answered with an error"),
        passes("get_mail"),
        '// "get_next": { "readOnly": true },',
      ]),
    );
  });

  it("--no-probe: calls none, and says nothing of their answers", () => {
    const place = folder();
    expect(init(place, [READERS_SERVER, "readers"], {}, ["--no-probe"]).status).toBe(0);
    expect(proposal(place)).toContain('"list_mails" passes: the server declares it read-only\n');
  });

  it("says which tools pass, and proposes the rest in comments", () => {
    const place = folder();
    const { status, stdout } = init(place, [EVERYTHING]);
    expect(status).toBe(0);
    expect(stdout).toContain("no preset is known for it");
    const text = proposal(place);
    expect(JSON.parse(withoutComments(text))).toEqual({ tools: {} });
    expect(text).toMatch(/"echo" passes: the server declares it read-only/);
    expect(text).toMatch(/\/\/ These act\..*\n\s*\/\/ "toggle-simulated-logging"/);
    expect(text).toContain("npx nevertwice mcp --config nevertwice.mcp.jsonc --");
  });

  it("calls only tools that read by their own word and ask for no argument", () => {
    const place = folder();
    const log = join(place, "door.log");
    writeFileSync(log, "");
    const door = fileURLToPath(new URL("./lib/slow-answers.mjs", import.meta.url));
    expect(init(place, [door, place, EVERYTHING]).status).toBe(0);
    const lines = readFileSync(log, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const called = lines.filter(({ method }) => method === "tools/call").map(({ params }) => params.name);
    expect(called).toContain("get-env");
    expect(called).not.toContain("toggle-simulated-logging");
    expect(called).not.toContain("echo");
  });

  it("leaves a file that is there as it is", () => {
    const place = folder();
    writeFileSync(join(place, "nevertwice.mcp.jsonc"), "mine");
    const { status, stderr } = init(place, [MEMORY]);
    expect([status, stderr]).toEqual([2, expect.stringContaining("is there already, and is left as it is")]);
    expect(proposal(place)).toBe("mine");
  });

  it("a server that cannot be started is an error, and no file is written", () => {
    const place = folder();
    const { status, stderr } = init(place, [join(place, "nothing.mjs")]);
    expect([status, stderr]).toEqual([1, expect.stringContaining("the server could not be read")]);
    expect(existsSync(join(place, "nevertwice.mcp.jsonc"))).toBe(false);
  });
});
