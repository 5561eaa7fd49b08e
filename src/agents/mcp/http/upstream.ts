/** Requests to the MCP server behind the HTTP proxy. */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { type Account, DEFAULT_HTTP_LIMITS, readBody } from "./limits.ts";
import { type SseEvent, SseReader } from "./sse.ts";

export interface UpstreamRequest {
  /** Where the server is: the only host anything is sent to. */
  readonly url: URL;
  /** Path and query; those of the URL unless given. */
  readonly path?: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | null;
}

// Between two hops only, or made anew by whoever sends. An alternative service would lead clients past the proxy.
const NOT_FORWARDED = new Set(
  "host connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade http2-settings content-length expect alt-svc".split(
    " ",
  ),
);

export function forwardable(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      // Which pages may read an answer is the proxy's own decision.
      ([name, value]) => value !== undefined && !NOT_FORWARDED.has(name) && !name.startsWith("access-control-"),
    ),
  ) as Record<string, string | string[]>;
}

/** Resolves with the answer's head; its body is still to be read. Never aborted by itself: an effect may be under way. */
export function send(
  { url, path, method, headers, body }: UpstreamRequest,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  const make = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const length = body === null ? {} : { "content-length": String(body.length) };
    const outgoing = make(url, {
      method,
      ...(path !== undefined && { path }),
      // A connection of its own: a kept one that the server has just closed would turn a call that never arrived into a doubt.
      agent: false,
      // Answers are read here: compressed ones could not be.
      headers: { ...forwardable(headers), ...length, "accept-encoding": "identity" },
      ...(signal !== undefined && { signal }),
    });
    outgoing.once("response", resolve);
    outgoing.once("error", reject);
    outgoing.end(body ?? undefined);
  });
}

/** Sends the client elsewhere. Node follows none, and a client must not either: it would leave the guard. */
export function isRedirect({ statusCode }: IncomingMessage): boolean {
  return [300, 301, 302, 303, 305, 307, 308].includes(statusCode ?? 0);
}

export const STREAM_ENDED = "the stream ended before the answer came";

/** Writes to a client at the client's pace; one that is gone is not waited for. */
export async function writeTo(response: ServerResponse, text: string): Promise<void> {
  if (response.destroyed || response.writableEnded || response.write(text)) return;
  await new Promise<void>((ready) => {
    const done = () => {
      response.off("drain", done).off("close", done);
      ready();
    };
    response.on("drain", done).on("close", done);
  });
}

export function isEventStream(answer: IncomingMessage): boolean {
  return (answer.headers["content-type"] ?? "").toLowerCase().startsWith("text/event-stream");
}

/** The body of an answer, bounded. */
export async function bodyOf(answer: IncomingMessage, account?: Account): Promise<Buffer> {
  const { bodyBytes: bytes, answerIdleMs: idleMs } = DEFAULT_HTTP_LIMITS;
  try {
    return await readBody(answer, { bytes, idleMs }, account);
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

export async function* eventsOf(answer: IncomingMessage, account?: Account): AsyncGenerator<SseEvent> {
  const reader = new SseReader();
  answer.setEncoding("utf8");
  for await (const chunk of answer as AsyncIterable<string>) {
    if (account?.set(reader.size + chunk.length) === false) throw new Error("too many bytes are held at the moment");
    yield* reader.push(chunk);
    account?.set(reader.size);
  }
}
