/**
 * F18, F39: several hosts with one ledger and clocks ten minutes apart, over the hours in which the clocks change, with a
 * job that takes longer than its interval. Time is compressed 300 times by faketime; the processes are real.
 */
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const HOST = fileURLToPath(new URL("./job-host.mjs", import.meta.url));
const SPEED = 300;
const MINUTE_MS = 60_000;

let provider: Awaited<ReturnType<typeof startProvider>>;
beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

function libfaketime(): string {
  const folders = ["/usr/lib", "/usr/local/lib", ...readdirSync("/usr/lib").map((entry) => `/usr/lib/${entry}`)];
  const found = folders.map((folder) => `${folder}/faketime/libfaketime.so.1`).find((file) => existsSync(file));
  if (found === undefined) throw new Error("libfaketime.so.1 is not there: node scripts/ensure-tools.mjs");
  return found;
}

/** The wall clock begins at this moment and runs fast; timers and leases go on in real time. */
function clockFrom(moment: string): Record<string, string> {
  return {
    TZ: "UTC",
    LD_PRELOAD: libfaketime(),
    FAKETIME: `@${moment} x${SPEED}`,
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    FAKETIME_NO_CACHE: "1",
  };
}

describe.concurrent.each([
  { what: "clocks set back: the hour from 02:00 to 03:00 comes twice", name: "back", day: "2026-10-25" },
  { what: "clocks set forward: the hour from 02:00 to 03:00 is skipped", name: "forward", day: "2026-03-29" },
])("F39: $what", ({ name, day }) => {
  it("two hosts ten minutes apart, seven minutes of work every five: one run per slot", async () => {
    const spec = {
      name,
      ledger: `${temporaryFolder()}/ledger.db`,
      provider: provider.url,
      schedule: { cron: "*/5 * * * *", tz: "Europe/Berlin" },
      takesMs: (7 * MINUTE_MS) / SPEED,
      forMs: 9_000,
    };
    // Around 01:00 UTC, when Berlin's clocks change. A faked clock begins with its process: the host that is ten minutes
    // behind starts second, so the hosts are never less than ten minutes apart.
    const ahead = startProgram(HOST, spec, { env: clockFrom(`${day} 00:50:00`) });
    await ahead.event("started");
    const behind = startProgram(HOST, spec, { env: clockFrom(`${day} 00:40:00`) });
    const hosts = [ahead, behind];
    const ends = await Promise.all(hosts.map((host) => host.event("end")));
    await Promise.all(hosts.map((host) => host.exited));
    const slots = [
      ...new Set(hosts.flatMap((host) => host.said.filter((one) => one.event === "slot").map((one) => one.slot))),
    ].sort();
    const minutes = slots.map((slot) => Date.parse(slot.replace("/slot", "")) / MINUTE_MS);
    // Every five minutes of real time, neither doubled nor left out, through the change.
    expect(minutes.every((minute, i) => i === 0 || minute - (minutes[i - 1] as number) === 5)).toBe(true);
    expect(slots.length).toBeGreaterThan(5);
    const apartMs = ends[0].wall - ends[1].wall - SPEED * (ends[0].steady - ends[1].steady);
    expect(apartMs).toBeGreaterThan(9 * MINUTE_MS);
    expect(slots.map((slot) => provider.effectsOf(`C-${name}-${slot}`))).toEqual(slots.map(() => 1));
    const replays = hosts
      .flatMap((host) => host.said)
      .filter((one) => one.event === "slot" && (one.replayed || one.status === "in_flight"));
    expect(replays.length).toBeGreaterThan(0);
  }, 90_000);
});
