// What every benchmark needs: a throwaway folder, callers in parallel, the event loop's delay, a table.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";

export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** `callers` loops share `total` calls; the loop's delay and this process's work are watched meanwhile. */
export async function drive({ total, callers, call }) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  let next = 0;
  const caller = async () => {
    while (next < total) {
      const i = next;
      next += 1;
      await call(i);
    }
  };
  delay.enable();
  const before = process.cpuUsage();
  const started = performance.now();
  await Promise.all(Array.from({ length: callers }, caller));
  const seconds = (performance.now() - started) / 1_000;
  const { user, system } = process.cpuUsage(before);
  delay.disable();
  const loop = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6 };
  return { rate: total / seconds, loop, cpuMicros: (user + system) / total };
}

// Long enough that 256 callers are busy for most of it; one caller is busy at once, and with short turns no hiccup of the
// machine meets one side alone.
const SLICE = 5_000;
const LONE_SLICE = 250;

/** A slice of the calls on one side, then on the other, and so on: what else the machine does meets both alike. */
export async function inTurns(total, callers, sides) {
  const slices = sides.map(() => []);
  const size = Math.min(total, callers === 1 ? LONE_SLICE : SLICE);
  for (let from = 0; from < total; from += size) {
    for (const [side, call] of sides.entries()) {
      slices[side].push(await drive({ total: size, callers, call: (i) => call(from + i) }));
    }
  }
  return slices.map((driven) => ({
    rate: driven.length / driven.reduce((seconds, { rate }) => seconds + 1 / rate, 0),
    cpuMicros: driven.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0) / driven.length,
    loop: {
      p50: driven.map(({ loop }) => loop.p50).toSorted((a, b) => a - b)[driven.length >> 1],
      p99: Math.max(...driven.map(({ loop }) => loop.p99)),
    },
  }));
}

/** The median of an odd number of runs: one hiccup of the machine does not decide. */
export function median(results) {
  return results.toSorted((a, b) => a.rate - b.rate)[Math.floor(results.length / 2)];
}

export function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => String(row[column]).length)));
  const line = (row) =>
    row.map((cell, i) => (i === 0 ? String(cell).padEnd(widths[i]) : String(cell).padStart(widths[i]))).join("  ");
  const [head, ...body] = rows;
  return [line(head), widths.map((width) => "-".repeat(width)).join("  "), ...body.map(line)].join("\n");
}
