/**
 * A server on streamable HTTP for a client on stdio: lines in, lines out. The guard stands between the two, as for a
 * server that is a child process.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Readable, Writable } from "node:stream";
import { classify } from "../../../core/classify.ts";
import { messageOf } from "../../../core/errors.ts";
import { setTimeout } from "../../../engine/real-timers.ts";
import type { McpGuard } from "../guard.ts";
import { isLegacy, LEGACY_MESSAGE, redirectMessage } from "../http/failure.ts";
import { bodyOf, eventsOf, isEventStream, isRedirect, STREAM_ENDED, send } from "../http/upstream.ts";
import { onLines } from "../lines.ts";
import {
  INVALID_REQUEST,
  idText,
  isRequest,
  isResponse,
  parseMessage,
  type RequestId,
  type RpcMessage,
} from "../rpc.ts";
import { stillReads, writeLine } from "./client.ts";
import { McpRelay } from "./relay.ts";

export interface BridgeOptions {
  readonly guard: McpGuard;
  readonly url: URL;
  /** Sent with every request: credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly input: Readable;
  readonly output: Writable;
  onSignal(listener: () => void): void;
}

/** Ends when the client has gone and every call is settled. */
export async function stdioToHttp(options: BridgeOptions): Promise<number> {
  const { guard, input, output } = options;
  const server = new HttpServer(options, (line, isOwn, during) => relay.fromServer(line, isOwn, during));
  const relay: McpRelay = new McpRelay({
    guard,
    toClient: (line, written) => void writeLine(output, line, written),
    toServer: (line) => void server.deliver(line),
  });
  output.on("error", () => {});
  const told = new Promise<void>((end) => options.onSignal(end));
  const left = new Promise<void>((end) => {
    onLines(input, { line: (line) => relay.fromClient(line), end, error: () => end() });
  });
  const ended = left.then(() => relay.clientEnds(() => stillReads(output)));
  await Promise.race([left, told]);
  // What is under way is waited for, but not against a signal: its answer is then not known.
  await Promise.race([relay.sent().then(() => server.idle()), told]);
  await server.close();
  relay.serverGone(new Error("the connection to the MCP server was closed before it answered"));
  await relay.idle();
  await Promise.race([ended, told]);
  return 0;
}

const MOST_RESUMES = 20;
const RESUME_PAUSE_MS = 500;

/** `isOwn`: said in the place of an answer that was lost on the way. `during`: the request on whose stream it came. */
type Receive = (line: string, isOwn?: boolean, during?: RequestId | null) => void;

class HttpServer {
  readonly #options: BridgeOptions;
  readonly #receive: Receive;
  readonly #work = new Set<Promise<void>>();
  readonly #listening = new AbortController();
  #session: string | null = null;
  #version: string | null = null;
  /** The client's own first message: a session that the server has forgotten is begun again with it. */
  #initialize: string | null = null;

  constructor(options: BridgeOptions, receive: Receive) {
    this.#options = options;
    this.#receive = receive;
  }

  async idle(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  deliver(line: string): void {
    const work = this.#deliver(line).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  async #deliver(line: string): Promise<void> {
    const message = parseMessage(line);
    try {
      if (message?.method === "initialize") this.#initialize = line;
      let answer = await this.#post(line);
      if (answer.statusCode === 404 && this.#session !== null && message?.method !== "initialize") {
        answer.resume();
        await this.#beginAgain();
        answer = await this.#post(line);
      }
      await this.#take(answer, message);
      if (message?.method === "notifications/initialized") void this.#listen();
    } catch (error) {
      // Before the answer's head nothing is known; the guard makes a doubt of it.
      this.#fail(message, -32_603, messageOf(error));
    }
  }

  #post(line: string): Promise<IncomingMessage> {
    const { url } = this.#options;
    const message = parseMessage(line);
    const headers = { ...this.#headers(message), "content-type": "application/json" };
    return send({ url, method: "POST", headers, body: Buffer.from(line) });
  }

  #headers(message: RpcMessage | null): IncomingHttpHeaders {
    const meta = message?.params?._meta as Record<string, unknown> | undefined;
    const stated = meta?.["io.modelcontextprotocol/protocolVersion"];
    const version = typeof stated === "string" ? stated : this.#version;
    const { name = message?.params?.uri ?? message?.params?.taskId } = message?.params ?? {};
    return {
      accept: "application/json, text/event-stream",
      ...this.#options.headers,
      ...(this.#session !== null && { "mcp-session-id": this.#session }),
      ...(version !== null && { "mcp-protocol-version": version }),
      // Since protocol revision 2026-07-28 these stand in headers too.
      ...(typeof stated === "string" && message?.method !== undefined && { "mcp-method": message.method }),
      ...(typeof stated === "string" && typeof name === "string" && { "mcp-name": headerText(name) }),
    };
  }

  async #take(answer: IncomingMessage, asked: RpcMessage | null): Promise<void> {
    const status = answer.statusCode ?? 502;
    if (asked?.method === "initialize")
      this.#session = (answer.headers["mcp-session-id"] as string | undefined) ?? null;
    if (isRedirect(answer) || (await this.#isLegacy(answer, asked))) {
      answer.resume();
      // What is to be sent again elsewhere did not run; another redirect may be a receipt.
      const unrun = status !== 303 && status !== 302 && status !== 301 && status !== 300;
      const what = isRedirect(answer) ? redirectMessage(answer) : LEGACY_MESSAGE;
      return this.#fail(asked, unrun ? INVALID_REQUEST : -32_603, what);
    }
    if (status >= 300) {
      const said = (await bodyOf(answer)).toString("utf8").slice(0, 500);
      // A 4xx was refused before anything ran.
      const unrun = classify({ status }, 0).kind !== "doubt";
      return this.#fail(asked, unrun ? INVALID_REQUEST : -32_603, `HTTP ${status}${said === "" ? "" : `: ${said}`}`);
    }
    if (isEventStream(answer)) return this.#stream(answer, asked);
    const text = (await bodyOf(answer)).toString("utf8").trim();
    if (text !== "") this.#came(text, asked);
  }

  /** A server that takes no POST at its URL may have an event stream there, of the older transport: said clearly. */
  async #isLegacy({ statusCode = 502 }: IncomingMessage, asked: RpcMessage | null): Promise<boolean> {
    if (asked?.method !== "initialize" || ![400, 404, 405].includes(statusCode)) return false;
    try {
      const stream = await this.#get(null);
      if (isEventStream(stream)) for await (const event of eventsOf(stream)) return isLegacy(event);
      stream.destroy();
    } catch {
      // The first answer says enough.
    }
    return false;
  }

