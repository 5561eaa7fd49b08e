/**
 * Starts the servers before the first test, where a test of this run uses one, and ends them after the last one. Their addresses travel in the
 * environment, which every worker and every process a test starts inherits. A run that dies instead of ending needs
 * nothing from here: the keeper (scripts/services/keeper.mjs) sees it and cleans up.
 */
import type { TestProject } from "vitest/node";
import { startAll } from "../../scripts/services/start-all.mjs";
import { namedFiles, needServices } from "./needed.ts";

let close: (() => Promise<void>) | undefined;

export async function setup(project: TestProject): Promise<void> {
  if (process.env.NEVERTWICE_TEST_SERVICES === "off" || !(await areNeeded(project))) return;
  const services = await startAll();
  Object.assign(process.env, services.addresses);
  close = services.close;
}

export async function teardown(): Promise<void> {
  await close?.();
}

async function areNeeded(project: TestProject): Promise<boolean> {
  const { testFiles: named } = await project.globTestFiles(namedFiles(process.argv));
  const { testFiles } = named.length > 0 ? { testFiles: named } : await project.globTestFiles();
  return needServices(testFiles);
}
