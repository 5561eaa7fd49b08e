/** Ways past the guard: the older transport, and redirects. A client that follows them must not reach the server's tools. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { COMMAND, connect, connectHttp, folder, httpProxyOf } from "./lib/mcp.ts";

async function listening(serve: (request: IncomingMessage, response: ServerResponse) => unknown): Promise<string> {
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server of the older transport, made with the official SDK. */
async function legacyServer() {
  const came: string[] = [];
  const transports = new Map<string, SSEServerTransport>();
  const url = await listening(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    if (request.method === "GET" && pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", response);
      transports.set(transport.sessionId, transport);
      const server = new McpServer({ name: "old", version: "1.0.0" });
      server.registerTool("act", {}, async () => {
        came.push("act");
        return { content: [] };
      });
      return server.connect(transport);
    }
    if (pathname !== "/messages") return response.writeHead(405).end();
    came.push("message");
    return transports.get(searchParams.get("sessionId") ?? "")?.handlePostMessage(request, response);
  });
  return { url: `${url}/sse`, came };
}

const stdioOf = (url: string) => [COMMAND, "mcp", "--store", `sqlite:${join(folder(), "l.db")}`, "--url", url];

describe("the older HTTP+SSE transport", () => {
  it("works without the proxy, and is refused through it: no client learns where messages go", async () => {
    const { url, came } = await legacyServer();
    const client = () => new Client({ name: "test", version: "1.0.0" });
    const bare = client();
    await bare.connect(new SSEClientTransport(new URL(url)) as Parameters<Client["connect"]>[0]);
    await bare.callTool({ name: "act" });
    await bare.close();
    expect(came.splice(0)).toContain("act");
    const proxy = await httpProxyOf(url, folder());
    const first = await fetch(proxy.url, { headers: { accept: "text/event-stream" } });
    await expect(first.text()).rejects.toThrow();
    const second = await fetch(proxy.url, { headers: { accept: "text/event-stream" } });
    expect([second.status, await second.text()]).toEqual([502, expect.stringMatching(/older HTTP\+SSE transport/)]);
    const through = new SSEClientTransport(new URL(proxy.url)) as Parameters<Client["connect"]>[0];
    await expect(client().connect(through)).rejects.toThrow();
    expect(came).toEqual([]);
  });

  it("is refused on stdio too, with what to do", async () => {
    const { url, came } = await legacyServer();
    await expect(connect(stdioOf(url))).rejects.toThrow(/older HTTP\+SSE transport.*\/mcp instead of \/sse/);
    expect(came).toEqual([]);
  });
});

describe.each([301, 302, 303, 307, 308])("a redirect with %s", (status) => {
  /** Where it leads: whoever comes here has left the guard. */
  async function redirecting() {
    const came: string[] = [];
    const elsewhere = await listening((request, response) => {
      came.push(`${request.method} ${request.url}`);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
    const url = await listening((_, response) => response.writeHead(status, { location: `${elsewhere}/mcp` }).end());
    return { url: `${url}/mcp`, came };
  }

  it("of POST, GET or DELETE reaches no client over HTTP", async () => {
    const { url, came } = await redirecting();
    const proxy = await httpProxyOf(url, folder());
    for (const method of ["POST", "GET", "DELETE"]) {
      const body = method === "POST" ? JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }) : null;
      const answer = await fetch(proxy.url, { method, headers: { "content-type": "application/json" }, body });
      expect([method, answer.status, answer.headers.get("location")]).toEqual([method, 502, null]);
      expect(await answer.text()).toMatch(/leave the guard: start the proxy with the final address/);
    }
    await expect(connectHttp(proxy.url)).rejects.toThrow(/leave the guard/);
    expect(came).toEqual([]);
  });

  it("is not followed for a client on stdio, and said", async () => {
    const { url, came } = await redirecting();
    await expect(connect(stdioOf(url))).rejects.toThrow(/leave the guard: start the proxy with the final address/);
    expect(came).toEqual([]);
  });
});
