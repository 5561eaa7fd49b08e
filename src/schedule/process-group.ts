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
  const started = process.platform === "linux" ? startOf(process.pid) : null;
  return started === null ? null : { pid: process.pid, started, realm: realm() };
}

/** Surely: it was a process of this boot and namespace, and is not there any more. */
export function hasEnded({ pid, started, realm: home }: RunningProcess): boolean {
  return process.platform === "linux" && home === realm() && startOf(pid) !== started;
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
  try {
    process.kill(-group, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  // A zombie answers too, and where nobody reaps it (a container without an init) it does so for ever.
  return process.platform === "linux" ? hasLivingMembers(group) : true;
}

function hasLivingMembers(group: number): boolean {
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  return pids.some((pid) => {
    const fields = statFields(pid);
    return fields !== null && fields[0] !== "Z" && fields[2] === String(group);
  });
}

export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nobody is left in it.
  }
}

/** A zombie has ended: it only waits for its parent to notice. */
function startOf(pid: number): string | null {
  if (process.platform !== "linux") return startFromPs(pid);
  const fields = statFields(String(pid));
  return fields === null || fields[0] === "Z" ? null : (fields[19] ?? null);
}

/** Of /proc/<pid>/stat, from the state on: state, parent, group … the start is the twentieth. */
function statFields(pid: string): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name may have blanks and brackets in it: what follows its last bracket are plain fields.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
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
  cachedRealm ??= [readOr(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()), namespace()].join(" ");
  return cachedRealm;
}

function namespace(): string {
  return readOr(() => readlinkSync("/proc/self/ns/pid"));
}

function readOr(read: () => string): string {
  try {
    return read();
  } catch {
    return process.platform;
  }
}
