// A tool call through the MCP proxy against the bare call: one caller at a time, as a model calls. Medians.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inFolder, middle } from "./measure.mjs";

const path = (file) => fileURLToPath(new URL(file, import.meta.url));
const server = [process.execPath, path("./agents-server.mjs")];
// What a guarded call may cost on top of the bare one, at the median.
const MOST_MS = 2;

export async function sections({ quick }) {
  const calls = quick ? 300 : 1_500;
  const { bare, proxied } = await inFolder((folder) => {
    const proxy = [path("../dist/cli/main.js"), "mcp", "--store", `sqlite:${folder}/ledger.db`, "--"];
    return measure({ bare: server, proxied: [process.execPath, ...proxy, ...server] }, calls);
  });
  const row = (name, ms, of, target) => ({ name, rate: 1_000 / ms, ratio: of === null ? null : of / ms, target });
  // As a ratio: the bare call against the bare call plus what the guard may cost.
  const compared = (name, ms, of) => {
    const target = Number((of / (of + MOST_MS)).toFixed(3));
    return row(`${name} (+${Math.max(0, ms - of).toFixed(2)} ms)`, ms, of, target);
  };
  return [
    {
      title: `MCP tool call on stdio (overhead at the median, below ${MOST_MS} ms)`,
      rows: [
        row("bare", bare.first, null, null),
        compared("guarded, through the proxy", proxied.first, bare.first),
        compared("a repeat, through the proxy", proxied.again, bare.again),
      ],
    },
  ];
}

/** Median milliseconds of a first call, and of its repeat. Both ways take turns, so that a busy machine is busy for both. */
async function measure(commands, calls) {
  const ways = Object.entries(commands).map(([name, command]) => ({ name, ...client(command), first: [], again: [] }));
  for (let warm = 0; warm < 50; warm += 1) for (const { call } of ways) await call(`warm ${warm}`);
  for (const times of ["first", "again"]) {
    for (let number = 0; number < calls; number += 1) for (const way of ways) way[times].push(await way.call(number));
  }
  await Promise.all(ways.map(({ end }) => end()));
  return Object.fromEntries(
    ways.map(({ name, first, again }) => [name, { first: middle(first), again: middle(again) }]),
  );
}

function client([program, ...args]) {
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
  const end = async () => {
    child.stdin.end();
    await once(child, "exit");
  };
  return { call, end };
}
