/** What a running attempt knows about itself, and how deep code gets at it. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type ProviderKeyFormat, providerKey } from "../core/provider-key.ts";

export interface Logger {
  debug(message: string, data?: unknown): void;
  info(message: string, data?: unknown): void;
  warn(message: string, data?: unknown): void;
  error(message: string, data?: unknown): void;
}

const nothing = () => {};
export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

export interface AttemptContext {
  /** The intent's key: hand it to a provider that honours idempotency keys. */
  readonly key: string;
  /** Whose intent it is; "" where it has no tenant. A worker of all tenants passes it on to the calls it makes. */
  readonly tenant: string;
  readonly attempt: number;
  readonly fence: number;
  /** Aborted when the attempt times out or loses its lease. */
  readonly signal: AbortSignal;
  /** The key in the form a provider takes. */
  providerKey(format?: ProviderKeyFormat): string;
  /** Epoch ms by which the attempt must have its answer. */
  readonly deadline: number;
  /** With `mark: "manual"`: await it right before the effect. What throws before it was surely not sent. */
  sent(): Promise<void>;
  readonly log: Logger;
}

const running = new AsyncLocalStorage<AttemptContext>();

/** The attempt this code runs in, so that a function deep below can pass its key on; undefined outside of one. */
export function currentAttempt(): AttemptContext | undefined {
  return running.getStore();
}

/** Arguments, not a closure around them: this is in every call. */
export function runAs<A extends unknown[], T>(context: AttemptContext, work: (...args: A) => T, ...args: A): T {
  return running.run(context, work, ...args);
}

/** What an attempt's context is made of. */
export interface AttemptParts {
  readonly attempt: Pick<AttemptContext, "key" | "tenant" | "attempt" | "fence">;
  readonly deadline: number;
  readonly log: Logger;
  /** Asked for its signal when somebody wants it. */
  readonly pulse: { readonly signal: AbortSignal };
  readonly sent: () => Promise<void>;
}

/** A class, not a literal: a getter in a literal makes every object of its own kind, slow to make and five times the size. */
class Context implements AttemptContext {
  readonly key: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly fence: number;
  declare readonly signal: AbortSignal;
  readonly providerKey: AttemptContext["providerKey"];
  readonly deadline: number;
  readonly sent: () => Promise<void>;
  readonly log: Logger;
  readonly #pulse: { readonly signal: AbortSignal };

  // On the object itself, where `{ ...ctx }` finds it.
  static readonly #SIGNAL: PropertyDescriptor & ThisType<Context> = {
    enumerable: true,
    get() {
      return this.#pulse.signal;
    },
  };

  constructor({ attempt: { key, tenant, attempt, fence }, deadline, log, pulse, sent }: AttemptParts) {
    this.key = key;
    this.tenant = tenant;
    this.attempt = attempt;
    this.fence = fence;
    this.providerKey = (format) => providerKey(key, format);
    this.deadline = deadline;
    this.sent = sent;
    this.log = log;
    this.#pulse = pulse;
    Object.defineProperty(this, "signal", Context.#SIGNAL);
  }
}

export function contextOf(parts: AttemptParts): AttemptContext {
  return new Context(parts);
}
