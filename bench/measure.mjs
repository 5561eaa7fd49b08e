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

// Long enough that 256 callers are busy for most of it, and that a lone caller's turn has what comes round but now and
// then on both sides: checkpoints, collections.
const SLICE = 5_000;
const LONE_SLICE = 500;

/**
 * A slice of the calls on one side, right after it one on the other, and so on; each turn with its ratio to the first
 * side's turn before it. What else the machine does meets both alike, or one pair of many.
 */
export async function inTurns(total, callers, sides) {
  const turns = sides.map(() => []);
  const size = Math.min(total, callers === 1 ? LONE_SLICE : SLICE);
  for (let from = 0; from < total; from += size) {
    let first = null;
    for (const [side, call] of sides.entries()) {
      const driven = await drive({ total: size, callers, call: (i) => call(from + i) });
      first ??= driven;
      turns[side].push({ ...driven, ratio: driven.rate / first.rate });
    }
  }
  return turns.map((driven) => ({ turns: driven }));
}

/** The median of everything measured in all rounds: a hiccup of the machine does not decide. */
export function overRounds(results) {
  const driven = results.flatMap((result) => result.turns ?? [result]);
  const ratios = driven.flatMap(({ ratio }) => ratio ?? []);
  return { ...median(driven), ...(ratios.length > 0 && { ratio: middle(ratios) }) };
}

/** The median of numbers. */
export function middle(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** The middle one by rate. */
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
