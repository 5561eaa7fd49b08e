/** Clients of the official SDK, in front of a server with or without the proxy between. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { onTestFinished } from "vitest";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
export const COMMAND = here("../../../dist/cli/main.js");
export const MAIL_SERVER = here("./mail-server.mjs");
export const MAIL_SERVER_2 = here("./mail-server-2.mjs");
const packages = here("../node_modules/@modelcontextprotocol");

export const EVERYTHING = `${packages}/server-everything/dist/index.js`;
export const FILESYSTEM = `${packages}/server-filesystem/dist/index.js`;
export const MEMORY = `${packages}/server-memory/dist/index.js`;

export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "nevertwice-agents-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true, maxRetries: 5 }));
  return path;
}

/** argv of the proxy in front of a server, on a ledger in the folder. */
export function proxied(
  inFolder: string,
  server: readonly string[],
  config?: object,
  flags: readonly string[] = [],
): string[] {
  const file = join(inFolder, "tools.json");
  if (config !== undefined) writeFileSync(file, JSON.stringify(config));
  const store = ["--store", `sqlite:${join(inFolder, "ledger.db")}`];
  const given = config === undefined ? [] : ["--config", file];
  return [COMMAND, "mcp", ...store, ...given, ...flags, "--", process.execPath, ...server];
}

/** argv of the proxy on stdio in front of a URL. */
export function bridged(inFolder: string, url: string, config?: object, flags: readonly string[] = []): string[] {
  const beforeDashes = proxied(inFolder, [], config, flags).slice(0, -2);
  return [...beforeDashes, "--url", url];
}

export interface Connected {
  readonly client: Client;
  readonly pid: number;
  close(): Promise<void>;
}

const testClient = () => new Client({ name: "test", version: "1.0.0" });

/** Connects to a node program on stdio. */
export async function connect(
  argv: readonly string[],
  env: Record<string, string> = {},
  { cwd = process.cwd(), client = testClient() }: { readonly cwd?: string; readonly client?: Client } = {},
): Promise<Connected> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...argv],
    env: { ...(process.env as Record<string, string>), ...env },
    cwd,
    stderr: "ignore",
  });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, pid: transport.pid as number, close: () => client.close() };
}

export async function connectHttp(
  url: string,
  { headers = {}, client = testClient() }: { readonly headers?: Record<string, string>; readonly client?: Client } = {},
): Promise<{ client: Client; transport: StreamableHTTPClientTransport }> {
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport as Parameters<Client["connect"]>[0]);
  onTestFinished(() => client.close());
  return { client, transport };
}

/** A program that prints where it listens: what `find` found in a line, and the lines up to there. */
export async function started(
  argv: readonly string[],
  env: Record<string, string>,
  from: "stdout" | "stderr",
  find: RegExp,
) {
  const child: ChildProcess = spawn(process.execPath, argv, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const other = from === "stdout" ? child.stderr : child.stdout;
  other?.resume();
  const stream = child[from] as NodeJS.ReadableStream;
  const lines: string[] = [];
  for await (const line of createInterface({ input: stream })) {
    lines.push(line);
    const found = find.exec(line);
    if (found === null) continue;
    stream.resume();
    return { child, found: found[1] as string, lines };
  }
  throw new Error(`${argv.join(" ")} ended before it listened`);
}

/** For servers that have to be told their port. */
export async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return String(port);
}

export async function mailServerOnHttp(provider: string): Promise<string> {
  const { found } = await started([MAIL_SERVER, "http", provider], {}, "stdout", /^(\d+)$/);
  return `http://127.0.0.1:${found}/mcp`;
}

export async function httpProxyOf(url: string, inFolder: string, config?: object, flags: readonly string[] = []) {
  const file = join(inFolder, "tools.json");
  if (config !== undefined) writeFileSync(file, JSON.stringify(config));
  const given = config === undefined ? [] : ["--config", file];
  const argv = [
    COMMAND,
    "mcp",
    "--store",
    `sqlite:${join(inFolder, "ledger.db")}`,
    ...given,
    "--url",
    url,
    "--listen",
    "127.0.0.1:0",
    ...flags,
  ];
  const { child, found, lines } = await started(argv, {}, "stderr", /connect to (\S+)/);
  return { child, url: found, lines };
}

/** The text of a tool's answer. */
export function said(result: unknown): string {
  const { content = [] } = result as { content?: { type: string; text?: string }[] };
  return content.map(({ text = "" }) => text).join("\n");
}
