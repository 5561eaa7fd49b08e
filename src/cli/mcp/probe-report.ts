/** `nevertwice mcp probe`: starts a server, repeats calls, prints what it did. */
import { type ProbedTool, type ProbeReport, probeServer, type Tried } from "../../agents/mcp/probe.ts";
import { messageOf } from "../../core/errors.ts";
import { PACKAGE_VERSION } from "../../core/package-version.ts";
import { nevertwice } from "../../nevertwice.ts";
import type { Context } from "../command.ts";
import { EXIT, ProblemError, UsageError } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { type Column, renderTable } from "../term/table.ts";
import { oneLine, wrap } from "../term/text.ts";
import { startedServer } from "./child.ts";
import { configOf } from "./proxy.ts";

export async function runProbe(context: Context): Promise<number> {
  const { args, io } = context;
  const command = args.behindDashes;
  if (command.length === 0) {
    throw new UsageError("mcp probe needs the server's command behind --: nevertwice mcp probe -- npx -y some-server");
  }
  const calls = args.all("call").map(callOf);
  const config = configOf(context);
  const server = startedServer(command, io);
  const nt = nevertwice({ store: "memory:", sweep: false });
  try {
    const report = await probeServer({ wire: server.wire, nt, config, version: PACKAGE_VERSION, calls });
    unknownTools(calls, report);
    tell(context, report);
    return report.tools.some(({ verdict }) => PROBLEMS.includes(verdict)) ? EXIT.problem : EXIT.ok;
  } catch (error) {
    throw error instanceof UsageError
      ? error
      : new ProblemError(`the server could not be probed: ${messageOf(error)}`, { cause: error });
  } finally {
    server.kill();
    await nt.close();
  }
}

function callOf(text: string): { tool: string; args: Record<string, unknown> } {
  const [, tool, json = "{}"] = /^([^=]+)(?:=(.*))?$/s.exec(text) ?? [];
  try {
    const args: unknown = JSON.parse(json);
    if (tool !== undefined && typeof args === "object" && args !== null && !Array.isArray(args)) {
      return { tool, args: args as Record<string, unknown> };
    }
  } catch {
    // Said below.
  }
  throw new UsageError(
    `--call ${oneLine(text)}: it takes a tool and its arguments as JSON: --call 'create_issue={"title":"x"}'.`,
  );
}

function unknownTools(calls: readonly { tool: string }[], { tools }: ProbeReport): void {
  const missing = calls.find(({ tool }) => !tools.some((one) => one.tool === tool));
  if (missing === undefined) return;
  throw new UsageError(
    `--call ${oneLine(missing.tool)}: the server has no such tool. It has: ${tools.map(({ tool }) => tool).join(", ")}.`,
  );
}

const PROBLEMS: readonly ProbedTool["verdict"][] = ["acts-again", "failed"];

const VERDICTS: Readonly<Record<ProbedTool["verdict"], string>> = {
  "acts-again": "acts again on a repeat",
  once: "acts once",
  "answers-differ": "the answers differ",
  "no-sign": "the same answer each time",
  "repeat-fails": "a repeat is answered with an error",
  failed: "every call failed",
  "not-called": "not called",
  "read-only": "declared read-only",
  idempotent: "declared idempotent",
};

function tell(context: Context, report: ProbeReport): void {
  if (context.args.on("json")) return void context.json(report);
  context.line(`${oneLine(report.server)}: ${report.tools.length} tools`);
  context.line();
  const columns: Column[] = [
    { title: "tool", min: 10 },
    { title: "bare" },
    { title: "guarded" },
    { title: "verdict", min: 12, wraps: true },
  ];
  const rows = report.tools.map((tool) => [
    oneLine(tool.tool),
    shown(tool.bare),
    shown(tool.guarded),
    VERDICTS[tool.verdict],
  ]);
  for (const line of renderTable(columns, rows, context)) context.line(line);
  context.line();
  for (const line of wrap(advice(report), context.width)) context.line(line);
}

function shown(tried: Tried | null): string {
  if (tried === null) return "";
  if (tried.error !== null) return "error";
  if (tried.errors > 0) return `${tried.calls} calls, ${plural(tried.errors, "error")}`;
  const seen = tried.effects === null ? plural(tried.answers, "answer") : plural(tried.effects, "effect");
  return `${tried.calls} calls, ${seen}`;
}

function advice({ tools }: ProbeReport): string {
  const open = tools.filter(({ verdict }) => verdict === "not-called").length;
  const called = tools.some(({ bare }) => bare !== null);
  const again = tools.filter(({ verdict }) => verdict === "acts-again").map(({ tool }) => oneLine(tool));
  const hinted = tools.filter(({ verdict, idempotentHint }) => verdict === "acts-again" && idempotentHint);
  if (hinted.length > 0)
    return `${hinted.map(({ tool }) => oneLine(tool)).join(", ")}: declared idempotent (idempotentHint), and a retry acts again. The proxy lets such tools pass: name them in the config, so that they are guarded.`;
  if (again.length > 0) return `${again.join(", ")}: a retry acts again. Put nevertwice mcp in front of this server.`;
  const failed = tools.filter(({ verdict }) => verdict === "failed").map(({ tool }) => oneLine(tool));
  if (failed.length > 0)
    return `${failed.join(", ")}: no call succeeded, so the probe shows nothing. Give arguments that the tool accepts: --call 'tool={"argument":"value"}'.`;
  if (!called)
    return `${plural(open, "tool")} may act and ${open === 1 ? "was" : "were"} not called, since a probe has real effects. Name those that may be: --call 'tool={"argument":"value"}'. Each is called 3 times bare and 3 times guarded.`;
  if (tools.some(({ verdict }) => verdict === "answers-differ"))
    return "Answers that differ do not prove a second effect: a time or a counter in them is enough. Give the tool's verify in --config to count what it did.";
  return "A tool that answers the same each time may still have acted each time: give its verify in --config to count what it did.";
}
