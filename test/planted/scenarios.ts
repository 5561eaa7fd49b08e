/**
 * What a guard must survive, as functions from a guard to the violations found. The same functions judge nevertwice
 * (which must give none) and the planted naive designs (each must give at least one), so that a scenario that has gone
 * blind is noticed.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startProgram, temporaryFolder } from "../crash/lib/processes.mjs";
import { startProvider } from "../crash/lib/provider.mjs";
import { attachStrace, straceFailing, straceLogging } from "../crash/lib/strace.mjs";

export type Violation = string;
export type Scenario = (guard: string) => Promise<Violation[]>;

const CHILD = fileURLToPath(new URL("./child.mjs", import.meta.url));
const LEASE_MS = 600;
const ID = "the-one";
// Calls again and again, until well after the lease of whoever died or slept is over.
const PATIENT = { calls: 10, everyMs: 150 };

type Act = "answer" | "hold" | "fail";
type Provider = Awaited<ReturnType<typeof startProvider>>;

interface Stage {
  readonly provider: Provider;
  readonly ledger: string;
  start(more?: object): ReturnType<typeof startProgram>;
}

/** A provider whose first answer is scripted, a fresh ledger, and the guard in processes of its own. */
async function onStage(guard: string, first: Act, play: (stage: Stage) => Promise<Violation[]>): Promise<Violation[]> {
  const provider = await startProvider({ script: ({ nth }) => (nth === 1 ? first : "answer") });
  const ledger = `${temporaryFolder()}/ledger.db`;
  const spec = { guard, ledger, id: ID, provider: provider.url, leaseMs: LEASE_MS };
  try {
    return await play({ provider, ledger, start: (more = {}) => startProgram(CHILD, { ...spec, ...more }) });
  } finally {
    await provider.close();
  }
}

function atMostOnce({ provider }: Stage, when: string): Violation[] {
  const effects = provider.effectsOf(ID);
  return effects > 1 ? [`${effects} effects ${when}`] : [];
}

/** F6: killed after the provider had it, before its answer. Nobody may send it again. */
const killedInFlight: Scenario = (guard) =>
  onStage(guard, "hold", async (stage) => {
    const victim = stage.start();
    await stage.provider.arrived(ID);
    await victim.kill();
    await stage.start(PATIENT).exited;
    return atMostOnce(stage, "after a kill in flight");
  });

/** F23: the provider answers 500 after the effect. That is doubt, not failure. */
const failsAfterTheEffect: Scenario = (guard) =>
  onStage(guard, "fail", async (stage) => {
    await stage.start(PATIENT).exited;
    return atMostOnce(stage, "after an error that came after the effect");
  });

/** F15: a holder stopped past its lease before sending; another takes over; the first wakes up. */
const stoppedBeforeSending: Scenario = (guard) =>
  onStage(guard, "answer", async (stage) => {
    const holder = stage.start({ stopAt: "prepare" });
    await holder.paused();
    await stage.start(PATIENT).exited;
    holder.signal("SIGCONT");
    await holder.exited;
    return atMostOnce(stage, "after a holder woke up past its lease");
  });

/** F11: the commit of the claim fails on the disk. Nothing may be sent. */
const failedCommit: Scenario = (guard) =>
  onStage(guard, "answer", async (stage) => {
    const child = stage.start({ stopAt: "opened" });
    await child.paused();
    const { ended } = await attachStrace(child.pid, straceFailing(["fsync", "fdatasync"], "EIO", 1));
    child.signal("SIGCONT");
    await child.exited;
    await ended;
    return stage.provider.requestsFor(ID) > 0 ? ["sent although the commit of its claim failed"] : [];
  });

/** F10, without pulling the plug: the claim is written and synced before the effect's first byte. */
const syncedBeforeSending: Scenario = (guard) =>
  onStage(guard, "answer", async (stage) => {
    const effectFile = `${stage.ledger}.effect`;
    const log = `${stage.ledger}.strace`;
    writeFileSync(effectFile, "");
    const child = stage.start({ stopAt: "opened", effectFile });
    await child.paused();
    const { ended } = await attachStrace(child.pid, straceLogging(["pwrite64", "write", "fsync", "fdatasync"], log));
    child.signal("SIGCONT");
    await child.exited;
    await ended;
    return unsyncedAtEffect(readFileSync(log, "utf8"), stage.ledger, effectFile);
  });

function unsyncedAtEffect(log: string, ledger: string, effectFile: string): Violation[] {
  let written = 0;
  let unsynced = 0;
  for (const line of log.split("\n")) {
    const [, call, file] = /^\d+ +(\w+)\(\d+<([^>]+)>/.exec(line) ?? [];
    if (file === effectFile) {
      if (written === 0) return ["nothing was written before the effect"];
      return unsynced > 0 ? [`${unsynced} writes of the claim were not synced when the effect began`] : [];
    }
    if (file !== ledger && file !== `${ledger}-wal`) continue;
    if (call === "pwrite64") {
      written += 1;
      unsynced += 1;
    } else if (call === "fsync" || call === "fdatasync") unsynced = 0;
  }
  return ["the effect never happened"];
}

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  killedInFlight,
  failsAfterTheEffect,
  stoppedBeforeSending,
  failedCommit,
  syncedBeforeSending,
};
