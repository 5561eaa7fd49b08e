/**
 * Ten servers from npm behind the proxy as it is without a config. Repeats that are meant have the same answers and effects
 * as without it; a call whose answer was lost is not made again, and its effect is there once, by the server's own files. Without the
 * proxy the same session has it twice.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { connect, folder, proxied, said } from "./lib/mcp.ts";
import { leftIn, NPM_SERVERS, type NpmServer } from "./lib/npm-servers.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const SLOW_ANSWERS = here("./lib/slow-answers.mjs");
const ONE_CALL = here("./lib/one-call.mjs");

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

/** A server whose answers are held back until they are let go, with the proxy in front of it or without. */
function lossy(server: NpmServer, guarded: boolean) {
  const { outer, inner } = place();
  server.before?.(inner);
  const [held, log, answered] = ["door.held", "door.log", "door.answered"].map((name) => join(outer, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(held, "");
  const bare = [SLOW_ANSWERS, outer, ...server.argv(inner)];
  const argv = guarded ? proxied(outer, bare) : bare;
  const env = server.env?.(inner);
  const linesOf = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : []);
  const call = server.once?.(inner) as NonNullable<ReturnType<NonNullable<NpmServer["once"]>>>;
  return {
    call,
    connect: () => connect(argv, env),
    /** The client in a process of its own makes the call. */
    clientProcess: () => {
      const child = spawn(process.execPath, [ONE_CALL, JSON.stringify({ argv }), JSON.stringify(call)], {
        env: { ...process.env, ...env },
        stdio: "ignore",
      });
      onTestFinished(() => void child.kill("SIGKILL"));
      return child;
    },
    calls: () => linesOf(log).filter((line) => JSON.parse(line).method === "tools/call").length,
    /** In the server's files; null: it keeps none. */
    effects: () => server.effects?.(inner) ?? null,
    /** The effect is there, and its answer is not. */
    acted: () => expect.poll(() => linesOf(answered).length, { timeout: 30_000 }).toBe(1),
    letGo: () => rmSync(held),
    serverPid: () => Number(readFileSync(join(outer, "door.pid"), "utf8")),
  };
}

type Lossy = ReturnType<typeof lossy>;

const ACTING = NPM_SERVERS.filter(({ once }) => once !== undefined);

/** The same story in front of every server at once: most of its time is spent waiting. */
async function withEach(story: (door: Lossy) => Promise<unknown>, guarded = true): Promise<Record<string, unknown>> {
  const told = await Promise.all(
    ACTING.map(async (server) => [server.name, await story(lossy(server, guarded))] as const),
  );
  return Object.fromEntries(told);
}

/** What each server's story should come to: with how many effects, where it keeps files. */
const each = (...what: readonly unknown[]) => ({
  with: (effects: number) =>
    Object.fromEntries(
      ACTING.map((server) => {
        const left = server.effects === undefined ? null : server.absorbs ? 1 : effects;
        return [server.name, [...what, left]];
      }),
    ),
});

/** What a model is told, in a word. */
function word(answer: unknown): string {
  const [found = said(answer)] = /Already done|In progress|It may have happened/.exec(said(answer)) ?? [];
  return found;
}

// Some seconds where nothing else runs; a busy machine starts dozens of processes slowly.
describe("a call whose answer was lost, in front of each server that acts", { timeout: 180_000 }, () => {
  it("the client stops waiting, the answer comes late: the next call gets it, and the one after that is meant", async () => {
    const told = await withEach(async ({ call, calls, effects, acted, letGo, connect }) => {
      const { client } = await connect();
      const stop = new AbortController();
      const first = client.callTool(call, undefined, { signal: stop.signal }).catch(() => {});
      await acted();
      // As the official client does when its timeout is over.
      stop.abort("McpError: MCP error -32001: Request timed out");
      await first;
      letGo();
      const again = word(await client.callTool(call));
      expect([1, null]).toContain(effects());
      expect(calls()).toBe(1);
      await client.callTool(call);
      return [again, calls(), effects()];
    });
    // The third was meant.
    expect(told).toEqual(each("Already done", 2).with(2));
  });

  it("without the proxy: the connection is closed in the middle, and the call is made twice", async () => {
    const told = await withEach(async ({ call, calls, effects, acted, letGo, connect }) => {
      const first = await connect();
      const lost = first.client.callTool(call).catch(() => {});
      await acted();
      await first.close();
      await lost;
      letGo();
      const second = await connect();
      await second.client.callTool(call);
      return [calls(), effects()];
    }, false);
    expect(told).toEqual(each(2).with(2));
  });

  it("the connection is closed in the middle, and a new one calls again", async () => {
    const told = await withEach(async ({ call, calls, effects, acted, connect }) => {
      const first = await connect();
      const lost = first.client.callTool(call).catch(() => {});
      await acted();
      await first.close();
      await lost;
      const second = await connect();
      return [word(await second.client.callTool(call)), calls(), effects()];
    });
    expect(told).toEqual(each("It may have happened", 1).with(1));
  });

  it("the client is killed in the middle, the answer comes, and a new client calls again", async () => {
    const told = await withEach(async ({ call, calls, effects, acted, letGo, clientProcess, connect }) => {
      const first = clientProcess();
      await acted();
      first.kill("SIGKILL");
      letGo();
      const second = await connect();
      let again = "In progress";
      // Until the first proxy has noticed what became of its client, and of the call.
      while (again === "In progress") again = word(await second.client.callTool(call));
      return [again, calls(), effects()];
    });
    expect(told).toEqual(each("Already done", 1).with(1));
  });

  // Both at once: a call of the second proxy waits ten seconds for the first one's attempt, as nobody tells it that it is gone.
  it("the proxy, or the server, is killed in the middle, and another one is started", async () => {
    const killed = (kill: (door: Lossy, proxy: number) => void) =>
      withEach(async (door) => {
        const { call, calls, effects, acted, connect } = door;
        const first = await connect();
        const lost = first.client.callTool(call).catch(() => {});
        await acted();
        kill(door, first.pid);
        await lost;
        await first.close();
        const second = await connect();
        return [word(await second.client.callTool(call)), calls(), effects()];
      });
    const [proxy, server] = await Promise.all([
      killed((_, pid) => process.kill(pid, "SIGKILL")),
      killed(({ serverPid }) => process.kill(serverPid(), "SIGKILL")),
    ]);
    expect(proxy).toEqual(each("In progress", 1).with(1));
    expect(server).toEqual(each("It may have happened", 1).with(1));
  });
});
