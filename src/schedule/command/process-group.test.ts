/** Whether the processes of an attempt are still there, told apart from others that got their number later. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import {
  describeGroup,
  groupStanding,
  hasEnded,
  type ProcessGroup,
  processNote,
  processOfNote,
  type RunningProcess,
  thisProcess,
} from "./process-group.ts";

it("R1: a group is alive while one of its processes is; another leader, boot or namespace is not it", async () => {
  // The leader ends at once, and leaves a child behind in its group.
  const leader = spawn("/bin/sh", ["-c", "sleep 300 & echo started; read line"], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
  });
  const ended = new Promise((done) => leader.once("exit", done));
  await new Promise((started) => leader.stdout.once("data", started));
  const group = describeGroup(leader.pid as number) as ProcessGroup;
  try {
    expect(groupStanding(group)).toBe("alive");
    expect(groupStanding({ ...group, started: "1" })).toBe("gone");
    expect(groupStanding({ ...group, realm: "another boot" })).toBe("elsewhere");
    leader.stdin.end("\n");
    await ended;
    expect(groupStanding(group)).toBe("alive");
  } finally {
    process.kill(-group.group, "SIGKILL");
  }
  for (let look = 0; groupStanding(group) === "alive" && look < 500; look += 1)
    await new Promise((next) => setTimeout(next, 10));
  expect(groupStanding(group)).toBe("gone");
  expect(groupStanding({ ...group, realm: "another boot" })).toBe("elsewhere");
});

it("R2: a process has ended only if it surely has: not one that lives, of another boot, or that cannot be named", async () => {
  const own = thisProcess() as RunningProcess;
  expect(hasEnded(own)).toBe(false);
  expect(hasEnded({ ...own, realm: "another boot pid:[1]" })).toBe(false);
  // Its number is another process's by now.
  expect(hasEnded({ ...own, started: "1" })).toBe(true);
  const child = spawn("sleep", ["300"], { stdio: "ignore" });
  const exited = new Promise((done) => child.once("exit", done));
  await new Promise((started) => child.once("spawn", started));
  const { group: pid, started, realm } = describeGroup(child.pid as number) as ProcessGroup;
  expect(hasEnded({ pid, started, realm })).toBe(false);
  child.kill("SIGSTOP");
  expect(hasEnded({ pid, started, realm })).toBe(false);
  child.kill("SIGKILL");
  await exited;
  expect(hasEnded({ pid, started, realm })).toBe(true);
});

it("R2: a zombie whose other threads are still at work has not ended", async () => {
  // The first thread ends alone: the kernel shows a zombie, and the process goes on.
  const script = `
import ctypes, threading, time
threading.Thread(target=lambda: time.sleep(300)).start()
print("started", flush=True)
ctypes.CDLL(None).pthread_exit(None)
`;
  const child = spawn("python3", ["-c", script], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  const exited = new Promise((done) => child.once("exit", done));
  const group = await new Promise<ProcessGroup>((started) =>
    child.stdout.once("data", () => started(describeGroup(child.pid as number) as ProcessGroup)),
  );
  const one = { pid: group.group, started: group.started, realm: group.realm };
  const isZombie = () => readFileSync(`/proc/${one.pid}/stat`, "utf8").includes(") Z ");
  for (let look = 0; !isZombie() && look < 500; look += 1) await new Promise((next) => setTimeout(next, 10));
  expect([isZombie(), hasEnded(one), groupStanding(group)]).toEqual([true, false, "alive"]);
  child.kill("SIGKILL");
  await exited;
  expect([hasEnded(one), groupStanding(group)]).toEqual([true, "gone"]);
});

it("a process in a holder's id is read as it was written, and anything else is none", () => {
  const own = thisProcess() as RunningProcess;
  expect(processOfNote(processNote(own))).toEqual(own);
  for (const note of [null, "", "12", "12 34", "x 34 boot", "12 x boot", `${"9".repeat(30)} 1 boot`])
    expect(processOfNote(note)).toBe(null);
});
