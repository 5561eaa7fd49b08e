/** Requests to the MCP server behind the HTTP proxy. */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { type SseEvent, SseReader } from "./mcp-sse.ts";

export interface UpstreamRequest {
  readonly url: URL;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer | null;
}

// Between two hops only, or made anew by whoever sends.
const NOT_FORWARDED = new Set(
  "host connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade content-length expect".split(
    " ",
  ),
);

export function forwardable(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => value !== undefined && !NOT_FORWARDED.has(name)),
  ) as Record<string, string | string[]>;
}

/** Resolves with the answer's head; its body is still to be read. Never aborted by itself: an effect may be under way. */
export function send({ url, method, headers, body }: UpstreamRequest, signal?: AbortSignal): Promise<IncomingMessage> {
  const make = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const length = body === null ? {} : { "content-length": String(body.length) };
    const outgoing = make(url, {
      method,
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

const LONGEST_BODY = 64 * 1024 * 1024;

export async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > LONGEST_BODY) throw new Error(`a body is longer than ${LONGEST_BODY} bytes`);
  }
  return Buffer.concat(chunks);
}

export async function* eventsOf(answer: IncomingMessage): AsyncGenerator<SseEvent> {
  const reader = new SseReader();
  answer.setEncoding("utf8");
  for await (const chunk of answer as AsyncIterable<string>) yield* reader.push(chunk);
}
