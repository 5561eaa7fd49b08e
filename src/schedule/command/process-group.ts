/**
 * Which processes belong to a run, so that whoever comes after its runner's death can tell whether the work goes on
 * without it. A process group has a number, and numbers are used again: the leader's start, the boot and the process
 * namespace make it one of a kind.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface ProcessGroup {
  /** The group's number, which is its leader's process id. */
  readonly group: number;
  /** When the leader started, on the clock of the host. */
  readonly started: string;
  /** Where these numbers mean anything: this boot of this kernel, and the namespace in it. */
  readonly realm: string;
}

/** One process of this host, told apart from others that get its number later. */
export interface RunningProcess {
  readonly pid: number;
  readonly started: string;
  readonly realm: string;
}

/** Null where the boot cannot be named: then nobody could say later that this process has ended. */
export function thisProcess(): RunningProcess | null {
  const started = process.platform === "linux" && boot() !== null ? startOf(process.pid) : null;
  return started === null ? null : { pid: process.pid, started, realm: realm() };
}

/** Surely: it was a process of this boot and namespace, and is not there any more. */
export function hasEnded({ pid, started, realm: home }: RunningProcess): boolean {
  if (process.platform !== "linux" || home !== realm()) return false;
  const fields = statFields(String(pid));
  // What cannot be read may be hidden from this user, or there may be no file descriptor left to read it with.
  if (fields === null) return !answers(pid);
  return fields[START] !== started || !isAlive(String(pid), fields);
}

/** One line of text, for a holder's id. */
export function processNote({ pid, started, realm: home }: RunningProcess): string {
  return `${pid} ${started} ${home}`;
}

/** Null: it is no such note. */
export function processOfNote(note: string | null): RunningProcess | null {
  const [, pid, started, home] = /^(\d{1,10}) (\d{1,20}) (\S.*)$/.exec(note ?? "") ?? [];
  return pid === undefined || started === undefined || home === undefined
    ? null
    : { pid: Number(pid), started, realm: home };
}

const PS_TIMEOUT_MS = 2_000;

/** Null: the leader is gone already. */
export function describeGroup(leader: number): ProcessGroup | null {
  const started = startOf(leader);
  return started === null ? null : { group: leader, started, realm: realm() };
}

/** elsewhere: the group lived on another host, in another container or before a reboot; it cannot be asked. */
export function groupStanding({ group, started, realm: home }: ProcessGroup): "alive" | "gone" | "elsewhere" {
  if (home !== realm()) return "elsewhere";
  const now = startOf(group);
  // A number is not given out again while a group still has it: another leader means that the old group is gone.
  if (now !== null && now !== started) return "gone";
  return hasMembers(group) ? "alive" : "gone";
}

function hasMembers(group: number): boolean {
  if (!answers(-group)) return false;
  // A zombie answers too, and where nobody reaps it (a container without an init) it does so for ever.
  return process.platform === "linux" ? hasLivingMembers(group) : true;
}

/** A process, or one of a group, has this number. */
function answers(number: number): boolean {
  try {
    process.kill(number, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function hasLivingMembers(group: number): boolean {
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  const members = pids.flatMap((pid) => {
    const fields = statFields(pid);
    return fields?.[GROUP] === String(group) ? [isAlive(pid, fields)] : [];
  });
  // Those of another user may be hidden: then they answer all the same.
  return members.length === 0 ? answers(-group) : members.includes(true);
}

export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nobody is left in it.
  }
}

function startOf(pid: number): string | null {
  if (process.platform !== "linux") return startFromPs(pid);
  const fields = statFields(String(pid));
  return fields === null || !isAlive(String(pid), fields) ? null : (fields[START] ?? null);
}

// Of /proc/<pid>/stat, counted from the state on.
const STATE = 0;
const GROUP = 2;
const START = 19;

function statFields(pid: string): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name may have blanks and brackets in it: what follows its last bracket are plain fields.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

/**
 * A zombie has ended: it only waits for its parent to notice. But a process that was killed is shown as one as soon as its
 * first thread has ended, and another thread may still be writing to the disk.
 */
function isAlive(pid: string, fields: readonly string[]): boolean {
  if (fields[STATE] !== "Z") return true;
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) => {
      const state = statFields(`${pid}/task/${thread}`)?.[STATE];
      return state !== undefined && state !== "Z" && state !== "X";
    });
  } catch {
    return false;
  }
}

function startFromPs(pid: number): string | null {
  try {
    const options = { encoding: "utf8", timeout: PS_TIMEOUT_MS } as const;
    // Not imported: only systems without /proc need it.
    const { execFileSync } = process.getBuiltinModule("node:child_process");
    const text = execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], options).trim();
    return text === "" ? null : text;
  } catch {
    return null;
  }
}

let cachedRealm: string | undefined;

function realm(): string {
  cachedRealm ??= `${boot() ?? process.platform} ${readOrNull(() => readlinkSync("/proc/self/ns/pid")) ?? process.platform}`;
  return cachedRealm;
}

function boot(): string | null {
  return readOrNull(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
}

function readOrNull(read: () => string): string | null {
  try {
    return read();
  } catch {
    return null;
  }
}
