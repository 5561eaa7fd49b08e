/** How long the slots of a job are remembered: at least for two of the longest gaps between them, or it is refused. */
import { type Duration, durationMs, formatDuration, LONGEST_DURATION_MS } from "../core/duration.ts";
import { configError } from "../core/errors.ts";
import { leastKeepMs } from "../core/keep.ts";
import { DEFAULT_KEEP } from "../core/policy.ts";
import type { CatchUp } from "./job-loop.ts";

type KeepOption = Duration | "forever";

/** What the slots are kept for, where `gapMs` may pass between them. */
export function slotKeep(given: KeepOption | undefined, gapMs: number, where: string, catchUp?: CatchUp): KeepOption {
  if (given !== undefined) return requireSlotKeep(given, gapMs, where);
  // What catching up may ask for must be known, the gap since the last instant and a margin included.
  const slots = typeof catchUp === "object" ? catchUp.all + 2 : 0;
  const asked = Math.min(slots * gapMs, LONGEST_DURATION_MS);
  return Math.max(durationMs(DEFAULT_KEEP, where), leastKeepMs(gapMs), asked);
}

function requireSlotKeep(keep: KeepOption, gapMs: number, where: string): KeepOption {
  const least = leastKeepMs(gapMs);
  if (keep === "forever" || durationMs(keep, `${where}: keep`) >= least) return keep;
  throw configError(
    `${where}: keep is ${formatDuration(durationMs(keep, where))}, and there may be ${formatDuration(gapMs)} from one of its slots to the next: a slot that is done would be forgotten while it can still be asked for, and run again. Give keep ${formatDuration(least)} or more, or "forever", or leave it out.`,
  );
}
