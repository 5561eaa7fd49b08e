/** `nevertwice serve` as a process of its own, and Python programs that are its clients. */
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { startCommand } from "../crash/lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const CLIENT = fileURLToPath(new URL("../../clients/python", import.meta.url));
// Debian's own: another on the PATH (pyenv and the like) may be any version.
export const PYTHON = "/usr/bin/python3";
export const TOKEN = "a-token-for-the-python-tests-0123";

/** A port that is free now: a service that is killed comes back on it. */
export async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/**
 * @param {{ store: string, port?: number, socket?: string, sweep?: string }} options
 * @returns {Promise<{ url: string, process: ReturnType<typeof startCommand> }>}
 */
export async function startService({ store, port = 0, socket, sweep = "200ms" }) {
  const where = socket === undefined ? ["--port", String(port)] : ["--socket", socket];
  const service = startCommand([process.execPath, CLI, "serve", "--store", store, "--sweep", sweep, ...where], {
    NEVERTWICE_SERVE_TOKEN: TOKEN,
  });
  const { text } = await service.says(({ text }) => text?.includes("serve on "));
  return { url: text.split(" on ")[1].trim(), process: service };
}

/**
 * @param {readonly string[]} args
 * @param {{ url: string, provider: string }} at
 * @returns {ReturnType<typeof startCommand>}
 */
export function startPython(args, { url, provider }) {
  return startCommand([PYTHON, "-B", "-W", "error::ResourceWarning", ...args], {
    PYTHONPATH: CLIENT,
    NEVERTWICE_URL: url,
    NEVERTWICE_SERVE_TOKEN: TOKEN,
    PROVIDER_URL: provider,
  });
}
