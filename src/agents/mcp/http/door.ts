/**
 * Who and what comes in over HTTP, judged by the head of a request alone: for which endpoint, under which host name, from
 * which page, in which form. What is not understood is refused: the server behind may understand it differently.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";

export interface DoorOptions {
  /** The server's. */
  readonly url: URL;
  /** The address the proxy listens on. */
  readonly host: string;
  /** Further host names by which clients may call it. */
  readonly allowHosts?: readonly string[];
  /** Origins of web pages that may call it, such as https://app.example.com. */
  readonly allowOrigins?: readonly string[];
  /** Names of the headers that say who calls. */
  readonly principal: readonly string[];
  readonly bodyBytes: number;
}

/** The head of a request, by shape. */
export interface RequestHead {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly headersDistinct: NodeJS.Dict<string[]>;
}

/** mcp: the guarded endpoint · discovery: metadata, read only · oauth: the endpoints of older authorization servers */
export type Route = "mcp" | "discovery" | "oauth";

export interface Admitted {
  readonly kind: "admitted";
  readonly route: Route;
  /** What the server is asked for: path and query, never a host. */
  readonly path: string;
  readonly search: string;
  /** What a page in a browser has to be told. */
  readonly cors: Readonly<Record<string, string>>;
}

export interface Turned {
  readonly kind: "refused";
  readonly status: number;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer of the door's own: to the question of a browser whether it may ask. */
export interface Preflight {
  readonly kind: "preflight";
  readonly headers: Readonly<Record<string, string>>;
}

const LOOPBACK: ReadonlySet<string> = new Set(["127.0.0.1", "localhost", "::1"]);

export class Door {
  readonly #options: DoorOptions;
  readonly #endpoint: string;
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #single: ReadonlySet<string>;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#endpoint = samePath(options.url.pathname);
    const names = [options.host, ...(options.allowHosts ?? [])].map((name) => name.toLowerCase());
    this.#hosts = new Set([...LOOPBACK, ...names]);
    this.#origins = new Set((options.allowOrigins ?? []).map((origin) => origin.toLowerCase()));
    this.#single = new Set([...SINGLE, ...options.principal.map((name) => name.toLowerCase())]);
  }

  admit(request: RequestHead): Admitted | Turned | Preflight {
    const { method = "GET", headers } = request;
    const target = targetOf(request.url ?? "");
    if (target === null) {
      return turned(
        400,
        "the request target must be a plain path and query, such as /mcp, without a host or dot segments",
      );
    }
    const stranger = this.#stranger(headers, target.path);
    if (stranger !== null) return stranger;
    const cors = corsOf(headers);
    if (
      method === "OPTIONS" &&
      headers["access-control-request-method"] !== undefined &&
      headers.origin !== undefined
    ) {
      return { kind: "preflight", headers: { ...cors, ...preflightOf(headers) } };
    }
    const ambiguous = this.#ambiguous(request) ?? this.#ambiguousQuery(target.search);
    if (ambiguous !== null) return turned(400, ambiguous);
    const route = this.#route(target.path);
    if (route === null) {
      return turned(404, `this proxy serves ${this.#options.url.pathname}, and the paths of OAuth discovery beside it`);
    }
    const methods = route === "mcp" ? ["GET", "POST", "DELETE"] : route === "oauth" ? ["GET", "POST"] : ["GET", "HEAD"];
    if (!methods.includes(method)) {
      return { ...turned(405, `${method} is not a method of this path`), headers: { allow: methods.join(", ") } };
    }
    const unread = method === "POST" ? this.#unreadable(headers, route) : withBody(headers);
    if (unread !== null) return unread;
    const path = (route === "mcp" ? this.#options.url.pathname : target.path) + target.search;
    return { kind: "admitted", route, path, search: target.search, cors };
  }

  #stranger(headers: IncomingHttpHeaders, path: string): Turned | null {
    const name = hostOf(headers.host);
    if (name === null || !this.#isServed(name)) {
      const add = name === null ? "" : ` (allow it with --allow-host ${name})`;
      return turned(403, `this proxy does not serve that host name${add}`);
    }
    const { origin } = headers;
    if (origin !== undefined && !this.#origins.has(origin.toLowerCase())) {
      return turned(403, "web pages of that origin may not call this proxy (allow one with --allow-origin)");
    }
    // A request that a page made without saying where it comes from. A person may follow a link to the login page.
    const site = headers["sec-fetch-site"];
    const foreign = site !== undefined && site !== "none" && site !== "same-origin";
    if (origin === undefined && foreign && path !== "/authorize")
      return turned(403, "web pages may not call this proxy");
    return null;
  }

