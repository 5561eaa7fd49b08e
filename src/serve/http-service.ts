/**
 * The service on HTTP: on a loopback address or a Unix socket. It holds no attempts: each request is one operation on the
 * ledger, so that the service may end at any moment, and clients settle after its restart.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { isNevertwiceError, messageOf, type NevertwiceError } from "../core/errors.ts";
import { PACKAGE_VERSION } from "../core/package-version.ts";
import { redact } from "../core/redact.ts";
import type { ActionServices } from "../engine/action.ts";
import { clearTimeout, setTimeout } from "../engine/real-timers.ts";
import type { Caller } from "./attempts.ts";
import { type Body, type BodyLimits, BUSY, HeldBytes, Refusal, readBody } from "./body.ts";
import { Door, LOOPBACK, type Refused } from "./door.ts";
import { openApi } from "./openapi.ts";
import { type Operation, operationsOf } from "./operations.ts";
import { listenOnSocket } from "./unix-socket.ts";

export type Listen = { readonly host: string; readonly port: number } | { readonly socket: string };

export interface HttpServiceOptions {
  readonly services: ActionServices;
  readonly token: string;
  readonly listen: Listen;
  /** Further host names by which clients may call it. */
  readonly allowHosts?: readonly string[];
  readonly limits?: Partial<ServiceLimits>;
  /** Errors inside the service, for its operator. */
  readonly note: (text: string) => void;
}

export interface ServiceLimits extends BodyLimits {
  /** Requests under way, those that wait included. */
  readonly requests: number;
  /** After close(), requests under way have this long. */
  readonly graceMs: number;
}

const MiB = 1024 * 1024;
const DEFAULT_LIMITS: ServiceLimits = {
  bytes: 2 * MiB,
  allBytes: 64 * MiB,
  ms: 15_000,
  requests: 512,
  graceMs: 10_000,
};
const HEAD_MS = 10_000;
const MOST_CONNECTIONS = 1_024;

export interface HttpService {
  /** Where clients connect to: http://…, or unix:/path. */
  readonly url: string;
  /** Takes no more requests, ends those that wait, and waits for the others. */
  close(): Promise<void>;
}

export async function serveHttp(options: HttpServiceOptions): Promise<HttpService> {
  const front = new Front(options);
  const server = createServer(
    { headersTimeout: HEAD_MS, requestTimeout: HEAD_MS + front.limits.ms, connectionsCheckingInterval: 2_000 },
    (request, response) => void front.serve(request, response),
  );
  server.maxConnections = MOST_CONNECTIONS;
  const url = await listening(server, options.listen);
  // Silent holders are made visible from the start, whether or not anybody claims.
  options.services.used();
  return { url, close: () => closed(server, front) };
}

async function listening(server: Server, listen: Listen): Promise<string> {
  if ("socket" in listen) {
    await listenOnSocket(server, listen.socket);
    return `unix:${listen.socket}`;
  }
  const { host, port } = listen;
  await new Promise<void>((done, failed) => {
    server.once("error", failed);
    server.listen(port, host, done);
  });
  const shown = host.includes(":") ? `[${host}]` : host;
  return `http://${shown}:${(server.address() as AddressInfo).port}`;
}

async function closed(server: Server, front: Front): Promise<void> {
  server.close();
  server.closeIdleConnections();
  await front.close();
  server.closeAllConnections();
}

class Front {
  readonly limits: ServiceLimits;
  readonly #door: Door;
  readonly #operations: ReadonlyMap<string, Operation>;
  readonly #note: (text: string) => void;
  readonly #held = new HeldBytes();
  readonly #underWay = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  readonly #documents: ReadonlyMap<string, object>;

