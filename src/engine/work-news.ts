/** Waiting for queued work of some actions, for those who take it. */
import { Doorbells } from "./doorbells.ts";
import type { EngineServices } from "./engine.ts";
import { isEnqueued } from "./events.ts";

export interface WantedWork {
  readonly actions: readonly string[];
  /** Undefined: everybody's. */
  readonly tenant: string | undefined;
}

/** Until something may have been added, or for this long. `signal`: nobody waits any more. */
export function workNews(
  services: EngineServices,
  wanted: WantedWork,
  ms: number,
  signal?: AbortSignal,
): Promise<void> {
  const { clock, events, ledger, underWay } = services;
  return new Promise((done) => {
    const over = () => {
      timer.cancel();
      forget();
      unlisten();
      bells.unwatch();
      signal?.removeEventListener("abort", over);
      done();
    };
    const bells = new Doorbells(ledger.store, over);
    const unlisten = events.on((event) => {
      if (isEnqueued(event) && wanted.actions.includes(event.action)) over();
    });
    const timer = clock.after(ms, over);
    const forget = underWay.onClose(over);
    bells.watch(wanted.actions, wanted.tenant);
    if (signal?.aborted) over();
    else signal?.addEventListener("abort", over);
  });
}
