/** What a running attempt knows about itself, and how deep code gets at it. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type ProviderKeyFormat, providerKey } from "../core/key/provider-key.ts";

export interface Logger {
  debug(message: string, data?: unknown): void;
  info(message: string, data?: unknown): void;
  warn(message: string, data?: unknown): void;
  error(message: string, data?: unknown): void;
}

const nothing = () => {};
export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** `Tx`: the type of the transaction that callers pass. */
export interface AttemptContext<Tx = unknown> {
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
  /**
   * The transaction that the caller passed, `action(input, { tx })`: write through it, and the write commits with the record or
   * not at all. undefined where none was passed, and in a worker.
   */
  readonly tx: Tx | undefined;
}

const running = new AsyncLocalStorage<Context | Probing>();

/** The attempt this code runs in, so that a function deep below can pass its key on; undefined outside of one. */
export function currentAttempt(): AttemptContext | undefined {
  const inside = running.getStore();
  return inside instanceof Probing ? inside.outer : inside;
}

/** The attempt this code runs in takes as long as it takes from now on: heartbeats keep its lease. */
export function withoutTimeout(): void {
  const attempt = currentAttempt();
  if (attempt instanceof Context) Context.pulseOf(attempt).limit?.(Number.POSITIVE_INFINITY);
}

/** Arguments, not a closure around them: this is in every call. */
export function runAs<A extends unknown[], T>(context: Context, work: (...args: A) => T, ...args: A): T {
  return running.run(context, work, ...args);
}

/** A probe is no attempt, but close() waits for it as it does for one. */
export async function probeAs<T>(owner: object, work: () => T | Promise<T>): Promise<T> {
  const probing = new Probing(owner, Context.liveAround());
  try {
    return await running.run(probing, work);
  } finally {
    probing.ended = true;
  }
}

/** As if it were called from outside of any attempt. */
export function outside<A extends unknown[], T>(work: (...args: A) => T, ...args: A): T {
  return running.getStore() === undefined ? work(...args) : running.exit(work, ...args);
}

/** Whether this code runs inside an attempt, or a probe, of this owner that has not ended. */
export function insideAttemptOf(owner: object): boolean {
  const inside = running.getStore();
  if (inside instanceof Probing && !inside.ended && inside.owner === owner) return true;
  for (let one = Context.liveAround(); one !== undefined; one = Context.liveAround(one)) {
    if (Context.ownerOf(one) === owner) return true;
  }
  return false;
}

interface AttemptPulse {
  readonly signal: AbortSignal;
  readonly ended: boolean;
  limit?(timeoutMs: number): void;
}

/** What an attempt's context is made of. */
export interface AttemptParts {
  readonly attempt: Pick<AttemptContext, "key" | "tenant" | "attempt" | "fence">;
  readonly deadline: number;
  readonly log: Logger;
  /** Asked for its signal when somebody wants it. */
  readonly pulse: AttemptPulse;
  readonly sent: () => Promise<void>;
  /** Whose attempt it is: one for each nevertwice(). */
  readonly owner: object;
  readonly tx?: unknown;
}

/** A class, not a literal: a getter in a literal makes every object of its own kind, slow to make and five times the size. */
export class Context implements AttemptContext {
  readonly key: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly fence: number;
  declare readonly signal: AbortSignal;
  readonly providerKey: AttemptContext["providerKey"];
  readonly deadline: number;
  readonly sent: () => Promise<void>;
  readonly log: Logger;
  readonly tx: unknown;
  readonly #pulse: AttemptPulse;
  readonly #owner: object;
  #outer: Context | undefined;

  /** The nearest attempt around this code, or around another, that has not ended. What has ended is unlinked, so that chains stay short. */
  static liveAround(inner?: Context): Context | undefined {
    const inside = inner === undefined ? running.getStore() : inner.#outer;
    let live = inside instanceof Probing ? inside.outer : inside;
    for (; live !== undefined; live = live.#outer) if (!live.#pulse.ended) break;
    if (inner !== undefined) inner.#outer = live;
    return live;
  }

  static pulseOf(context: Context): AttemptPulse {
    return context.#pulse;
  }

  static ownerOf(context: Context): object {
    return context.#owner;
  }

  // On the object itself, where `{ ...ctx }` finds it.
  static readonly #SIGNAL: PropertyDescriptor & ThisType<Context> = {
    enumerable: true,
    get() {
      return this.#pulse.signal;
    },
  };

  constructor({ attempt: { key, tenant, attempt, fence }, deadline, log, pulse, sent, owner, tx }: AttemptParts) {
    this.key = key;
    this.tenant = tenant;
    this.attempt = attempt;
    this.fence = fence;
    this.providerKey = (format) => providerKey(key, format);
    this.deadline = deadline;
    this.sent = sent;
    this.log = log;
    this.tx = tx;
    this.#pulse = pulse;
    this.#owner = owner;
    this.#outer = Context.liveAround();
    if (this.#outer !== undefined) Context.liveAround(this.#outer);
    Object.defineProperty(this, "signal", Context.#SIGNAL);
  }
}

/** Stands in an attempt's place while its provider is asked. */
class Probing {
  readonly owner: object;
  readonly outer: Context | undefined;
  ended = false;

  constructor(owner: object, outer: Context | undefined) {
    this.owner = owner;
    this.outer = outer;
  }
}

export function contextOf(parts: AttemptParts): Context {
  return new Context(parts);
}