  /** A stream that breaks off before the answer is resumed where the server allows it. */
  async #stream(first: IncomingMessage, asked: RpcMessage | null): Promise<void> {
    let last: string | null = null;
    let answer = first;
    for (let resumes = 0; resumes < MOST_RESUMES; resumes += 1) {
      try {
        for await (const { data, id } of eventsOf(answer)) {
          last = id ?? last;
          if (data !== "" && this.#came(data, asked)) return;
        }
      } catch (error) {
        if (last === null) throw error;
      }
      if (last === null || asked === null || !isRequest(asked)) break;
      await new Promise((pause) => setTimeout(pause, RESUME_PAUSE_MS));
      answer = await this.#get(last);
      if (answer.statusCode !== 200) break;
    }
    if (asked !== null && isRequest(asked)) throw new Error(STREAM_ENDED);
  }

  #get(lastEventId: string | null): Promise<IncomingMessage> {
    const headers = { ...this.#headers(null), ...(lastEventId !== null && { "last-event-id": lastEventId }) };
    return send({ url: this.#options.url, method: "GET", headers, body: null }, this.#listening.signal);
  }

  /** Passes a message on; true: it is the answer. */
  #came(text: string, asked: RpcMessage | null): boolean {
    const message = parseMessage(text);
    const isAnswer = message !== null && isResponse(message) && idText(message.id) === idText(asked?.id);
    if (isAnswer && asked?.method === "initialize") {
      this.#version = (message.result?.protocolVersion as string | undefined) ?? null;
    }
    this.#receive(text.replace(/[\r\n]+/g, " "), false, asked?.id);
    return isAnswer;
  }

  /** What the server says by itself. Servers without such a stream answer 405. */
  async #listen(): Promise<void> {
    let last: string | null = null;
    for (let turns = 0; turns < MOST_RESUMES && !this.#listening.signal.aborted; turns += 1) {
      try {
        const answer = await this.#get(last);
        if (answer.statusCode !== 200 || !isEventStream(answer)) return void answer.resume();
        for await (const { data, id } of eventsOf(answer)) {
          last = id ?? last;
          turns = 0;
          if (data !== "") this.#came(data, null);
        }
      } catch {
        // Broken off: tried again below, or over.
      }
      await new Promise<void>((pause) => setTimeout(pause, RESUME_PAUSE_MS).unref());
    }
  }

  async #beginAgain(): Promise<void> {
    if (this.#initialize === null) return;
    this.#session = null;
    const answer = await this.#post(this.#initialize);
    this.#session = (answer.headers["mcp-session-id"] as string | undefined) ?? null;
    await bodyOf(answer);
    const initialized = await this.#post(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }));
    initialized.resume();
  }

  #fail(asked: RpcMessage | null, code: number, message: string): void {
    if (asked === null || !isRequest(asked)) return;
    this.#receive(JSON.stringify({ jsonrpc: "2.0", id: asked.id, error: { code, message } }), true);
  }

  async close(): Promise<void> {
    this.#listening.abort();
    if (this.#session === null) return;
    const { url } = this.#options;
    await send({ url, method: "DELETE", headers: this.#headers(null), body: null }).then(
      (answer) => answer.resume(),
      () => {},
    );
  }
}

/** What does not fit into a header stands in it as =?base64?…?=. */
function headerText(text: string): string {
  const fits = /^[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*$/.test(text) && !text.startsWith("=?base64?");
  return fits ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
}
