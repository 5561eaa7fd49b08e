// A TCP proxy that a test tells how to fail. It speaks no protocol, so it stands in front of anything.
//
//   pass        bytes go through
//   delay       bytes go through `ms` later, each way
//   blackhole   nothing goes through and nobody is told, not even that the other side hung up: a cut cable
//   reset       open connections are reset, new ones too
//   drop-reply  requests go through, answers do not: the work is done and nobody hears of it
//   cut-reply   the same, but the first byte of an answer resets the connection, so that the client knows at once
import { connect, createServer } from "node:net";
import { Lane } from "./proxy-lane.mjs";

/** @typedef {"pass" | "delay" | "blackhole" | "reset" | "drop-reply" | "cut-reply"} Mode */

/**
 * @param {string | { host?: string, port: number }} target an address, or a URL with one
 */
export async function startProxy(target) {
  const to = typeof target === "string" ? addressIn(target) : { host: "127.0.0.1", ...target };
  const proxy = new TcpProxy(to);
  await proxy.listen();
  return proxy;
}

function addressIn(url) {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

export class TcpProxy {
  #target;
  #server;
  /** @type {Mode} */
  #mode = "pass";
  #ms = 0;
  #links = new Set();
  /** @type {{ matches: (text: string) => boolean, strike: () => void }[]} */
  #armed = [];
  port = 0;

  constructor(target) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
  }

  /** The same URL, through this proxy. @param {string} url */
  url(url) {
    return Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(this.port) }).href;
  }

  get mode() {
    return this.#mode;
  }

  get connections() {
    return this.#links.size;
  }

  /**
   * From now on. Connections that lost bytes do not come back to life: TCP never shows a stream with a hole, so leaving
   * a mode that swallows resets them.
   * @param {Mode} mode @param {{ ms?: number }} [options]
   */
  set(mode, { ms = 0 } = {}) {
    this.#mode = mode;
    this.#ms = mode === "delay" ? ms : 0;
    for (const link of [...this.#links]) if (mode === "reset" || (mode !== "blackhole" && link.torn)) link.reset();
  }

  /**
   * The mode changes when a request with this text is seen, before that request goes on: `when("COMMIT", "drop-reply")`.
   * @param {string | RegExp} text @param {Mode} mode @param {{ ms?: number }} [options]
   * @returns {Promise<void>} when that has happened
   */
  when(text, mode, options) {
    const matches = typeof text === "string" ? (seen) => seen.includes(text) : (seen) => text.test(seen);
    return new Promise((struck) => {
      const strike = () => {
        this.set(mode, options);
        struck();
      };
      this.#armed.push({ matches, strike });
    });
  }

  listen() {
    return new Promise((listening, failed) => {
      this.#server.once("error", failed);
      this.#server.listen(0, "127.0.0.1", () => {
        this.port = this.#server.address().port;
        listening(undefined);
      });
    });
  }

  async close() {
    const closed = new Promise((done) => this.#server.close(done));
    for (const link of [...this.#links]) link.reset();
    await closed;
  }

  #accept(client) {
    client.on("error", () => {});
    if (this.#mode === "reset") return void client.resetAndDestroy();
    const upstream = connect({ ...this.#target, allowHalfOpen: true, noDelay: true });
    const both = [client, upstream];
    const link = {
      torn: false,
      reset: () => this.#drop(link, () => both.map((socket) => socket.resetAndDestroy())),
      finish: () => this.#drop(link, () => both.map((socket) => socket.destroySoon())),
    };
    this.#links.add(link);
    new Lane(client, upstream, (chunk) => this.#judge(link, "request", chunk));
    new Lane(upstream, client, (chunk) => this.#judge(link, "reply", chunk));
    for (const socket of both) {
      socket.on("error", () => {});
      socket.once("close", (hadError) => this.#hungUp(link, hadError));
    }
  }

  /** What becomes of these bytes (none: the end of the stream): dropped, or passed on after some milliseconds. */
  #judge(link, direction, chunk) {
    if (direction === "request" && chunk) this.#notice(chunk.toString("latin1"));
    const mode = this.#mode;
    if (mode === "cut-reply" && direction === "reply") link.reset();
    const swallowed = mode === "blackhole" || (mode === "drop-reply" && direction === "reply");
    if (swallowed) link.torn = true;
    return { drop: swallowed || !this.#links.has(link), afterMs: this.#ms };
  }

  #notice(text) {
    const struck = this.#armed.filter(({ matches }) => matches(text));
    this.#armed = this.#armed.filter((one) => !struck.includes(one));
    for (const { strike } of struck) strike();
  }

  #hungUp(link, hadError) {
    // Behind a cut cable the other side goes on as if nothing had happened.
    if (this.#mode === "blackhole") link.torn = true;
    else if (hadError) link.reset();
    // A reset would take back bytes that the other side has not read yet.
    else link.finish();
  }

  #drop(link, end) {
    if (this.#links.delete(link)) end();
  }
}
