/** The clock of a Redis server: every answer of a script tells it. */
import { ServerClock } from "../shared/server-clock.ts";

export const REDIS_EPOCH = "redis";

export function redisClock(): ServerClock {
  // Never backwards: it waits until a server that was set back has caught up.
  return new ServerClock({ epoch: REDIS_EPOCH, standStillMs: Number.POSITIVE_INFINITY, provisionalMs: 0 });
}
