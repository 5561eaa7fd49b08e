/**
 * A small object store that speaks S3's HTTP: PUT, GET, DELETE and ListObjectsV2 with ETags and conditions, as Amazon
 * documents them. A script decides what goes wrong with each request.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface S3Request {
  readonly method: string;
  /** Without the bucket. */
  readonly name: string;
  readonly headers: IncomingMessage["headers"];
  /** The how-manieth request of this method. */
  readonly nth: number;
}

/**
 * fine: as it should be · a number: answered with that status, nothing done · lost: done, and the connection is cut ·
 * unheard: not done, and the connection is cut · done-but-500: done, and answered with 500
 */
export type Fault = "fine" | "lost" | "unheard" | "done-but-500" | number;

export interface S3ServerOptions {
  readonly script?: (request: S3Request) => Fault;
  /** What a careless implementation leaves out. */
  readonly ignores?: readonly ("if-none-match" | "if-match" | "delete-if-match")[];
  readonly pageSize?: number;
  /** The server's own clock. */
  readonly now?: () => number;
}

interface Stored {
  readonly body: string;
  readonly etag: string;
  readonly modified: number;
}

const BUCKET = "ledger";
const ALLOWED_SKEW_MS = 15 * 60_000;

export async function startS3(options: S3ServerOptions = {}) {
  const objects = new Map<string, Stored>();
  const requests: S3Request[] = [];
  const skewedRequests: string[] = [];
  const writes: string[] = [];
  const counts = new Map<string, number>();
  const state = { script: options.script ?? (() => "fine" as Fault) };
  const now = options.now ?? Date.now;

  const server = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (chunk) => {
      body += chunk;
    });
    incoming.on("end", () => handle(incoming, response, body));
  });

  function handle(incoming: IncomingMessage, response: ServerResponse, body: string): unknown {
    const url = new URL(incoming.url ?? "/", "http://s3");
    const method = incoming.method ?? "GET";
    const nth = (counts.get(method) ?? 0) + 1;
    counts.set(method, nth);
    const name = decodeURIComponent(url.pathname.replace(`/${BUCKET}`, "").replace(/^\//, ""));
    const request: S3Request = { method, name, headers: incoming.headers, nth };
    requests.push(request);
    response.setHeader("date", new Date(now()).toUTCString());
    if (
      !/^AWS4-HMAC-SHA256 Credential=\S+\/s3\/aws4_request, SignedHeaders=\S+, Signature=[0-9a-f]{64}$/.test(
        incoming.headers.authorization ?? "",
      )
    )
      return answer(response, 403, "AccessDenied");
    const skewed = skewOf(incoming.headers);
    if (skewed !== null) return refuseTime(response, skewed);
    if (!url.pathname.startsWith(`/${BUCKET}`)) return answer(response, 404, "NoSuchBucket");
    const fault = state.script(request);
    if (fault === "unheard") return incoming.socket.destroy();
    if (typeof fault === "number")
      return answer(response, fault, fault === 409 ? "ConditionalRequestConflict" : "SlowDown");
    const act = method === "PUT" ? put : method === "DELETE" ? remove : name === "" ? list : get;
    if (fault === "fine") return act(response, name, body, incoming.headers, url);
    // Done, but nobody hears of it as it was.
    act({ setHeader: () => {}, writeHead: () => ({ end: () => {} }) } as never, name, body, incoming.headers, url);
    return fault === "lost" ? incoming.socket.destroy() : answer(response, 500, "InternalError");
  }

  /** As Amazon checks it, before anything else is done; a request without the header was signed by somebody else. */
  function skewOf({ "x-amz-date": stamp, authorization }: IncomingMessage["headers"]): string | null {
    if (typeof stamp !== "string") return null;
    const sameDay = authorization?.includes(`/${stamp.slice(0, 8)}/`) === true;
    const iso = stamp.replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\dZ)$/, "$1-$2-$3:$4:$5");
    return sameDay && Math.abs(Date.parse(iso) - now()) <= ALLOWED_SKEW_MS ? null : stamp;
  }

  function refuseTime(response: ServerResponse, stamp: string): void {
    skewedRequests.push(stamp);
    const serverTime = new Date(now()).toISOString();
    response.setHeader("content-type", "application/xml");
    response
      .writeHead(403)
      .end(
        `<?xml version="1.0"?><Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message><RequestTime>${stamp}</RequestTime><ServerTime>${serverTime}</ServerTime><MaxAllowedSkewMilliseconds>${ALLOWED_SKEW_MS}</MaxAllowedSkewMilliseconds></Error>`,
      );
  }

  type Act = (
    response: ServerResponse,
    name: string,
    body: string,
    headers: IncomingMessage["headers"],
    url: URL,
  ) => void;

  const put: Act = (response, name, body, headers) => {
    const found = objects.get(name);
    const ignored = options.ignores ?? [];
    if (headers["if-none-match"] === "*" && found !== undefined && !ignored.includes("if-none-match"))
      return answer(response, 412, "PreconditionFailed");
    const wanted = headers["if-match"];
    if (wanted !== undefined && !ignored.includes("if-match")) {
      if (found === undefined) return answer(response, 404, "NoSuchKey");
      if (found.etag !== wanted) return answer(response, 412, "PreconditionFailed");
    }
    const etag = `"${createHash("md5").update(body).digest("hex")}"`;
    objects.set(name, { body, etag, modified: now() });
    writes.push(name);
    response.setHeader("etag", etag);
    response.writeHead(200).end();
  };

  const get: Act = (response, name) => {
    const found = objects.get(name);
    if (found === undefined) return answer(response, 404, "NoSuchKey");
    response.setHeader("etag", found.etag);
    response.setHeader("last-modified", new Date(found.modified).toUTCString());
    response.writeHead(200).end(found.body);
  };

  const remove: Act = (response, name, _body, headers) => {
    const wanted = headers["if-match"];
    const conditional = wanted !== undefined && !(options.ignores ?? []).includes("delete-if-match");
    if (conditional && objects.get(name)?.etag !== wanted) return answer(response, 412, "PreconditionFailed");
    objects.delete(name);
    response.writeHead(204).end();
  };

  const list: Act = (response, _name, _body, _headers, url) => {
    const prefix = url.searchParams.get("prefix") ?? "";
    const after = url.searchParams.get("continuation-token") ?? "";
    const names = [...objects.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    const page = names.slice(0, options.pageSize ?? 1_000);
    const more = names.length > page.length;
    const items = page.map(
      (name) => `<Contents><Key>${xml(name)}</Key><ETag>${xml(objects.get(name)?.etag ?? "")}</ETag></Contents>`,
    );
    const next = more ? `<NextContinuationToken>${xml(page.at(-1) ?? "")}</NextContinuationToken>` : "";
    response.setHeader("content-type", "application/xml");
    response
      .writeHead(200)
      .end(
        `<?xml version="1.0"?><ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${items.join("")}</ListBucketResult>`,
      );
  };

  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    endpoint,
    url: `s3://${BUCKET}/agents`,
    objects,
    requests,
    /** The times in requests that were refused for it. */
    skewedRequests,
    /** The names of the objects that were written, in order. */
    writes,
    script: (script: (request: S3Request) => Fault) => {
      state.script = script;
      counts.clear();
    },
    /** Changes an object behind everybody's back. */
    alter(name: string, change: (body: string) => string) {
      const found = objects.get(name);
      if (found === undefined) throw new Error(`there is no ${name}`);
      const body = change(found.body);
      objects.set(name, { ...found, body, etag: `"${createHash("md5").update(body).digest("hex")}"` });
    },
    close: () =>
      new Promise<void>((closed) => {
        server.closeAllConnections();
        server.close(() => closed());
      }),
  };
}

function answer(response: ServerResponse, status: number, code: string): void {
  response.setHeader("content-type", "application/xml");
  response
    .writeHead(status)
    .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>scripted &amp; said</Message></Error>`);
}

function xml(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
}
