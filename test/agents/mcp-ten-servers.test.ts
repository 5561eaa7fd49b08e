/**
 * Ten servers from npm behind the proxy as it is without a config. Repeats that are meant have the same answers and effects
 * as without it; a call whose answer was lost is not made again.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { connect, folder, proxied, said } from "./lib/mcp.ts";
import { leftIn, NPM_SERVERS, type NpmServer } from "./lib/npm-servers.ts";

const SLOW_ANSWERS = fileURLToPath(new URL("./lib/slow-answers.mjs", import.meta.url));

interface Played {
  readonly answers: readonly unknown[];
  readonly left: Record<string, string>;
}

/** A folder for the server, in one for the ledger. */
function place(): { readonly outer: string; readonly inner: string } {
  const outer = folder();
  const inner = join(outer, "place");
  mkdirSync(inner);
  return { outer, inner };
}

/** The session of a server in a folder of its own: each answer, and what is left. */
async function played(server: NpmServer, guarded: boolean): Promise<Played> {
  const { outer, inner } = place();
  const argv = guarded ? proxied(outer, server.argv(inner)) : server.argv(inner);
  const { client, close } = await connect(argv, server.env?.(inner));
  const answers = [];
  for (const call of server.session(inner)) answers.push(await client.callTool(call));
  await close();
  return JSON.parse(steady(JSON.stringify({ answers, left: leftIn(inner) }).replaceAll(outer, "<outer>")));
}

/** Times and random ids differ between any two sessions. */
function steady(text: string): string {
  return text
    .replace(/(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d:\d\d(?:\.\d+)?(?: [AP]M|Z)?/g, "<time>")
    .replace(/\b1[6-9]\d{11}\b/g, "<time>")
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<id>");
}

describe.each(NPM_SERVERS)("$name", (server) => {
  it("repeats that are meant: the same answers and effects with and without the proxy", async () => {
    const bare = await played(server, false);
    expect(JSON.stringify(bare.answers)).not.toContain('"isError":true');
    expect(await played(server, true)).toEqual(bare);
  });
});

/** The proxy in front of a server whose answers are held back until they are let go. */
function lossy(server: NpmServer) {
  const { outer, inner } = place();
  server.before?.(inner);
  const [held, log, answered] = ["door.held", "door.log", "door.answered"].map((name) => join(outer, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(held, "");
  const argv = proxied(outer, [SLOW_ANSWERS, outer, ...server.argv(inner)]);
  const env = server.env?.(inner);
  const linesOf = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : []);
  return {
    call: server.once?.(inner) as NonNullable<ReturnType<NonNullable<NpmServer["once"]>>>,
    connect: () => connect(argv, env),
    calls: () => linesOf(log).filter((line) => JSON.parse(line).method === "tools/call").length,
    /** The effect is there, and its answer is not. */
    acted: () => expect.poll(() => linesOf(answered).length, { timeout: 20_000 }).toBe(1),
    letGo: () => rmSync(held),
    serverPid: () => Number(readFileSync(join(outer, "door.pid"), "utf8")),
  };
}

type Lossy = ReturnType<typeof lossy>;

/** The same story in front of every server at once: most of its time is spent waiting. */
async function withEach(story: (door: Lossy) => Promise<unknown>): Promise<Record<string, unknown>> {
  const acting = NPM_SERVERS.filter(({ once }) => once !== undefined);
  const told = await Promise.all(acting.map(async (server) => [server.name, await story(lossy(server))] as const));
  return Object.fromEntries(told);
}

const ACTING = NPM_SERVERS.filter(({ once }) => once !== undefined).map(({ name }) => name);
const each = (what: unknown) => Object.fromEntries(ACTING.map((name) => [name, what]));

/** What a model is told, in a word. */
function word(answer: unknown): string {
  const [found = said(answer)] = /Already done|In progress|It may have happened/.exec(said(answer)) ?? [];
  return found;
}

describe("a call whose answer was lost, in front of each server that acts", () => {
  it("the client stops waiting, the answer comes late: the next call gets it, and the one after that is meant", async () => {
    const told = await withEach(async ({ call, calls, acted, letGo, connect }) => {
      const { client } = await connect();
      const stop = new AbortController();
      const first = client.callTool(call, undefined, { signal: stop.signal }).catch(() => {});
      await acted();
      // As the official client does when its timeout is over.
      stop.abort("McpError: MCP error -32001: Request timed out");
      await first;
      letGo();
      const again = word(await client.callTool(call));
      const before = calls();
      await client.callTool(call);
      return [again, before, calls()];
    });
    expect(told).toEqual(each(["Already done", 1, 2]));
  });

  it("the connection is closed in the middle, and a new one calls again", async () => {
    const told = await withEach(async ({ call, calls, acted, connect }) => {
      const first = await connect();
      const lost = first.client.callTool(call).catch(() => {});
      await acted();
      await first.close();
      await lost;
      const second = await connect();
      return [word(await second.client.callTool(call)), calls()];
    });
    expect(told).toEqual(each(["It may have happened", 1]));
  });

  it("the proxy is killed in the middle, and another one is started", async () => {
    const told = await withEach(async ({ call, calls, acted, connect }) => {
      const first = await connect();
      const lost = first.client.callTool(call).catch(() => {});
      await acted();
      process.kill(first.pid, "SIGKILL");
      await lost;
      const second = await connect();
      return [word(await second.client.callTool(call)), calls()];
    });
    expect(told).toEqual(each(["In progress", 1]));
  });

  it("the server is killed in the middle, and started again", async () => {
    const told = await withEach(async ({ call, calls, acted, serverPid, connect }) => {
      const first = await connect();
      const lost = first.client.callTool(call).then(word, () => "gone");
      await acted();
      process.kill(serverPid(), "SIGKILL");
      await lost;
      await first.close();
      const second = await connect();
      return [word(await second.client.callTool(call)), calls()];
    });
    expect(told).toEqual(each(["It may have happened", 1]));
  });
});
