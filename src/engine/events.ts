/** What the engine tells those who watch. No event carries an input, a result or a key part (K6). */
import type { LedgerRecord } from "../core/record.ts";
import { redact } from "../core/redact.ts";
import { outside } from "./context.ts";

/** `agent`: who made the attempt that the event is about, or the call that was answered. Absent: nobody was named. */
export type EngineEvent =
  | {
      readonly type: "executed";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly attempt: number;
      readonly ms: number;
    }
  | {
      readonly type: "replayed";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly attempt: number;
    }
  /** An intent is in the outbox. */
  | {
      readonly type: "enqueued";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly created: boolean;
    }
  /**
   * Seen or written in the caller's own transaction: true for others only if that commits, which the engine is not
   * told. The other events are about what is committed.
   */
  | {
      readonly type: "in_transaction";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly what: "executed" | "replayed" | "conflict" | "enqueued";
    }
  | { readonly type: "in_flight"; readonly action: string; readonly key: string; readonly agent?: string }
  | {
      readonly type: "failed";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly attempt: number;
      readonly final: boolean;
    }
  | {
      readonly type: "unknown";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly attempt: number;
      readonly why: string;
    }
  | {
      readonly type: "conflict";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly differs: readonly string[];
    }
  | {
      readonly type: "settled";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly as: "done" | "not-done" | "failed";
      readonly how: "probe" | "resolve" | "late-success";
    }
  /** Its record was emptied on purpose: the next call runs it. */
  | { readonly type: "forgotten"; readonly action: string; readonly key: string; readonly agent?: string }
  | {
      readonly type: "lease_lost";
      readonly action: string;
      readonly key: string;
      readonly agent?: string;
      readonly attempt: number;
    }
  /** Two successes with different results under one key: the effect happened twice. */
  | { readonly type: "duplicate_detected"; readonly action: string; readonly key: string; readonly agent?: string }
  /** Run without the ledger, because the store was down and the action asked for it. */
  | { readonly type: "bypassed"; readonly action: string; readonly key: string; readonly agent?: string }
  /** The effect happened and the ledger could not be told; it is being told again. */
  | { readonly type: "confirm_delayed"; readonly action: string; readonly key: string; readonly agent?: string }
  | { readonly type: "store_down"; readonly store: string; readonly error: unknown }
  | { readonly type: "store_up"; readonly store: string }
  /** A record that cannot be read was met; said once for each. It guards its key still: calls for it are refused. */
  | { readonly type: "damaged"; readonly key: string; readonly message: string }
  | { readonly type: "warning"; readonly code: string; readonly action: string; readonly message: string };

export function unknownEvent(record: LedgerRecord): EngineEvent {
  const { action, key, attempt, why } = record;
  return { type: "unknown", action, key, ...by(record), attempt, why: why ?? "" };
}

/** Work was added, or will have been when the caller's transaction commits: worth a look, now and for a while. */
export function isEnqueued(event: EngineEvent): event is Extract<EngineEvent, { action: string }> {
  return event.type === "enqueued" || (event.type === "in_transaction" && event.what === "enqueued");
}

/** The agent of a call or a record, as events have it. */
export function by({ agent }: { readonly agent: string | null }): { readonly agent?: string } {
  return agent === null ? NOBODY : { agent };
}

const NOBODY = Object.freeze({});

/** What the events of a call begin with. */
export function about(call: {
  readonly definition: { readonly name: string };
  readonly key: string;
  readonly agent: string | null;
}) {
  return { action: call.definition.name, key: call.key, ...by(call) };
}

export type EventListener = (event: EngineEvent) => void;

export class Events {
  readonly #listeners = new Set<EventListener>();

  on(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Nobody listens, most of the time: what happens in every call need not even be put into words then. */
  get watched(): boolean {
    return this.#listeners.size > 0;
  }

  emit(event: EngineEvent): void {
    for (const listener of this.#listeners) {
      // Nobody waits for a listener: what it calls, such as close(), is not called by the attempt it hears of.
      unharmed("an event listener", () => outside(listener, event));
    }
  }
}

/** A watcher's bug must not touch the effect it watches, nor stay hidden; an async one fails later, and likewise. */
function unharmed(who: string, call: () => unknown): void {
  const tell = (error: unknown) =>
    process.emitWarning(`nevertwice: ${who} threw: ${redact(String(error))}`, { type: "NevertwiceWarning" });
  try {
    const answer = call();
    if (answer instanceof Promise) answer.catch(tell);
  } catch (error) {
    tell(error);
  }
}

// An action with thousands of bad keys warns once, not thousands of times.
const MAX_REMEMBERED = 1_000;

/** Each warning is said once per action, code and what it is about. */
export class Warnings {
  readonly #events: Events;
  readonly #sink: ((warning: { code: string; action: string; message: string }) => void) | undefined;
  readonly #said = new Set<string>();

  constructor(events: Events, sink?: (warning: { code: string; action: string; message: string }) => void) {
    this.#events = events;
    this.#sink = sink;
  }

  said(code: string, action: string, about = ""): boolean {
    return this.#said.has(`${code} ${action} ${about}`);
  }

  warn(code: string, action: string, message: string, about = ""): void {
    if (this.said(code, action, about) || this.#said.size >= MAX_REMEMBERED) return;
    this.#said.add(`${code} ${action} ${about}`);
    this.#events.emit({ type: "warning", code, action, message });
    const sink = this.#sink;
    if (sink) unharmed("onWarning", () => outside(sink, { code, action, message }));
    else process.emitWarning(message, { type: "NevertwiceWarning", code: `NEVERTWICE_${code}` });
  }
}
