/** `nevertwice mcp`: the proxy, put together. */
import { isIP } from "node:net";
import { resolve } from "node:path";
import { type ProxyConfig, readProxyConfig, whatHolds } from "../../agents/mcp/config.ts";
import { McpGuard } from "../../agents/mcp/guard.ts";
import { isCredential, whoCalls } from "../../agents/mcp/http/principal.ts";
import { httpProxy } from "../../agents/mcp/http/proxy.ts";
import { serverIdentity } from "../../agents/mcp/identity.ts";
import { withPreset } from "../../agents/mcp/presets.ts";
import { stdioToHttp } from "../../agents/mcp/stdio/bridge.ts";
import { stdioProxy } from "../../agents/mcp/stdio/proxy.ts";
import { commandName } from "../../core/command-name.ts";
import { type Duration, durationMs } from "../../core/duration.ts";
import { messageOf } from "../../core/errors.ts";
import { parseForeignJson } from "../../core/foreign-json.ts";
import { readJson } from "../../core/strict-json.ts";
import { type Nevertwice, nevertwice } from "../../nevertwice.ts";
import type { Context, Streams } from "../command.ts";
import { readText } from "../import/foreign-text.ts";
import { openLedger } from "../ledger/open.ts";
import { ledgerOptions } from "../ledger/secret-flags.ts";
import { asUsage, EXIT, UsageError } from "../term/exit.ts";
import { oneLine } from "../term/text.ts";
import { withoutComments } from "./json-with-comments.ts";

export async function runProxy(context: Context): Promise<number> {
  const { args, io } = context;
  const [url, command] = [args.text("url"), args.behindDashes];
  if ((url === undefined) === (command.length === 0)) {
    throw new UsageError(
      "mcp needs the server it stands in front of: its command behind --, or --url; one of them. For example: nevertwice mcp -- npx -y @modelcontextprotocol/server-memory",
    );
  }
  if (url === undefined) refuseFlagsOfUrl(context);
  else refuseFlags(context, ["identity-env"], "is for a server that is a command: it names variables given to it");
  if (args.on("listen")) refuseHeaders(context);
  headersOf(context);
  const config = configOf(context);
  const identityEnv = identityEnvOf(context);
  const streams = io.takeOver?.();
  if (streams === undefined) throw new UsageError("mcp runs as a program of its own, not inside another.");
  const options = ledgerOptions(context);
  const store = openLedger(args.text("store"), io);
  const onWarning = ({ code, message }: { readonly code: string; readonly message: string }) => {
    // The guard says it once for each tool, and what to write into the config.
    if (code !== "KEEP_SHORT_FOR_MONEY") context.note(oneLine(`${code}: ${message}`));
  };
  const nt = asUsage(() => nevertwice({ store, ...options, onWarning }));
  try {
    const { secret } = options;
    const sealed = options.encrypt !== undefined;
    if (url !== undefined) return await onHttp(context, { nt, secret, sealed }, config, urlOf(url), streams);
    const note = (text: string) => context.note(oneLine(text));
    const server = config.name ?? commandName(command);
    const notCounted = [args.text("secret-env"), args.text("encrypt-env")].filter((one) => one !== undefined);
    const { name } = config;
    const identity = serverIdentity({ command, cwd: io.cwd, env: io.env, name, identityEnv, notCounted, secret });
    const guard = new McpGuard({ nt, config, server, identity, secret, sealed, note });
    note(`guarding ${server}; ${whatHolds(config)}`);
    return await stdioProxy({ guard, command, env: io.env, cwd: io.cwd, ...streams }).finally(() => guard.close());
  } finally {
    await nt.close();
  }
}

/** undefined: those that count by the rule. */
function identityEnvOf({ args }: Context): readonly string[] | undefined {
  const names = args.all("identity-env").flatMap((list) => list.split(","));
  const wrong = names.find((name) => !/^[^\s=]+$/.test(name));
  if (wrong === undefined) return names.length === 0 ? undefined : names;
  throw new UsageError(
    `--identity-env takes names of variables, such as API_TOKEN,TENANT; ${JSON.stringify(oneLine(wrong))} is none.`,
  );
}

