/** Two users of one app, two sessions, over HTTP: no answer of one reaches the other. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { McpServer as McpServer2 } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardMcpServer, sessionOf, subjectOf } from "../../dist/agents/mcp/server/index.js";
import { clientWith, overHttp } from "./lib/mcp-over-http.ts";
import { type Any, INFO, openLedger, textOf } from "./lib/mcp-sdks.ts";

interface Served {
  readonly runs: string[];
  readonly url: URL;
}

/** All sessions share one ledger. */
async function serve(version: 1 | 2, scope: Any, options: { sessions?: boolean } = {}): Promise<Served> {
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
  const url = await overHttp(version, serverOf, options);
  return { runs, url };
}

/** A new connection, and so a new session, with this token. */
async function askAs(version: 1 | 2, { url }: Served, token: string) {
  const client = await clientWith(version, url, token);
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
