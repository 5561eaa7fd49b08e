/** Whether an answer has arrived over HTTP, by what its connection does: real sockets. */
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { HttpDeliveries } from "./delivery.ts";

/** A server that answers when it is told to. */
async function server() {
  const deliveries = new HttpDeliveries();
  const told: string[] = [];
  const waiting: ServerResponse[] = [];
  const http = createServer((request, response) => {
    deliveries.came(request.socket);
    deliveries.asks("call", "toggle");
    waiting.push(response);
  });
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void http.closeAllConnections());
  onTestFinished(() => void http.close());
  const { port } = http.address() as AddressInfo;
  const asked = async () => {
    await expect.poll(() => waiting.length).toBeGreaterThan(0);
    return waiting.shift() as ServerResponse;
  };
  return {
    told,
    deliveries,
    asked,
    answer: async (response?: ServerResponse) => {
      const to = response ?? (await asked());
      deliveries.answers("call", to, {
        arrived: () => void told.push("arrived"),
        lost: () => void told.push("lost"),
      });
      deliveries.left("call");
      to.end("answer");
    },
    client: async (): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1");
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => {});
      await new Promise((connected) => socket.once("connect", connected));
      return socket;
    },
  };
}

const REQUEST = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
type World = Awaited<ReturnType<typeof server>>;
const read = (socket: Socket) => new Promise((got) => socket.once("data", got));
const closed = (response: ServerResponse) => new Promise((over) => response.once("close", over));

it.each<[string, (world: World, socket: Socket) => Promise<unknown>, string[]]>([
  [
    "finished, and the connection stays open",
    async ({ answer }, socket) => {
      const got = read(socket);
      await answer();
      await got;
    },
    ["arrived"],
  ],
  [
    "finished, and the client ends the connection",
    async ({ answer }, socket) => {
      const got = read(socket);
      await answer();
      await got;
      socket.end();
      await new Promise((over) => socket.once("close", over));
    },
    ["arrived"],
  ],
  [
    "the client had closed its side before",
    async ({ answer, asked }, socket) => {
      const response = await asked();
      const over = closed(response);
      socket.end();
      await over;
      await answer(response);
    },
    ["lost"],
  ],
  [
    "the connection was reset before",
    async ({ answer, asked }, socket) => {
      const response = await asked();
      const over = closed(response);
      socket.resetAndDestroy();
      await over;
      await answer(response);
    },
    ["lost"],
  ],
  [
    "finished, and the connection breaks with the answer unread",
    async ({ answer, told }, socket) => {
      socket.pause();
      await answer();
      await expect.poll(() => told).toEqual(["arrived"]);
      socket.resetAndDestroy();
    },
    ["arrived", "lost"],
  ],
  [
    "finished, another request by the same connection, and then it breaks",
    async ({ answer, asked }, socket) => {
      const got = read(socket);
      await answer();
      await got;
      socket.write(REQUEST);
      const over = closed(await asked());
      socket.resetAndDestroy();
      await over;
    },
    ["arrived"],
  ],
  [
    "cancelled before",
    async ({ answer, asked, deliveries }) => {
      const response = await asked();
      expect(deliveries.cancelled("call")).toBe("toggle");
      await answer(response);
    },
    ["lost"],
  ],
  [
    "cancelled after",
    async ({ answer, deliveries }, socket) => {
      const got = read(socket);
      await answer();
      await got;
      expect(deliveries.cancelled("call")).toBeUndefined();
    },
    ["arrived", "lost"],
  ],
])("%s", async (_, story, told) => {
  const world = await server();
  const socket = await world.client();
  socket.write(REQUEST);
  await story(world, socket);
  await expect.poll(() => world.told).toEqual(told);
});

it("an answer that comes once more on a resumed stream has arrived", async () => {
  const { client, asked, answer, deliveries, told } = await server();
  const lost = await client();
  lost.write(REQUEST);
  const response = await asked();
  const over = closed(response);
  lost.destroy();
  await over;
  await answer(response);
  const resumed = await client();
  resumed.write(REQUEST);
  const stream = await asked();
  const delivery = deliveries.again("call");
  stream.write("answer");
  if (delivery !== undefined) deliveries.streamed("call", stream, delivery);
  expect(told).toEqual(["lost", "arrived"]);
});
