/** MCP servers of the official SDKs over HTTP, behind a token verifier, and clients with tokens. */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
  requireBearerAuth as requireBearerAuth2,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import { type Any, INFO } from "./mcp-sdks.ts";

/** Tokens of one app: `ada.1` is ada's first. One of the app itself has no subject. */
const verifier = {
  verifyAccessToken: async (token: string) => {
    const [sub] = token.split(".");
    const extra = sub === "app" ? {} : { sub, iss: "https://id.example" };
    return { token, clientId: "app", scopes: [], expiresAt: Date.now() / 1_000 + 60, extra };
  },
};

/** Each session has a server of its own, as the SDKs ask for. `sessions: false`: there are none. */
export async function overHttp(version: 1 | 2, serverOf: () => Any, { sessions = true } = {}): Promise<URL> {
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
  return new URL(`http://127.0.0.1:${(http.address() as Any).port}/mcp`);
}

/** A new connection, and so a new session, with this token. */
export async function clientWith(version: 1 | 2, url: URL, token: string): Promise<Any> {
  const client: Any = new (version === 1 ? Client : Client2)(INFO);
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new (version === 1 ? StreamableHTTPClientTransport : Http2)(url, { requestInit }) as Any);
  onTestFinished(() => client.close());
  return client;
}
