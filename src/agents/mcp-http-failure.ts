/** An HTTP status of the server instead of an answer. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { forwardable, isRedirect } from "./mcp-upstream.ts";

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

export function redirectMessage({ statusCode, headers }: IncomingMessage): string {
  const to = headers.location !== undefined && URL.canParse(headers.location) ? new URL(headers.location) : null;
  const where = to === null ? "" : ` to ${to.origin}${to.pathname}`;
  return `the MCP server answered with a redirect (HTTP ${statusCode}${where}). It is not passed on, because a client that follows it would leave the guard: start the proxy with the final address in --url`;
}