interface Keeping {
  readonly nt: Nevertwice;
  readonly secret?: string | undefined;
  readonly sealed: boolean;
}

async function onHttp(
  context: Context,
  { nt, secret, sealed }: Keeping,
  config: ProxyConfig,
  url: URL,
  streams: Streams,
) {
  const listen = context.args.text("listen");
  const headers = headersOf(context);
  const identity = JSON.stringify([config.name ?? url.href, ...callerOf(headers, config)]);
  const note = (text: string) => context.note(oneLine(text));
  const guard = new McpGuard({ nt, config, server: config.name ?? url.host, identity, secret, sealed, note });
  if (listen === undefined) {
    refuseFlags(context, LISTEN_FLAGS, "belong to --listen: without it, the client is on stdio");
    note(`guarding ${url.href}; ${whatHolds(config)}`);
    return stdioToHttp({ guard, url, headers, ...streams }).finally(() => guard.close());
  }
  const ended = new Promise<void>((end) => streams.onSignal(() => end()));
  const proxy = await httpProxy({ guard, config, url, note, ...listenOf(listen), ...doorOf(context) });
  context.note(callersNote(config));
  context.note(`guarding ${url.href}; clients connect to ${proxy.url}`);
  note(whatHolds(config));
  await ended;
  await proxy.close();
  guard.close();
  return EXIT.ok;
}

/** On stdio: who calls with other headers is somebody else, and gets nobody's results. A refreshed token is the same caller. */
function callerOf(headers: Readonly<Record<string, string>>, { principal }: ProxyConfig): readonly unknown[] {
  const others = Object.entries(headers).filter(([name]) => !isCredential(name));
  return [whoCalls(headers, "", principal).principal, ...(principal === undefined ? others.sort() : [])];
}

function callersNote({ principal }: ProxyConfig): string {
  return principal === undefined
    ? "callers are told apart by issuer and subject of their token (JWT), otherwise by their credential, of which the first stands for a whole session; those without a credential are one caller. --principal says it differently"
    : `callers are told apart by ${principal.join(", ")}; those without any of them are one caller`;
}

/** What stands on the command line wins over the file. */
export function configOf({ args, io }: Context): ProxyConfig {
  const file = args.text("config");
  const [name, scope, window] = [args.text("name"), args.text("scope"), args.text("window")];
  const [onTimeout, preset] = [args.text("on-timeout"), args.text("preset")];
  const [guard, only] = [args.text("guard"), args.text("only")];
  const principal = args.all("principal");
  if (only?.split(",").some((tool) => tool.trim() === ""))
    throw new UsageError("--only takes names of tools, with commas between them: --only create_issue,send_mail.");
  const inScope = scope === undefined ? {} : { scope };
  const read = (path: string) => readProxyConfig(parsed(resolve(io.cwd, path), path), oneLine(path), inScope);
  const given = {
    ...(file === undefined ? {} : asUsage(() => read(file))),
    ...(name !== undefined && { name }),
    ...(preset !== undefined && { preset }),
    ...inScope,
    ...(window !== undefined && { window }),
    ...(args.on("status-tool") && { statusTool: true }),
    ...(args.on("once-more-tool") && { onceMoreTool: true }),
    ...(onTimeout !== undefined && { onTimeout }),
    ...(guard !== undefined && { guard }),
    ...(only !== undefined && { only: only.split(",").map((tool) => tool.trim()) }),
    ...(principal.length > 0 && { principal }),
    ...(args.on("observe") && { mode: "observe" }),
  };
  return asUsage(() => withPreset(readProxyConfig(given, "nevertwice mcp"), "nevertwice mcp"));
}

