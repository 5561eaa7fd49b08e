/** The service over a ledger of the test's own, on a real port, and a client that speaks HTTP to it. */
import { onTestFinished } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type NevertwiceOptions, nevertwice, servicesOf } from "../../src/nevertwice.ts";
import type { Caller } from "../../src/serve/attempts.ts";
import { type HttpServiceOptions, serveHttp } from "../../src/serve/http-service.ts";
import { operationsOf } from "../../src/serve/operations.ts";

export const TOKEN = "a-token-for-tests-0123456789";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the answer should hold
export type Answer = any;

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Answer;
}

export interface Served {
  readonly url: string;
  readonly notes: string[];
  /** The answer to a POST of JSON. */
  post(name: string, body: unknown): Promise<Answered>;
  /** The same, where it has to be accepted. */
  ok(name: string, body: unknown): Promise<Answer>;
  raw(path: string, init: RequestInit): Promise<Answered>;
  close(): Promise<void>;
}

type Options = Omit<NevertwiceOptions, "store"> & Partial<Pick<HttpServiceOptions, "listen" | "allowHosts" | "limits">>;

export async function served(store: Store, options: Options = {}): Promise<Served> {
  const { listen = { host: "127.0.0.1", port: 0 }, allowHosts = [], limits = {}, ...rest } = options;
  const notes: string[] = [];
  const nt = nevertwice({ sweep: false, onWarning: () => {}, ...rest, store: unclosed(store) });
  const note = (text: string) => void notes.push(text);
  const service = await serveHttp({ services: servicesOf(nt), token: TOKEN, listen, allowHosts, limits, note });
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= service.close().then(() => nt.close());
    return closing;
  };
  onTestFinished(close);
  const raw = (path: string, init: RequestInit) => answered(fetch(`${service.url}${path}`, init));
  const post = (name: string, body: unknown) => raw(`/v1/${name}`, posted(body));
  return { url: service.url, notes, raw, post, ok: (name, body) => accepted(post(name, body)), close };
}

export const HEADERS = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

export function posted(body: unknown): RequestInit {
  return { method: "POST", headers: HEADERS, body: typeof body === "string" ? body : JSON.stringify(body) };
}

async function answered(asked: Promise<Response>): Promise<Answered> {
  const response = await asked;
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function accepted(asked: Promise<Answered>): Promise<Answer> {
  const { status, body } = await asked;
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
  return body;
}

/** The operations without HTTP, for a caller that stays. */
export function operations(store: Store, options: Omit<NevertwiceOptions, "store"> = {}) {
  const nt = nevertwice({ sweep: false, onWarning: () => {}, ...options, store: unclosed(store) });
  onTestFinished(() => nt.close());
  const table = operationsOf(servicesOf(nt));
  const ask = async (name: string, body: object, caller: Caller = STAYS): Promise<Answer> => {
    const operation = table.find((one) => one.name === name);
    if (operation === undefined) throw new Error(`there is no operation ${name}`);
    return operation.run(body, caller);
  };
  return { nt, ask };
}

export const STAYS: Caller = { gone: () => false, signal: new AbortController().signal };

/** The store is the test's: other programs use it when the service has ended. */
function unclosed(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
