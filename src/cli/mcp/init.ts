/** `nevertwice mcp init`: reads a server's list of tools and writes a config for it, with comments. Only tools that read are called. */
import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { McpClient } from "../../agents/mcp/client.ts";
import { type Preset, presetNamed, presetOf } from "../../agents/mcp/presets.ts";
import { type Proposal, proposedConfig, type Standing, standingOf } from "../../agents/mcp/propose.ts";
import type { textOf } from "../../agents/mcp/result.ts";
import type { ToolInfo } from "../../agents/mcp/rpc.ts";
import { messageOf } from "../../core/errors.ts";
import { soundsLikeReading } from "../../core/money-name.ts";
import { PACKAGE_VERSION } from "../../core/package-version.ts";
import { clearTimeout, setTimeout } from "../../engine/real-timers.ts";
import type { Context } from "../command.ts";
import { asUsage, EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { renderTable } from "../term/table.ts";
import { oneLine, wrap } from "../term/text.ts";
import { startedServer } from "./child.ts";
import { refuseFlags } from "./proxy.ts";

const DEFAULT_FILE = "nevertwice.mcp.jsonc";

export async function runInit(context: Context): Promise<number> {
  const { args, io } = context;
  const command = args.behindDashes;
  refuseFlags(
    context,
    ["url"],
    "is not for mcp init, which reads the tools of a server that is a command: write it behind --",
  );
  if (command.length === 0) {
    throw new UsageError("mcp init needs the server's command behind --: nevertwice mcp init -- npx -y some-server");
  }
  const file = args.text("config") ?? DEFAULT_FILE;
  if (existsSync(resolve(io.cwd, file))) throw thereAlready(file);
  const named = args.text("preset");
  const chosen = named === undefined ? null : asUsage(() => presetNamed(named, "--preset"));
  const server = startedServer(command, io);
  try {
    const client = new McpClient((line) => server.wire.send(line));
    server.wire.listen({ line: (line) => client.receive(line), gone: (error) => client.gone(error) });
    const { name, version } = await client.connect(PACKAGE_VERSION);
    const tools = await client.listTools();
    const proposal: Proposal = {
      server: [name, version].filter(Boolean).join(" ") || "a server without a name",
      command: command.map(quoted).join(" "),
      file,
      tools,
      preset: chosen ?? presetOf(tools.map((tool) => tool.name)),
      probed: args.on("no-probe") ? new Map() : await probed(client, tools),
    };
    write(resolve(io.cwd, file), proposedConfig(proposal), file);
    report(context, proposal);
    return EXIT.ok;
  } catch (error) {
    if (error instanceof UsageError || error instanceof ProblemError) throw error;
    throw new ProblemError(`the server could not be read: ${messageOf(error)}`, { cause: error });
  } finally {
    server.kill();
  }
}

const MOST_PROBED = 20;

/** Safe to call: read-only by its own word and by its name, and no argument is asked for. One that fails says nothing about the others. */
async function probed(client: McpClient, tools: readonly ToolInfo[]): Promise<Map<string, "json" | "text" | "error">> {
  const answers = new Map<string, "json" | "text" | "error">();
  const safe = tools.filter(
    (tool) => tool.annotations?.readOnlyHint === true && soundsLikeReading(tool.name) && asksForNothing(tool),
  );
  for (const { name } of safe.slice(0, MOST_PROBED)) {
    try {
      const answer = await inTime(client.callTool(name, {}));
      answers.set(name, answer.isError === true ? "error" : isJson(answer) ? "json" : "text");
    } catch {
      answers.set(name, "error");
    }
  }
  return answers;
}

const MOST_WAITED_MS = 10_000;

/** A tool that does not answer is left. */
function inTime<T>(call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it did not answer")), MOST_WAITED_MS);
    call.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function asksForNothing({ inputSchema }: ToolInfo): boolean {
  const { required } = (inputSchema ?? {}) as { readonly required?: unknown };
  return !Array.isArray(required) || required.length === 0;
}

function isJson(answer: Parameters<typeof textOf>[0]): boolean {
  if (answer?.structuredContent !== undefined) return true;
  const [block, ...more] = answer?.content ?? [];
  if (block?.type !== "text" || more.length > 0) return false;
  try {
    return typeof JSON.parse(String(block.text)) === "object";
  } catch {
    return false;
  }
}

/** A file that is there was written by somebody: it is not replaced. */
function write(path: string, text: string, shown: string): void {
  try {
    writeFileSync(path, text, { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST")
      throw new UsageError(`${oneLine(shown)} cannot be written: ${messageOf(error)}`, { cause: error });
    throw thereAlready(shown);
  }
}

function thereAlready(shown: string): UsageError {
  return new UsageError(`${oneLine(shown)} is there already, and is left as it is. Name another file with --config.`);
}

const STANDINGS: Readonly<Record<Standing, string>> = {
  preset: "by the preset",
  passes: "passes: declared harmless",
  "may-read": "default; may only read",
  money: "default; sounds like money",
  acts: "default",
};

function report(context: Context, { server, file, command, tools, preset }: Proposal): void {
  const found = preset === null ? "no preset is known for it" : `preset ${preset.name}`;
  context.line(`${oneLine(server)}: ${plural(tools.length, "tool")}, ${found}`);
  context.line();
  const rows = tools.map((tool) => [oneLine(tool.name), held(tool, preset)]);
  for (const line of renderTable([{ title: "tool" }, { title: "guard" }], rows, context)) context.line(line);
  context.line();
  const next = `Written to ${oneLine(file)}. Read it, switch on what is right, and start the server with: npx nevertwice mcp --config ${oneLine(file)} -- ${oneLine(command)}`;
  for (const line of wrap(next, context.width)) context.line(line);
}

function held(tool: ToolInfo, preset: Preset | null): string {
  const standing = standingOf(tool, preset);
  const config = preset?.tools[tool.name]?.config;
  if (standing !== "preset" || config === undefined) return STANDINGS[standing];
  return config.readOnly === true ? "passes by the preset" : `once per ${(config.key ?? []).join(", ")}`;
}

/** For a shell; names and paths mostly need no quotes. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
