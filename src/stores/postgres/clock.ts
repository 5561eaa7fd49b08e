/** The clock of a PostgreSQL server. */
import { ServerClock } from "../shared/server-clock.ts";

export function postgresClock(): ServerClock {
  // More than a second backwards, somebody has set the server's clock, and all hosts must follow it together, or they would
  // judge each other's leases by two clocks. Nothing stamped before the first answer is ever written: see isProvisional.
  return new ServerClock({ epoch: "", standStillMs: 1_000, provisionalMs: 0.5 });
}

/** Made before the server's clock was known. */
export function isProvisional(time: number): boolean {
  return time % 1 === 0.5;
}
