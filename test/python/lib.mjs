/** `nevertwice serve` as a process of its own, and Python programs that are its clients. */
import { fileURLToPath } from "node:url";
import { startCommand } from "../crash/lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const CLIENT = fileURLToPath(new URL("../../clients/python", import.meta.url));
// Debian's own: another on the PATH (pyenv and the like) may be any version.
export const PYTHON = "/usr/bin/python3";
export const TOKEN = "a-token-for-the-python-tests-0123";

/**
 * @typedef {{
 *   said: any[], stderr: string, exited: Promise<{ code: number | null, signal: string | null }>,
 *   says(fits: (said: any) => boolean): Promise<any>, event(name: string): Promise<any>, stopped(): Promise<void>,
 *   tell(line: string): void, signal(name: string): void, end(): void, kill(): Promise<{ code: number | null, signal: string | null }>,
 * }} Child
 */

/**
 * @param {{ store: string, socket?: string, sweep?: string }} options
 * @returns {Promise<{ url: string, process: Child }>}
 */
export async function startService({ store, socket, sweep = "200ms" }) {
  const where = socket === undefined ? ["--port", "0"] : ["--socket", socket];
  const service = startCommand([process.execPath, CLI, "serve", "--store", store, "--sweep", sweep, ...where], {
    NEVERTWICE_SERVE_TOKEN: TOKEN,
  });
  const { text } = await service.says(({ text }) => text?.includes("serve on "));
  return { url: text.split(" on ")[1].trim(), process: service };
}

/**
 * @param {readonly string[]} args
 * @param {{ url: string, provider: string }} at
 * @returns {Child}
 */
export function startPython(args, { url, provider }) {
  return startCommand([PYTHON, "-B", "-W", "error::ResourceWarning", ...args], {
    PYTHONPATH: CLIENT,
    NEVERTWICE_URL: url,
    NEVERTWICE_SERVE_TOKEN: TOKEN,
    PROVIDER_URL: provider,
  });
}
