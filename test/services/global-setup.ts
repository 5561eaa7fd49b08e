/**
 * Starts the servers before the first test and ends them after the last one. Their addresses travel in the
 * environment, which every worker and every process a test starts inherits. A run that dies instead of ending needs
 * nothing from here: the keeper (scripts/services/keeper.mjs) sees it and cleans up.
 */
import { startAll } from "../../scripts/services/start-all.mjs";

let close: (() => Promise<void>) | undefined;

export async function setup(): Promise<void> {
  if (process.env.NEVERTWICE_TEST_SERVICES === "off") return;
  const services = await startAll();
  Object.assign(process.env, services.addresses);
  close = services.close;
}

export async function teardown(): Promise<void> {
  await close?.();
}
