/** How the cases of the corpus are written down. */

export interface Ports {
  readonly self: number;
  /** Where nothing may arrive. */
  readonly other: number;
}

/**
 * guarded: one effect, which the ledger knows · refused: no effect, an HTTP error or a closed connection · passes: no effect,
 * a 2xx answer · "not run": no effect, and an error result of the tool that says so
 */
export type Fate = "guarded" | "refused" | "passes" | "not run";

export interface Case {
  readonly name: string;
  readonly fate: Fate;
  /** Where the status matters. */
  readonly status?: number;
  /** How many answers come back, where it is more than one request. */
  readonly answers?: number;
  /** Nothing more will come: the sender is gone. */
  readonly cut?: boolean;
  bytes(ports: Ports): Buffer;
}

export interface Head {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  /** In place of a default header, or in addition; null leaves one out. */
  readonly headers?: Readonly<Record<string, string | null>>;
  /** Lines as they are, behind the other headers. */
  readonly lines?: readonly string[];
}

const filled = (text: string, { self, other }: Ports) =>
  text.replaceAll("SELF", `127.0.0.1:${self}`).replaceAll("OTHER", `127.0.0.1:${other}`);

/** A POST of a JSON body, unless it says otherwise. SELF and OTHER stand for the proxy and the other server. */
export function request(body: string | Buffer, head: Head = {}): (ports: Ports) => Buffer {
  return (ports) => {
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const { method = "POST", target = "/mcp", version = "HTTP/1.1", lines = [] } = head;
    const headers: Record<string, string | null> = {
      host: "SELF",
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      authorization: "Bearer secret-of-the-caller",
      "content-length": String(bytes.length),
      ...head.headers,
    };
    const fields = Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
    const text = [`${method} ${target} ${version}`, ...fields, ...lines].map((line) => `${line}\r\n`).join("");
    return Buffer.concat([Buffer.from(filled(`${text}\r\n`, ports), "latin1"), bytes]);
  };
}

/** As it is. */
export function raw(text: string): (ports: Ports) => Buffer {
  return (ports) => Buffer.from(filled(text, ports), "latin1");
}

/** A call of `send`, told apart by its argument. */
export function call(n: string, over: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "send", arguments: { n } },
    ...over,
  });
}

export const chunked = (text: string, extension = "") =>
  `${Buffer.byteLength(text).toString(16)}${extension}\r\n${text}\r\n0\r\n\r\n`;
