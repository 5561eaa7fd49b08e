/** Two users of one app, two sessions, over HTTP: no answer of one reaches the other. */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  McpServer as McpServer2,
  requireBearerAuth as requireBearerAuth2,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardMcpServer, sessionOf, subjectOf } from "../../dist/agents/mcp/server/index.js";
import { type Any, INFO, openLedger, textOf } from "./lib/mcp-sdks.ts";

/** Tokens of one app: `ada.1` is ada's first. One of the app itself has no subject. */
const verifier = {
  verifyAccessToken: async (token: string) => {
    const [sub] = token.split(".");
    const extra = sub === "app" ? {} : { sub, iss: "https://id.example" };
    return { token, clientId: "app", scopes: [], expiresAt: Date.now() / 1_000 + 60, extra };
  },
};

interface Served {
  readonly runs: string[];
  readonly url: URL;
}

/** Each session has a server of its own, as the SDKs ask for; all share one ledger. `sessions: false`: there are none. */
async function serve(version: 1 | 2, scope: Any, { sessions = true } = {}): Promise<Served> {
  const nt = openLedger();
  const runs: string[] = [];
  const serverOf = () => {
    const bare: Any = new (version === 1 ? McpServer : McpServer2)(INFO);
    const server = scope === undefined ? bare : guardMcpServer(nt, bare, { scope });
    const inputSchema = version === 1 ? { month: z.string() } : z.object({ month: z.string() });
    server.registerTool("balance", { inputSchema }, async (_: Any, { authInfo, http }: Any) => {
      const who = (authInfo ?? http.authInfo).token.split(".")[0];
      runs.push(who);
      return { content: [{ type: "text", text: `balance of ${who}` }] };
    });
    return server;
  };
  const open = new Map<string, Any>();
  const transportFor = async (id: string | undefined) => {
    const known = id === undefined ? undefined : open.get(id);
    if (known !== undefined) return known;
    const options: Any = {
      sessionIdGenerator: sessions ? () => randomUUID() : undefined,
      onsessioninitialized: (made: string) => void open.set(made, transport),
    };
    const transport: Any =
      version === 1
        ? new StreamableHTTPServerTransport(options)
        : new WebStandardStreamableHTTPServerTransport(options);
    await serverOf().connect(transport);
    return transport;
  };
  const first = requireBearerAuth({ verifier }) as Any;
  const second = requireBearerAuth2({ verifier } as Any);
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const transport = await transportFor(req.headers["mcp-session-id"] as string | undefined);
    if (version === 1) return first(req, res, () => transport.handleRequest(req, res));
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = chunks.length === 0 ? null : Buffer.concat(chunks);
    const request = new Request(new URL(req.url ?? "/", "http://localhost"), {
      method: req.method ?? "GET",
      headers: req.headers as Record<string, string>,
      ...(body !== null && { body }),
    });
    const authInfo = (await second(request)) as Any;
    const response: Response = await transport.handleRequest(request, { authInfo });
    res.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body !== null) for await (const chunk of response.body) res.write(chunk);
    return res.end();
  };
  const http = createServer((req, res) => void answer(req, res).catch(() => res.destroy()));
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  return { runs, url: new URL(`http://127.0.0.1:${(http.address() as Any).port}/mcp`) };
}

/** A new connection, and so a new session, with this token. */
async function askAs(version: 1 | 2, { url }: Served, token: string) {
  const client: Any = new (version === 1 ? Client : Client2)(INFO);
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new (version === 1 ? StreamableHTTPClientTransport : Http2)(url, { requestInit }) as Any);
  onTestFinished(() => client.close());
  return async () => textOf(await client.callTool({ name: "balance", arguments: { month: "may" } }));
}

describe.each([1, 2] as const)("SDK %i.x over HTTP, two users of one app", (version) => {
  it("without a guard each call runs for its own user", async () => {
    const server = await serve(version, undefined);
    for (const who of ["ada", "bob", "ada"])
      expect(await (await askAs(version, server, `${who}.1`))()).toBe(`balance of ${who}`);
    expect(server.runs).toEqual(["ada", "bob", "ada"]);
  });

  it("the app's id, which was the default once, gives one user the other's answer", async () => {
    const server = await serve(version, ({ authInfo, http }: Any) => (authInfo ?? http.authInfo).clientId);
    await (await askAs(version, server, "ada.1"))();
    expect(await (await askAs(version, server, "bob.1"))()).toMatch(/^Already done.*balance of ada$/s);
  });

  it("subjectOf: each user has intents of their own, in any session and with any token", async () => {
    const server = await serve(version, subjectOf);
    expect(await (await askAs(version, server, "ada.1"))()).toBe("balance of ada");
    expect(await (await askAs(version, server, "bob.1"))()).toBe("balance of bob");
    for (const who of ["ada", "bob"]) {
      const again = await askAs(version, server, `${who}.2`);
      expect(await again()).toMatch(new RegExp(`^Already done.*balance of ${who}$`, "s"));
    }
    expect(server.runs).toEqual(["ada", "bob"]);
  });

  it("sessionOf: each session has intents of its own", async () => {
    const server = await serve(version, sessionOf);
    const asks = [
      await askAs(version, server, "ada.1"),
      await askAs(version, server, "ada.1"),
      await askAs(version, server, "bob.1"),
    ];
    for (const ask of asks) expect(await ask()).toMatch(/^balance of (ada|bob)$/);
    expect(await asks[2]?.()).toMatch(/^Already done.*balance of bob$/s);
    expect(await asks[0]?.()).toMatch(/^Already done.*balance of ada$/s);
    expect(server.runs).toEqual(["ada", "ada", "bob"]);
  });

  it("a call without a subject, or without a session, is refused, and nothing is run", async () => {
    const nobody = await serve(version, subjectOf);
    await (await askAs(version, nobody, "ada.1"))();
    expect(await (await askAs(version, nobody, "app.1"))()).toMatch(/subjectOf found no subject .* Nothing was run/);
    expect(nobody.runs).toEqual(["ada"]);
    const stateless = await serve(version, sessionOf, { sessions: false });
    expect(await (await askAs(version, stateless, "ada.1"))()).toMatch(/sessionOf found no session .* Nothing was run/);
    expect(stateless.runs).toEqual([]);
  });
});
