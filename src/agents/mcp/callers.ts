/**
 * What the proxy knows of each caller: the tools the server shows it, and a connection to ask with. A server may show each
 * caller other tools, and what one caller's credentials find says nothing about what another's have done.
 */
import type { Ask } from "./proxied-tasks.ts";
import type { ToolInfo } from "./rpc.ts";

export interface Caller {
  readonly tools: Map<string, ToolInfo>;
  /** Whether these are all its tools. */
  listed: boolean;
  /** Over the connection of its latest call: an earlier one may be gone. null: it has made none here. */
  ask: Ask | null;
}

// The least recent are forgotten: their tools are asked for again, and their doubts wait until they call again.
const MOST_CALLERS = 1_000;

export class Callers {
  readonly #known = new Map<string, Caller>();
  readonly #most: number;
  #epoch = 0;

  constructor(most = MOST_CALLERS) {
    this.#most = most;
  }

  /** By the scope of its records. */
  of(scope: string): Caller {
    const caller = this.#known.get(scope) ?? { tools: new Map<string, ToolInfo>(), listed: false, ask: null };
    this.#known.delete(scope);
    this.#known.set(scope, caller);
    if (this.#known.size > this.#most) this.#known.delete(this.#known.keys().next().value as string);
    return caller;
  }

  /** null: nobody with this scope has called here. */
  find(scope: string | null): Caller | null {
    return scope === null ? null : (this.#known.get(scope) ?? null);
  }

  /** Counts the changes of the server's tools: a list that was asked for before the last one is out of date. */
  get epoch(): number {
    return this.#epoch;
  }

  /** The server's tools have changed, for everybody. What it declared of them before may be wrong by now. */
  forgetTools(): void {
    this.#epoch += 1;
    for (const caller of this.#known.values()) {
      caller.listed = false;
      caller.tools.clear();
    }
  }
}
