// A tool call through the MCP proxy against the bare call: one caller at a time, as a model calls. Medians.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inFolder } from "./measure.mjs";

const path = (file) => fileURLToPath(new URL(file, import.meta.url));
const server = [process.execPath, path("./agents-server.mjs")];
// What a guarded call may cost on top of the bare one, at the median.
const MOST_MS = 2;

export async function sections({ quick }) {
  const calls = quick ? 300 : 1_500;
  const bare = await inFolder(() => measure(server, calls));
  const proxied = await inFolder((folder) =>
    measure(
      [process.execPath, path("../dist/cli/main.js"), "mcp", "--store", `sqlite:${folder}/ledger.db`, "--", ...server],
      calls,
    ),
  );
  const row = (name, ms, of, target) => ({ name, rate: 1_000 / ms, ratio: of === null ? null : of / ms, target });
  // As a ratio: the bare call against the bare call plus what the guard may cost.
  const target = Number((bare.first / (bare.first + MOST_MS)).toFixed(3));
  const overhead = (ms) => `+${(ms - bare.first).toFixed(2)} ms`;
  return [
    {
      title: `MCP tool call on stdio (overhead at the median, below ${MOST_MS} ms)`,
      rows: [
        row("bare", bare.first, null, null),
        row(`guarded, through the proxy (${overhead(proxied.first)})`, proxied.first, bare.first, target),
        row(`a repeat, through the proxy (${overhead(proxied.again)})`, proxied.again, bare.first, target),
      ],
    },
  ];
}

/** Median milliseconds of a first call, and of its repeat. */
async function measure([program, ...args], calls) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => waiting.get(JSON.parse(line).id)?.());
  let id = 0;
  const call = async (number) => {
    id += 1;
    const message = { jsonrpc: "2.0", id, method: "tools/call", params: { name: "note", arguments: { id: number } } };
    const started = performance.now();
    const answered = new Promise((done) => waiting.set(id, done));
    child.stdin.write(`${JSON.stringify(message)}\n`);
    await answered;
    waiting.delete(id);
    return performance.now() - started;
  };
  const times = { first: [], again: [] };
  for (let warm = 0; warm < 50; warm += 1) await call(`warm ${warm}`);
  for (let number = 0; number < calls; number += 1) times.first.push(await call(number));
  for (let number = 0; number < calls; number += 1) times.again.push(await call(number));
  child.stdin.end();
  await once(child, "exit");
  return { first: median(times.first), again: median(times.again) };
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
