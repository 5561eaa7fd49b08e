/** Whether the processes of an attempt are still there, told apart from others that got their number later. */
import { spawn } from "node:child_process";
import { expect, it } from "vitest";
import { describeGroup, groupStanding, type ProcessGroup } from "./process-group.ts";

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
