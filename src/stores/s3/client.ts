/**
 * The five requests the ledger makes of an object store. Each is tried a bounded number of times, with jitter, where
 * trying again can help; what a lost reply may have done is for the caller to find out.
 */
import { configError, messageOf, NevertwiceError } from "../../core/errors.ts";
import { deadline } from "../../engine/real-timers.ts";
import { type S3Clock, SET_THE_CLOCK } from "./clock.ts";
import type { S3Place } from "./location.ts";
import { encodePart, type S3Credentials, signed } from "./signature.ts";

export type FetchLike = (
  url: string,
  init: {
    method: string;
    headers: Record<string, string>;
    body?: string;
    /** A redirect is not followed: it is answered, and refused. */
    redirect: "manual";
    signal: AbortSignal;
  },
) => Promise<Response>;

export interface S3ClientOptions {
  readonly place: S3Place;
  /** Null: `fetch` signs by itself. */
  readonly credentials: (() => Promise<S3Credentials>) | null;
  readonly fetch: FetchLike;
  readonly timeoutMs: number;
  readonly random: () => number;
  readonly pause: (ms: number) => Promise<void>;
  /** The server's time: read from each answer, and what requests are signed with. */
  readonly clock: S3Clock;
}

export interface S3Object {
  readonly text: string;
  readonly etag: string;
  /** How long ago it was written, at least, by the server's own clock; 0 where it does not say. */
  readonly ageMs: number;
}

export interface Listed {
  readonly name: string;
  readonly etag: string;
}

export type Condition = { readonly ifMatch: string } | { readonly ifNoneMatch: "*" };

export type PutAnswer =
  | { readonly kind: "written"; readonly etag: string; readonly retried: boolean }
  /** Another state than the condition wants; after a retry it may be our own. */
  | { readonly kind: "refused"; readonly retried: boolean };

const TRIES = 7;
const FIRST_PAUSE_MS = 40;
const LONGEST_PAUSE_MS = 2_000;
/** HTTP dates are whole seconds: an age is uncertain by one. */
const SECOND_MS = 1_000;
/** A signature whose time differs by more may be refused for it: Amazon allows 15 minutes, others less. */
const SIGNED_OFF_MS = 60_000;

interface Sent {
  readonly response: Response;
  readonly text: string;
  /** The time in its signature; null: `fetch` signed it. */
  readonly signedAt: number | null;
}

interface Answer {
  readonly response: Response;
  readonly text: string;
  /** An earlier try had no answer, or a bad one: it may have been carried out. */
  readonly retried: boolean;
}

export class S3Client {
  readonly #options: S3ClientOptions;

  constructor(options: S3ClientOptions) {
    this.#options = options;
  }

  async get(name: string): Promise<S3Object | null> {
    const { response, text } = await this.#request("GET", name, {});
    if (response.status === 404) {
      if (/NoSuchBucket/.test(text)) throw this.#refused(response, text);
      return null;
    }
    if (!response.ok) throw this.#refused(response, text);
    return { text, etag: response.headers.get("etag") ?? "", ageMs: ageOf(response) };
  }

  async put(name: string, body: string, condition: Condition): Promise<PutAnswer> {
    const headers: Record<string, string> = {
      "content-type": "application/json",
      ...("ifMatch" in condition ? { "if-match": condition.ifMatch } : { "if-none-match": "*" }),
    };
    const { response, text, retried } = await this.#request("PUT", name, headers, body);
    // 404: If-Match on an object that is not there any more.
    if (response.status === 412 || (response.status === 404 && !/NoSuchBucket/.test(text)))
      return { kind: "refused", retried };
    if (!response.ok) throw this.#refused(response, text);
    return { kind: "written", etag: response.headers.get("etag") ?? "", retried };
  }

  /** True: it is gone. False: it was another one than expected, or the server does not know the condition. */
  async remove(name: string, etag: string | null): Promise<boolean> {
    const { response } = await this.#request("DELETE", name, etag === null ? {} : { "if-match": etag });
    return response.ok || response.status === 404;
  }