  constructor({ services, token, listen, allowHosts = [], limits, note }: HttpServiceOptions) {
    this.limits = { ...DEFAULT_LIMITS, ...limits };
    this.#note = note;
    const hosts = "socket" in listen ? null : new Set([...LOOPBACK, listen.host, ...allowHosts].map(lowered));
    this.#door = new Door({ token, hosts });
    const operations = operationsOf(services);
    this.#operations = new Map(operations.map((one) => [`/v1/${one.name}`, one]));
    this.#documents = new Map<string, object>([
      ["/v1/health", { status: "ok", version: PACKAGE_VERSION }],
      ["/v1/openapi.json", openApi(operations)],
    ]);
  }

  serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#underWay.size >= this.limits.requests) return this.#answered(request, response, () => refuse(BUSY));
    const work = this.#answered(request, response, () => this.#answer(request, response)).finally(() =>
      this.#underWay.delete(work),
    );
    this.#underWay.add(work);
    return work;
  }

  /** What waits is answered now; the rest has a moment to end. */
  async close(): Promise<void> {
    this.#closing.abort();
    const over = new Promise<void>((end) => {
      const timer = setTimeout(end, this.limits.graceMs);
      void Promise.allSettled(this.#underWay).then(() => {
        clearTimeout(timer);
        end();
      });
    });
    await over;
  }

  async #answered(request: IncomingMessage, response: ServerResponse, work: () => Promise<object>): Promise<void> {
    // A connection that breaks is the client's end, not an error here.
    response.on("error", () => {});
    try {
      write(response, 200, await work());
    } catch (error) {
      const { status, ...problem } = this.#problemOf(error);
      // What is left of a body that was not read would be taken for the next request.
      if (!request.complete) response.setHeader("connection", "close");
      if (status === 503) response.setHeader("retry-after", "1");
      write(response, status, { error: problem });
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<object> {
    const { pathname, method } = routeOf(request);
    const refused = this.#door.refuses(request.headers, { open: pathname === "/v1/health" });
    if (refused !== null) throw new Refusal(refused);
    const document = this.#documents.get(pathname);
    if (document !== undefined) return method === "GET" ? document : refuse(notAllowed("GET"));
    const operation = this.#operations.get(pathname);
    if (operation === undefined) return refuse(notFound([...this.#operations.keys(), ...this.#documents.keys()]));
    if (method !== "POST") return refuse(notAllowed("POST"));
    const refusedBody = this.#door.refusesBody(request.headers, this.limits.bytes);
    if (refusedBody !== null) throw new Refusal(refusedBody);
    const body = await readBody(request, this.limits, this.#held);
    try {
      return await operation.run(exact(operation, body), this.#callerOf(response));
    } finally {
      body.free();
    }
  }

  #callerOf(response: ServerResponse): Caller {
    const left = new AbortController();
    response.once("close", () => left.abort());
    if (response.destroyed) left.abort();
    return {
      gone: () => left.signal.aborted,
      signal: AbortSignal.any([left.signal, this.#closing.signal]),
    };
  }

  #problemOf(error: unknown): Problem {
    if (error instanceof Refusal) return error.refused;
    if (isNevertwiceError(error)) return problemOf(error);
    this.#note(
      `an error inside the service: ${redact(error instanceof Error ? String(error.stack) : messageOf(error))}`,
    );
    return {
      status: 500,
      code: "INTERNAL",
      message: "an error inside the service; its log says more. Ask for the status before you go on.",
    };
  }
}

interface Problem {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly key?: string;
}

const STATUS_OF: Readonly<Partial<Record<NevertwiceError["code"], number>>> = {
  LEASE_LOST: 409,
  IN_FLIGHT: 409,
  STORE_UNAVAILABLE: 503,
};

function problemOf({ code, message, key }: NevertwiceError): Problem {
  return { status: STATUS_OF[code] ?? 400, code, message, ...(key !== undefined && { key }) };
}

/** Two numbers that become one would be one intent, or one input. */
function exact({ name }: Operation, { value, inexact }: Body): unknown {
  if (inexact === null) return value;
  const why = `the number ${inexact} cannot be held exactly`;
  // The effect has happened: that is worth more than its result.
  if (name === "settle" && typeof value === "object" && value !== null && "result" in value)
    return { ...value, result: new Unstorable(why) };
  return refuse({
    status: 400,
    code: "INVALID_INPUT",
    message: `${name}: ${why}, so that two of them could be taken for one. Send it as text. Nothing was changed.`,
  });
}

/** Stored as a result that was left out, with the reason. */
class Unstorable {
  readonly #why: string;

  constructor(why: string) {
    this.#why = why;
  }

  toJSON(): never {
    throw new Error(this.#why);
  }
}

function routeOf({ url = "/", method = "GET" }: IncomingMessage): {
  readonly pathname: string;
  readonly method: string;
} {
  if (url.includes("?"))
    return refuse({
      status: 400,
      code: "INVALID_INPUT",
      message: "no query is taken: send the fields as JSON in the body of a POST.",
    });
  return { pathname: url, method };
}

function refuse(refused: Refused): never {
  throw new Refusal(refused);
}

function notAllowed(method: string): Refused {
  return { status: 405, code: "METHOD", message: `this path takes ${method}.` };
}

function notFound(paths: readonly string[]): Refused {
  return { status: 404, code: "NOT_FOUND", message: `there is no such path. The paths are: ${paths.join(", ")}.` };
}

function write(response: ServerResponse, status: number, document: object): void {
  // With an end of line, for those who look at it in a terminal.
  const body = Buffer.from(`${JSON.stringify(document)}\n`);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": body.length,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(body);
}

function lowered(text: string): string {
  return text.toLowerCase();
}
