/** A server that is started to be looked at, line by line. */
import { onLines } from "../../agents/mcp/lines.ts";
import type { Wire } from "../../agents/mcp/probe.ts";
import { ServerProcess, spawnServer } from "../../agents/mcp/stdio/process.ts";
import type { Io } from "../command.ts";

export function startedServer(
  command: readonly string[],
  { env, cwd }: Pick<Io, "env" | "cwd">,
): { readonly wire: Wire; kill(): void } {
  const child = spawnServer({ command, env: { ...env }, cwd });
  let server: ServerProcess | null = null;
  child.once("spawn", () => {
    server = new ServerProcess(child);
  });
  let to: Parameters<Wire["listen"]>[0] = { line: () => {}, gone: () => {} };
  child.stdin.on("error", () => {});
  child.once("error", (error) => to.gone(error));
  onLines(child.stdout, {
    line: (line) => to.line(line),
    end: () => to.gone(new Error("it ended")),
    error: (error) => to.gone(error),
  });
  const wire: Wire = {
    send: (line) => void child.stdin.write(`${line}\n`),
    listen: (on) => {
      to = on;
    },
  };
  return { wire, kill: () => server?.end(0) };
}
