/**
 * Who may come in, judged by the head of a request. A web page must not reach the service: not by its own origin, and not
 * by a host name of its own that it lets point at this host (DNS rebinding). Programs have to know the token.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

export interface Refused {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

export interface DoorOptions {
  readonly token: string;
  /** Names by which clients may call it; null: any (a Unix socket, which no web page reaches). */
  readonly hosts: ReadonlySet<string> | null;
}

export const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1"]);

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?$/i;

export class Door {
  readonly #options: DoorOptions;
  readonly #digest: Buffer;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#digest = digestOf(options.token);
  }

  /** Null: it may come in. */
  refuses(headers: IncomingHttpHeaders, { open }: { readonly open: boolean }): Refused | null {
    const { hosts } = this.#options;
    const host = hostOf(headers.host);
    if (hosts !== null && (host === null || !hosts.has(host)))
      return {
        status: 403,
        code: "FORBIDDEN",
        message: `the host ${JSON.stringify(headers.host ?? "")} is not served here. Call it by ${[...hosts].join(", ")}, or start it with --allow-host <name>.`,
      };
    if (headers.origin !== undefined)
      return {
        status: 403,
        code: "FORBIDDEN",
        message: "requests of web pages are refused (they have an Origin). Call it from a program.",
      };
    if (open || this.#knows(headers.authorization)) return null;
    return {
      status: 401,
      code: "UNAUTHORIZED",
      message: "the token is missing or wrong. Send it as: Authorization: Bearer <token>.",
    };
  }

  /** Only of a request with a body. */
  refusesBody(headers: IncomingHttpHeaders, mostBytes: number): Refused | null {
    const encoding = headers["content-encoding"];
    if (!JSON_TYPE.test(headers["content-type"] ?? "") || (encoding ?? "identity").toLowerCase() !== "identity")
      return {
        status: 415,
        code: "UNSUPPORTED",
        message: "the body has to be JSON: send it as content-type: application/json, in UTF-8, without an encoding.",
      };
    return Number(headers["content-length"] ?? 0) > mostBytes ? tooLarge(mostBytes) : null;
  }

  /** In constant time, also where the lengths differ. */
  #knows(authorization: string | undefined): boolean {
    const [, token] = /^Bearer +(\S+)$/i.exec(authorization ?? "") ?? [];
    return timingSafeEqual(digestOf(token ?? ""), this.#digest) && token !== undefined;
  }
}

export function tooLarge(mostBytes: number): Refused {
  return {
    status: 413,
    code: "TOO_LARGE",
    message: `the body is larger than ${mostBytes} bytes. Keep what is large elsewhere, and send where it is.`,
  };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

function hostOf(host: string | undefined): string | null {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?$/i.exec(host ?? "") ?? [];
  return name === undefined ? null : name.replace(/^\[|\]$/g, "").toLowerCase();
}
