/**
 * The clock leases are measured on for stores of one host. CLOCK_MONOTONIC is shared by all processes of a boot and
 * does not follow the wall clock when somebody sets it; the boot's id tells a lease of an earlier boot from a live one.
 */
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import type { Instant } from "../../core/record.ts";
import type { Finding } from "../../core/store.ts";
import { wallNow } from "../../engine/real-timers.ts";

// performance.now() counts from the process's start on the same clock as hrtime, which counts from the boot.
const processStart = Number(process.hrtime.bigint()) / 1e6 - performance.now();

// 32 random bits tell one boot from the next, and stand in every row.
const EPOCH_CHARS = 8;

let cachedBoot: string | null | undefined;

export function hostInstant(): Instant {
  const boot = bootId();
  const now = wallNow();
  // Without a boot id a lease could outlive a reboot; the wall clock is then the lesser evil.
  if (boot === null) return { now, steady: now, epoch: "wall" };
  // Whole milliseconds: leases need no more, and a row with a fraction of sixteen digits is longer and slower to write.
  return { now, steady: Math.floor(processStart + performance.now()), epoch: boot };
}

/** For doctor. */
export function clockFinding({ steady, epoch }: Instant): Finding {
  const value =
    epoch === "wall"
      ? "the wall clock: setting it shortens or prolongs leases"
      : `the host's monotonic clock, running for ${Math.round(steady / 60_000)} min: setting the wall clock does not affect leases`;
  return { name: "lease clock", value, ok: true };
}

function bootId(): string | null {
  if (cachedBoot === undefined) cachedBoot = readBootId();
  return cachedBoot;
}

function readBootId(): string | null {
  try {
    if (process.platform === "linux")
      return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").slice(0, EPOCH_CHARS);
    if (process.platform === "darwin") {
      // Not imported: other systems do not need it.
      const { execFileSync } = process.getBuiltinModule("node:child_process");
      return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], {
        encoding: "utf8",
        timeout: 2_000,
      }).trim();
    }
  } catch {
    // A sandbox without /proc: the wall clock serves.
  }
  return null;
}