  /** One page of up to 1 000 names, in order. */
  async list(prefix: string, after: string | null): Promise<{ items: Listed[]; next: string | null }> {
    const query = { "list-type": "2", prefix, ...(after !== null && { "continuation-token": after }) };
    const { response, text } = await this.#request("GET", "", {}, undefined, query);
    if (!response.ok) throw this.#refused(response, text);
    const items = [...text.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, item = ""]) => ({
      name: tag(item, "Key"),
      etag: tag(item, "ETag"),
    }));
    const more = tag(text, "IsTruncated") === "true";
    return { items, next: more ? tag(text, "NextContinuationToken") : null };
  }

  async #request(
    method: string,
    name: string,
    headers: Record<string, string>,
    body?: string,
    query: Record<string, string> = {},
  ): Promise<Answer> {
    let last: unknown;
    for (let tries = 1; tries <= TRIES; tries += 1) {
      if (tries > 1) await this.#options.pause(this.#backoffMs(tries));
      try {
        const { response, text } = await this.#inTime(() => this.#send(method, name, headers, body, query));
        if (response.status >= 300 && response.status < 400) throw this.#redirected(response, text);
        if (!worthAnother(response.status)) return { response, text, retried: tries > 1 };
        last = this.#refused(response, text);
      } catch (error) {
        if (error instanceof NevertwiceError) throw error;
        last = error;
      }
    }
    throw new NevertwiceError(
      "STORE_UNAVAILABLE",
      `the object store ${this.#options.place.base} did not answer ${TRIES} times: ${said(last)} Nothing was run by this call. Check the endpoint, and the way to it.`,
      { cause: last },
    );
  }

  /**
   * A request that was refused for the time in its signature is repeated once, at once, with the server's own. That is safe
   * for any request: a signature is checked before anything is done.
   */
  async #inTime(send: () => Promise<Sent>): Promise<Sent> {
    const first = await send();
    const { status } = first.response;
    const refused = status === 401 || status === 403 || tag(first.text, "Code") === "RequestTimeTooSkewed";
    const off = first.signedAt === null ? 0 : Math.abs(this.#options.clock.now() - first.signedAt);
    return refused && off > SIGNED_OFF_MS ? send() : first;
  }

  async #send(
    method: string,
    name: string,
    headers: Record<string, string>,
    body: string | undefined,
    query: Record<string, string>,
  ): Promise<Sent> {
    const { place, credentials, fetch, timeoutMs, clock } = this.#options;
    const path = name === "" ? "" : `/${name.split("/").map(encodePart).join("/")}`;
    const search = Object.entries(query)
      .map(([key, value]) => `${encodePart(key)}=${encodePart(value)}`)
      .join("&");
    const url = new URL(`${place.base}${path || "/"}${search === "" ? "" : `?${search}`}`);
    const own = credentials === null ? null : await credentials();
    const signedAt = own === null ? null : clock.now();
    const all =
      own === null || signedAt === null
        ? headers
        : signed({ method, url, headers, body: body ?? "" }, own, place.region, new Date(signedAt));
    const sentAt = clock.monotonic();
    const { signal, done } = deadline(timeoutMs);
    const { response, text } = await answerOf(
      fetch(url.href, {
        method,
        headers: all,
        ...(body !== undefined && { body }),
        // Wherever it leads, a record and a signature would go there.
        redirect: "manual",
        signal,
      }),
    ).finally(done);
    // A refusal for the time says the server's own; the header may be that of a proxy.
    const date = Date.parse(tag(text, "ServerTime") || (response.headers.get("date") ?? ""));
    if (Number.isFinite(date)) clock.observe(date, sentAt, clock.monotonic());
    return { response, text, signedAt };
  }

  #backoffMs(tries: number): number {
    const ceiling = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1));
    return ceiling * (0.5 + this.#options.random() / 2);
  }

  #redirected({ status, headers }: Response, text: string): NevertwiceError {
    const { base } = this.#options.place;
    const to = tag(text, "Endpoint") || headers.get("location") || "another address";
    return configError(
      `the object store ${base} answered ${status} and points to ${to}. Redirects are not followed. Name the bucket's own region (?region=…) or endpoint (?endpoint=https://…).`,
    );
  }

  #refused(response: Response, text: string): NevertwiceError {
    const { base } = this.#options.place;
    const code = tag(text, "Code") || String(response.status);
    const said = `${response.status} ${code}${tag(text, "Message") === "" ? "" : `: ${tag(text, "Message")}`}`;
    if (/^(RequestTimeTooSkewed|RequestExpired)$/.test(code)) return this.#skewed(said);
    if (response.status === 403 || response.status === 401)
      return configError(
        `the object store ${base} refused access (${said}). Check the credentials and the region; the ledger needs GetObject, PutObject, DeleteObject and ListBucket.`,
      );
    if (response.status === 404)
      return configError(`the object store ${base} has no such bucket (${said}). Make it, or name another one.`);
    if (response.status === 501 || response.status === 400)
      return configError(`the object store ${base} does not understand a request of the ledger (${said}).`);
    return new NevertwiceError("STORE_UNAVAILABLE", `the object store ${base} answered ${said}.`);
  }

  #skewed(said: string): NevertwiceError {
    const { place, clock, credentials } = this.#options;
    const skew = clock.describeSkew() ?? "the difference to its clock is not known, as its answer names no time";
    const signing =
      credentials === null
        ? " The fetch that was passed to s3Store signs with the host's clock; with credentials instead, requests are signed with the object store's time."
        : " A second request, signed with the time that it named, was refused too.";
    return configError(
      `the object store ${place.base} refused the time of a request (${said}): ${skew}. Nothing was written by it.${signing} ${SET_THE_CLOCK}.`,
    );
  }
}

async function answerOf(asked: Promise<Response>): Promise<{ response: Response; text: string }> {
  const response = await asked;
  return { response, text: await response.text() };
}

/** `fetch` says no more than that it failed; why is in its cause. */
function said(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: unknown };
  const text = `${messageOf(error)}${cause instanceof Error ? ` (${messageOf(cause)})` : ""}`;
  return text.endsWith(".") ? text : `${text}.`;
}

/** 409: two conditional writes met, and S3 says to try again. */
function worthAnother(status: number): boolean {
  return status === 409 || status === 429 || status === 408 || status >= 500 ? status !== 501 : false;
}

function ageOf({ headers }: Response): number {
  const [now, written] = [headers.get("date"), headers.get("last-modified")].map((text) => Date.parse(text ?? ""));
  const age = (now as number) - (written as number) - SECOND_MS;
  return Number.isFinite(age) ? Math.max(0, age) : 0;
}

function tag(xml: string, name: string): string {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? "";
  return text
    .replace(/&quot;/g, '"')
    .replace(/&#34;/g, '"')
    .replace(/&apos;|&#39;/g, "'")
    .replace(/&lt;/g, "<")
    .replace(/&gt;/g, ">")
    .replace(/&amp;/g, "&");
}
