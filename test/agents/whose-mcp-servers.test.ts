/**
 * Two users with two sessions each on MCP servers that are guarded in code, built with SDK 1.x and 2.x: an McpServer, a low-level
 * Server, and a tool that is guarded by itself. Told apart by the token's subject, by the session, by both, and by the environment of a
 * process per user.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, it } from "vitest";
import { sessionOf, subjectOf } from "../../dist/agents/mcp/server/index.js";
import { startMailProvider } from "./lib/mail-provider.ts";
import { connect, folder } from "./lib/mcp.ts";
import { clientWith, overHttp } from "./lib/mcp-over-http.ts";
import { type Any, NEWEST, openLedger, textOf } from "./lib/mcp-sdks.ts";
import { type Ask, bySession, byUser, MAIL, noAnswerGoesAstray, type Party } from "./lib/whose.ts";
import { guardedServer } from "./lib/whose-servers.mjs";

const SERVER = fileURLToPath(new URL("./lib/whose-server.mjs", import.meta.url));

/** Calls of one connection, one after the other. */
async function told(client: Any, times: number): Promise<string[]> {
  const said: string[] = [];
  for (let time = 0; time < times; time += 1)
    said.push(textOf(await client.callTool({ name: "send_mail", arguments: MAIL })));
  return said;
}

const KINDS = [
  ["guardMcpServer on an McpServer", "high"],
  ["guardMcpServer on a low-level Server", "low"],
  ["guardMcpTool", "tool"],
] as const;

describe.each(NEWEST)("SDK $sdk", (sdk) => {
  const version = sdk.major;

  const onHttp = async (kind: string, scope: Any) => {
    const [nt, provider] = [openLedger({ onWarning: () => {} }), await startMailProvider()];
    const url = await overHttp(version, () => guardedServer(nt, { sdk, kind, provider: provider.url, scope }));
    return { provider, url };
  };

  it.each(KINDS)("%s, by subject: each request with a new token in a new session", async (_, kind) => {
    const { provider, url } = await onHttp(kind, subjectOf);
    let tokens = 0;
    const ask: Ask = async ({ user }, times) => {
      tokens += 1;
      return told(await clientWith(version, url, `${user}.${tokens}`), times);
    };
    await noAnswerGoesAstray(ask, provider, byUser);
  });

  const inSessions = (url: URL): Ask => {
    const clients = new Map<string, Promise<Any>>();
    return async ({ user, session }: Party, times) => {
      const client = clients.get(session) ?? clientWith(version, url, `${user}.1`);
      clients.set(session, client);
      return told(await client, times);
    };
  };

  it.each(KINDS)("%s, by session: two sessions of one token", async (_, kind) => {
    const { provider, url } = await onHttp(kind, sessionOf);
    await noAnswerGoesAstray(inSessions(url), provider, bySession);
  });

  it.each(KINDS)("%s, by subject and session", async (_, kind) => {
    const { provider, url } = await onHttp(kind, (extra: Any) => `${subjectOf(extra)} ${sessionOf(extra)}`);
    await noAnswerGoesAstray(inSessions(url), provider, bySession);
  });

  it.each(KINDS)("%s, by environment: a process per session on one ledger", async (_, kind) => {
    const [provider, place] = [await startMailProvider(), folder()];
    const argv = [SERVER, String(version), kind, provider.url, join(place, "ledger.db")];
    const ask: Ask = async ({ user }, times) => {
      const { client, close } = await connect(argv, { ACCOUNT: user });
      const said = await told(client, times);
      await close();
      return said;
    };
    await noAnswerGoesAstray(ask, provider, byUser);
  });
});