  /**
   * A page in a browser may reach this address under a name of its own (DNS rebinding), never under an IP address that is
   * not its own. A proxy on a loopback address is meant for this host alone.
   */
  #isServed(name: string): boolean {
    return this.#hosts.has(name) || (!LOOPBACK.has(this.#options.host) && isIP(name) !== 0);
  }

  /** Fields that two programs may read in two ways. */
  #ambiguous({ headers, headersDistinct }: RequestHead): string | null {
    for (const name of Object.keys(headers)) {
      if (OVERRIDES.has(name)) return `the header ${name} is refused: it would make another request of this one`;
      // CGI and WSGI read an underscore in a name as a dash.
      const dashed = name.replaceAll("_", "-");
      if (dashed !== name && this.#single.has(dashed)) return `the header ${name} could be taken for ${dashed}`;
      if (this.#single.has(name) && (headersDistinct[name]?.length ?? 0) > 1) return `the header ${name} came twice`;
    }
    const coding = headers["transfer-encoding"];
    if (coding !== undefined && coding.toLowerCase() !== "chunked") return "the transfer coding is not just chunked";
    if (coding !== undefined && headers["content-length"] !== undefined) return "it has two lengths";
    return null;
  }

  /** JSON-RPC in a query, or another method by a query. The configured query is the operator's own. */
  #ambiguousQuery(search: string): string | null {
    if (search === "" || search === this.#options.url.search) return null;
    const names = search
      .slice(1)
      .split(/[&;]/)
      .map((pair) => decoded(pair.split("=")[0] as string).toLowerCase());
    const wrong = names.find((name) => QUERY_NAMES.has(name));
    return wrong === undefined ? null : `the query parameter ${wrong} is refused: a call belongs in the body of a POST`;
  }

  #route(path: string): Route | null {
    const same = samePath(path);
    if (same === this.#endpoint) return "mcp";
    if (OAUTH_PATHS.has(path)) return "oauth";
    const isDiscovery = path.startsWith("/.well-known/") || same.startsWith(`${this.#endpoint}/.well-known/`);
    return isDiscovery ? "discovery" : null;
  }

  #unreadable(headers: IncomingHttpHeaders, route: Route): Turned | null {
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding.trim().toLowerCase() !== "identity") {
      return turned(415, "a body with a content encoding cannot be read here: send it as it is");
    }
    const type = headers["content-type"] ?? "";
    const types = route === "oauth" ? [JSON_TYPE, FORM_TYPE] : [JSON_TYPE];
    if (!types.some((one) => one.test(type))) return turned(415, "content-type must be application/json, in UTF-8");
    if (Number(headers["content-length"] ?? 0) <= this.#options.bodyBytes) return null;
    return turned(413, `the body is longer than ${this.#options.bodyBytes} bytes`);
  }
}

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?$/i;
export const FORM_TYPE = /^application\/x-www-form-urlencoded[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?$/i;

/** What older clients ask an authorization server at the same origin for, without metadata. */
const OAUTH_PATHS: ReadonlySet<string> = new Set(["/authorize", "/token", "/register", "/revoke"]);

const OVERRIDES: ReadonlySet<string> = new Set(
  "x-http-method-override x-http-method x-method-override x-original-method x-original-url x-rewrite-url".split(" "),
);

const QUERY_NAMES: ReadonlySet<string> = new Set(
  "jsonrpc method _method params httpmethod x-http-method-override x-http-method x-method-override".split(" "),
);

/** At most one of each. */
const SINGLE: readonly string[] =
  "host origin authorization content-type content-encoding content-length transfer-encoding mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id".split(
    " ",
  );

function turned(status: number, message: string): Turned {
  return { kind: "refused", status, message };
}

function withBody(headers: IncomingHttpHeaders): Turned | null {
  const none = headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0;
  return none ? null : turned(400, "only a POST may have a body here");
}

/** Origin form only (RFC 9112, 3.2.1). null: anything else, or a path that servers resolve in different ways. */
function targetOf(target: string): { readonly path: string; readonly search: string } | null {
  const [, path, search = ""] = /^(\/[^?#\\]*)(\?[^#\\]*)?$/.exec(target) ?? [];
  if (path === undefined || !/^[\x21-\x7e]+$/.test(target) || path.includes("//")) return null;
  // Encoded: slashes, backslashes, NUL and other controls, and the sign of the encoding itself.
  if (/%(?:2f|5c|25|[01][0-9a-f]|7f)/i.test(path) || /%(?![0-9a-f]{2})/i.test(path)) return null;
  return path.split("/").some((part) => /^\.{1,2}(?:;|$)/.test(decoded(part))) ? null : { path, search };
}

function decoded(text: string): string {
  return text.replace(/%([0-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** One text for all that name the same path to a lenient server: in any case, encoded or not, with a slash at the end. */
function samePath(path: string): string {
  return decoded(path).toLowerCase().replace(/\/+$/, "");
}

function hostOf(host: string | undefined): string | null {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?$/i.exec(host ?? "") ?? [];
  return name === undefined ? null : name.replace(/^\[|\]$/g, "").toLowerCase();
}

/** Only for origins that were let in. */
function corsOf({ origin }: IncomingHttpHeaders): Record<string, string> {
  if (origin === undefined) return {};
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after",
    vary: "origin",
  };
}

function preflightOf(headers: IncomingHttpHeaders): Record<string, string> {
  const asked = headers["access-control-request-headers"];
  return {
    "access-control-allow-methods": "GET, POST, DELETE",
    ...(asked !== undefined && /^[\w\-, ]*$/.test(asked) && { "access-control-allow-headers": asked }),
    ...(headers["access-control-request-private-network"] === "true" && {
      "access-control-allow-private-network": "true",
    }),
    "access-control-max-age": "600",
  };
}