/** In front of a command they would be dropped in silence: clients of that port would find nobody. */
function refuseFlagsOfUrl({ args }: Context): void {
  if (["listen", "header", "principal"].every((flag) => args.text(flag) === undefined)) return;
  throw new UsageError(
    "--listen, --header and --principal belong to --url: a server that is a command is reached on stdio. Leave them out, or name the server's URL.",
  );
}

/** Dropped in silence, the server would see clients without credentials. */
function refuseHeaders(context: Context): void {
  refuseFlags(
    context,
    ["header"],
    "is for a client on stdio: with --listen, each client sends its own headers, which are passed on",
  );
}

/** Dropped in silence, they would leave a door open, or shut, that its operator takes for the opposite. */
export function refuseFlags({ args }: Context, flags: readonly string[], why: string): void {
  const given = flags.filter((flag) => args.text(flag) !== undefined);
  if (given.length > 0) throw new UsageError(`${given.map((flag) => `--${flag}`).join(", ")} ${why}. Leave them out.`);
}

const LISTEN_FLAGS = ["allow-host", "allow-origin", "max-body", "max-held", "body-timeout"];
const MiB = 1024 * 1024;

function doorOf({ args }: Context) {
  const [body, held, timeout] = [args.count("max-body"), args.count("max-held"), args.text("body-timeout")];
  const bodyMs = timeout === undefined ? undefined : asUsage(() => durationMs(timeout as Duration, "--body-timeout"));
  return {
    allowHosts: args.all("allow-host").map(hostName),
    allowOrigins: args.all("allow-origin").map(originOf),
    limits: {
      ...(body !== undefined && { bodyBytes: body * MiB }),
      ...(held !== undefined && { requestBytes: held * MiB, answerBytes: held * MiB }),
      ...(bodyMs !== undefined && { bodyMs }),
    },
  };
}

function hostName(text: string): string {
  if (/^[a-z0-9_.-]+$/i.test(text) || isIP(text) !== 0) return text;
  throw new UsageError(`--allow-host ${oneLine(text)}: it takes a host name without a port, such as proxy.internal.`);
}

/** By name: a pattern, or "null" (a sandboxed page, a file), would let in pages that nobody named. */
function originOf(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\/[a-z0-9_.-]+(?::\d{1,5})?$/i.test(text)) return text;
  throw new UsageError(`--allow-origin ${oneLine(text)}: it takes an origin by name, such as https://app.example.com.`);
}

function parsed(path: string, shown: string): unknown {
  const text = readText(path, `--config ${oneLine(shown)}`);
  try {
    const json = withoutComments(text);
    const value = parseForeignJson(json);
    const read = readJson(json);
    // JSON.parse takes the last of two entries for a tool, and its author may look at the first.
    if (!read.ok) throw new Error(read.problem);
    return value;
  } catch (error) {
    throw new UsageError(`--config ${oneLine(shown)} cannot be used: ${oneLine(messageOf(error))}`);
  }
}

function urlOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url !== null && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new UsageError(
    `--url ${oneLine(text)}: it takes the URL of an MCP server, such as https://mcp.example.com/mcp.`,
  );
}

function headersOf({ args }: Context): Record<string, string> {
  const pairs = args.all("header").map((text) => {
    const [, name, value] = /^([^:\s]+):\s*(.+)$/.exec(text) ?? [];
    if (name !== undefined && value !== undefined) return [name.toLowerCase(), value];
    throw new UsageError(`--header takes a name and a value: --header 'X-Team: payments'.`);
  });
  return Object.fromEntries(pairs) as Record<string, string>;
}

function listenOf(text: string): { host: string; port: number } {
  const [, host = "127.0.0.1", digits] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits !== undefined && port <= 65_535) return { host: host.replace(/^\[|\]$/g, ""), port };
  throw new UsageError(`--listen ${oneLine(text)}: it takes a port, or a host and a port: 8931, 127.0.0.1:8931.`);
}
