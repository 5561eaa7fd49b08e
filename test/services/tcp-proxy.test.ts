import { connect, createServer, type Socket } from "node:net";
import { Redis } from "ioredis";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../support/gate.ts";
import { flushableRedisDb, freshDatabase, postgresUrl } from "./addresses.ts";
import { proxyTo } from "./on-demand.ts";

/** A server that answers each line with the same line, and remembers what it got. */
async function echo() {
  const received: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk) => {
      received.push(String(chunk));
      socket.write(chunk);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, received, sockets };
}

function dial(port: number) {
  const heard = { text: "", error: "", closed: false };
  const socket = connect(port, "127.0.0.1");
  socket.on("data", (chunk) => {
    heard.text += chunk;
  });
  socket.on("error", (error: NodeJS.ErrnoException) => {
    heard.error = String(error.code);
  });
  socket.on("close", () => {
    heard.closed = true;
  });
  onTestFinished(() => void socket.destroy());
  return { heard, socket, say: (text: string) => void socket.write(text) };
}

const aMoment = () => new Promise((resume) => setTimeout(resume, 100));

async function setUp() {
  const server = await echo();
  const proxy = await proxyTo(server);
  const client = dial(proxy.port);
  client.say("hello");
  await until(() => client.heard.text === "hello", "the first answer");
  return { server, proxy, client };
}

test("pass: bytes and the end of the stream go through, both ways", async () => {
  const { server, proxy, client } = await setUp();
  const big = "x".repeat(4_000_000);
  client.say(big);
  await until(() => client.heard.text.length === 5 + big.length, "the big answer");
  client.socket.end();
  await until(() => client.heard.closed && server.sockets.size === 0 && proxy.connections === 0, "the end");
  expect(client.heard.error).toBe("");
});

test("blackhole: nothing goes through, and a hang-up stays unnoticed until the mode changes", async () => {
  const { server, proxy, client } = await setUp();
  proxy.set("blackhole");
  client.say("lost");
  client.socket.destroy();
  await aMoment();
  expect(server.received).toEqual(["hello"]);
  expect(server.sockets.size).toBe(1);
  proxy.set("pass");
  await until(() => server.sockets.size === 0, "the torn connection's end");
});

test("a blackholed connection is reset afterwards, and new ones work", async () => {
  const { proxy, client } = await setUp();
  proxy.set("blackhole");
  client.say("lost");
  await aMoment();
  expect(client.heard).toEqual({ text: "hello", error: "", closed: false });
  proxy.set("pass");
  await until(() => client.heard.error === "ECONNRESET", "the reset");
  const next = dial(proxy.port);
  next.say("again");
  await until(() => next.heard.text === "again", "an answer on a new connection");
});

test("reset: open and new connections are reset", async () => {
  const { server, proxy, client } = await setUp();
  proxy.set("reset");
  const next = dial(proxy.port);
  await until(() => client.heard.error === "ECONNRESET" && next.heard.closed, "both resets");
  await until(() => server.sockets.size === 0, "the server noticing");
});

test("drop-reply: every request arrives, no answer does", async () => {
  const { server, proxy, client } = await setUp();
  proxy.set("drop-reply");
  client.say("one");
  await until(() => server.received.includes("one"), "the first request");
  await aMoment();
  client.say("two");
  await until(() => server.received.includes("two"), "the second request");
  await aMoment();
  expect(client.heard).toEqual({ text: "hello", error: "", closed: false });
});

test("cut-reply: the request arrives, its answer becomes a reset", async () => {
  const { server, proxy, client } = await setUp();
  proxy.set("cut-reply");
  client.say("one");
  await until(() => client.heard.error === "ECONNRESET", "the reset");
  expect(server.received).toEqual(["hello", "one"]);
  expect(client.heard.text).toBe("hello");
});

test("delay: late and in order", async () => {
  const { proxy, client } = await setUp();
  proxy.set("delay", { ms: 150 });
  const began = performance.now();
  for (const letter of "abcdefgh") client.say(letter);
  await until(() => client.heard.text === "helloabcdefgh", "the late answer");
  expect(performance.now() - began).toBeGreaterThanOrEqual(290);
});

test("when: the mode changes with the request that carries the text", async () => {
  const { server, proxy, client } = await setUp();
  const struck = proxy.when(/commit/i, "cut-reply");
  client.say("begin");
  await until(() => client.heard.text === "hellobegin", "an answer before");
  client.say("COMMIT");
  await struck;
  await until(() => client.heard.error === "ECONNRESET", "the reset");
  expect(server.received).toContain("COMMIT");
});

test("PostgreSQL: a COMMIT whose answer is lost has happened", async () => {
  const database = await freshDatabase();
  const proxy = await proxyTo(postgresUrl());
  const client = new pg.Client({ connectionString: proxy.url(database.url), query_timeout: 30_000 });
  client.on("error", () => {});
  await client.connect();
  await client.query("CREATE TABLE effect (id int)");
  await client.query("BEGIN");
  await client.query("INSERT INTO effect VALUES (1)");
  void proxy.when("COMMIT", "cut-reply");
  await expect(client.query("COMMIT")).rejects.toThrow();
  const direct = new pg.Client(database.url);
  await direct.connect();
  onTestFinished(() => direct.end());
  expect((await direct.query("SELECT id FROM effect")).rows).toEqual([{ id: 1 }]);
});

test("Redis: a SET whose answer is lost has happened", async () => {
  const url = await flushableRedisDb();
  const proxy = await proxyTo(url);
  const client = new Redis(proxy.url(url), { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  client.on("error", () => {});
  await client.ping();
  void proxy.when("claim", "cut-reply");
  await expect(client.set("claim", "mine")).rejects.toThrow();
  const direct = new Redis(url);
  onTestFinished(() => direct.disconnect());
  expect(await direct.get("claim")).toBe("mine");
});
