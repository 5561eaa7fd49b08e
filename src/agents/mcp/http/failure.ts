/** An HTTP status of the server instead of an answer. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { forwardable, isRedirect } from "./upstream.ts";

export class HttpFailure extends Error {
  override readonly name = "HttpFailure";
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly #redirect: string | null;
  readonly #body: Buffer;

  constructor(answer: IncomingMessage, body: Buffer) {
    super(`the MCP server answered HTTP ${answer.statusCode}`);
    this.status = answer.statusCode ?? 502;
    this.headers = answer.headers;
    this.#redirect = isRedirect(answer) ? redirectMessage(answer) : null;
    this.#body = body;
  }

  /** The server did not run it: a request that is to be sent again elsewhere, as it is. */
  get isUnrunRedirect(): boolean {
    return this.status === 307 || this.status === 308;
  }

  /** What to say instead of passing the answer on; null: it may be passed on. */
  get redirect(): string | null {
    return this.#redirect;
  }

  passOn(response: ServerResponse): void {
    response.writeHead(this.status, forwardable(this.headers)).end(this.#body);
  }
}

/** The first event of the older HTTP+SSE transport: where messages are to be sent, past the guard. */
export const isLegacy = ({ type }: { readonly type: string }) => type === "endpoint";

export const LEGACY_MESSAGE =
  "the MCP server speaks the older HTTP+SSE transport, whose messages go to another address: they would not be guarded, so it is refused. Put the server's address for streamable HTTP into --url; it often ends in /mcp instead of /sse";

export function redirectMessage({ statusCode, headers }: IncomingMessage): string {
  const to = headers.location !== undefined && URL.canParse(headers.location) ? new URL(headers.location) : null;
  const where = to === null ? "" : ` to ${to.origin}${to.pathname}`;
  return `the MCP server answered with a redirect (HTTP ${statusCode}${where}). It is not passed on, because a client that follows it would leave the guard: start the proxy with the final address in --url`;
}
