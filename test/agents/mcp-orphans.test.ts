/** What becomes of a server, and of what it has started, when its client goes or the proxy is killed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { COMMAND, connect, folder } from "./lib/mcp.ts";

const STUBBORN = fileURLToPath(new URL("./lib/stubborn-server.mjs", import.meta.url));

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The server runs as a child of a shell, as behind npx, or as the proxy's own. */
async function started(how: "behind a shell" | "itself") {
  const place = folder();
  const file = join(place, "pid");
  const words = [process.execPath, STUBBORN, file];
  // A command behind it: otherwise the shell would become the server.
  const server = how === "itself" ? words : ["/bin/sh", "-c", `"$0" "$1" "$2"; true`, ...words];
  const { client, pid } = await connect([COMMAND, "mcp", "--store", `sqlite:${join(place, "l.db")}`, "--", ...server]);
  await client.ping();
  const own = Number(readFileSync(file, "utf8"));
  onTestFinished(() => {
    if (isAlive(own)) process.kill(own, "SIGKILL");
  });
  expect(isAlive(own)).toBe(true);
  return { client, proxy: pid, own };
}

it.each(["behind a shell", "itself"] as const)(
  "the official close (end of input, SIGTERM, SIGKILL) leaves no server that heeds nothing, %s",
  async (how) => {
    const { client, proxy, own } = await started(how);
    await client.close();
    await expect.poll(() => [isAlive(proxy), isAlive(own)], { timeout: 10_000 }).toEqual([false, false]);
  },
  30_000,
);

it.each(["behind a shell", "itself"] as const)(
  "a proxy that is killed leaves no server that heeds nothing, %s",
  async (how) => {
    const { proxy, own } = await started(how);
    process.kill(proxy, "SIGKILL");
    await expect.poll(() => isAlive(own), { timeout: 20_000 }).toBe(false);
  },
  40_000,
);
