/** A TCP proxy between a program and its server that can misbehave: the network as it is on a bad day. */

import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

export type Behaviour = "pass" | "drop-replies" | "blackhole" | "reset";

export interface TcpProxy {
  readonly port: number;
  /** The same URL, through the proxy. */
  through(url: string): string;
  behave(behaviour: Behaviour): void;
  /** Passes bytes until `trigger` says so about what the client sends; from then on behaves as told. */
  when(trigger: (sent: Buffer) => boolean, behaviour: Behaviour): void;
  close(): Promise<void>;
}

/** `listenAt`: the port of a proxy that was closed, so that its clients find this one. */
export async function tcpProxy(target: URL, listenAt = 0): Promise<TcpProxy> {
  let behaviour: Behaviour = "pass";
  let armed: { trigger: (sent: Buffer) => boolean; then: Behaviour } | null = null;
  const sockets = new Set<Socket>();
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    }
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
    client.on("data", (bytes) => {
      if (armed?.trigger(bytes)) {
        behaviour = armed.then;
        armed = null;
        // What was sent still arrives: only the answer is lost, and when it comes, the connection.
        if (behaviour === "reset") upstream.once("data", cut);
      }
      if (behaviour !== "blackhole") upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      if (behaviour === "pass") client.write(bytes);
    });
  });
  await new Promise<void>((done) => server.listen(listenAt, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    through: (url) => Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(port) }).href,
    behave: (next) => {
      behaviour = next;
      if (next === "reset") {
        cut();
        behaviour = "pass";
      }
    },
    when: (trigger, then) => {
      armed = { trigger, then };
    },
    close: async () => {
      cut();
      await new Promise((done) => server.close(done));
    },
  };
}
