// Ports for our servers, from below the range that the kernel hands to outgoing connections (32768 on Linux): a port
// found free here is only lost to another server, never to a client that happened to connect in between.
import { createServer } from "node:net";

const LOWEST = 12_000;
const HIGHEST = 32_000;
const TRIES = 200;
const given = new Set();

/** @returns {Promise<number>} */
export async function freePort() {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST} after ${TRIES} tries`);
}

/**
 * Starts something on fresh ports, again on others when somebody else was faster.
 * @template T
 * @param {number} count
 * @param {(ports: number[]) => Promise<T>} start
 * @returns {Promise<T>}
 */
export async function onFreePorts(count, start) {
  for (let tries = 1; ; tries += 1) {
    const ports = [];
    while (ports.length < count) ports.push(await freePort());
    try {
      return await start(ports);
    } catch (error) {
      if (tries === 3 || !/in use/i.test(error.message)) throw error;
    }
  }
}

function isFree(port) {
  return new Promise((decide) => {
    const server = createServer();
    server.once("error", () => decide(false));
    server.listen(port, "127.0.0.1", () => server.close(() => decide(true)));
  });
}
