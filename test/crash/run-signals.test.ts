/** R1: what `nevertwice run` does with signals, and with a command that outlives it. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

afterAll(cleanUp);

function start(folder: string, script: string, lease = "30s", flags: readonly string[] = []) {
  const line = [
    "run",
    "--job",
    "j",
    "--slot",
    "s",
    "--lease",
    lease,
    "--json",
    "--store",
    `sqlite:${folder}/ledger.db`,
    ...flags,
  ];
  const child = spawn(process.execPath, [CLI, ...line, "--", "sh", "-c", script], { cwd: folder });
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  const ended = new Promise<{ code: number | null; document: { ran: boolean; words: string } | null }>((done) => {
    child.on("close", (code) => done({ code, document: out === "" ? null : JSON.parse(out) }));
  });
  return { child, ended };
}

async function appears(file: string): Promise<string> {
  for (let poll = 0; poll < 2_000; poll += 1) {
    if (existsSync(file) && readFileSync(file, "utf8") !== "") return readFileSync(file, "utf8").trim();
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error(`${file} never appeared`);
}

function groupOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
}

async function gone(pid: number): Promise<void> {
  const living = () => {
    try {
      return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    } catch {
      return false;
    }
  };
  for (let poll = 0; living(); poll += 1) {
    if (poll > 2_000) throw new Error(`${pid} still lives`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

/** A shell that waits until it is told, and says which signal it got. */
const waiting = `
  trap 'echo got TERM >> said; exit 7' TERM
  trap 'echo got INT >> said; exit 8' INT
  sh -c 'trap "" HUP; echo $$ > grandchild; while :; do sleep 0.05; done' &
  echo $$ > ready
  while [ ! -e finish ]; do sleep 0.05; done
  kill $(cat grandchild); echo finished >> said
`;

describe("signals", () => {
  it.each([
    ["SIGTERM", 7, "got TERM"],
    ["SIGINT", 8, "got INT"],
  ] as const)(
    "%s reaches the command's group; its own exit code comes out, and its end is on record",
    async (signal, code, said) => {
      const folder = temporaryFolder();
      const { child, ended } = start(folder, waiting);
      await appears(join(folder, "ready"));
      const grandchild = Number(await appears(join(folder, "grandchild")));
      child.kill(signal);
      expect(await ended).toMatchObject({
        code,
        document: { ran: true, words: expect.stringContaining(`exited with ${code}`) },
      });
      expect(readFileSync(join(folder, "said"), "utf8")).toBe(`${said}\n`);
      // What it had started in the background goes with it.
      await gone(grandchild);
      // A failed slot may be run again.
      const again = start(folder, "exit 0");
      expect(await again.ended).toMatchObject({ code: 0, document: { ran: true } });
    },
  );
});

describe("a command that outlives its runner", () => {
  it("is noticed by its process group, and done when it has ended with 0", async () => {
    const folder = temporaryFolder();
    const first = start(folder, waiting, "1s");
    await appears(join(folder, "ready"));
    first.child.kill("SIGKILL");
    countKill();
    await first.ended;
    // While the lease lives the slot is simply taken; after it, the group is what keeps it.
    let words = "";
    while (!/its runner died, and the command still runs/.test(words)) {
      const { document } = await start(folder, "echo second >> said", "1s").ended;
      expect(document?.ran).toBe(false);
      words = document?.words ?? "";
    }
    writeFileSync(join(folder, "finish"), "");
    expect(await appears(join(folder, "said"))).toBe("finished");
    while (!/recorded as done/.test(words)) {
      const { document } = await start(folder, "echo second >> said", "1s").ended;
      expect(document?.ran).toBe(false);
      words = document?.words ?? "";
    }
    expect(readFileSync(join(folder, "said"), "utf8")).toBe("finished\n");
  });

  it("--on-failure hold: a runner that died is still taken over, a command that failed is not", async () => {
    const folder = temporaryFolder();
    const hold = ["--on-failure", "hold"];
    const first = start(folder, "echo $$ > ready; exec sleep 60", "1s", hold);
    const command = Number(await appears(join(folder, "ready")));
    first.child.kill("SIGKILL");
    // With the shell that waits for it: a command that is killed alone has failed, and its exit code says so.
    process.kill(-groupOf(command), "SIGKILL");
    countKill();
    await first.ended;
    // Taken over once the lease is over; this time the command fails, and its end is known.
    const take = () => start(folder, "echo failed >> said; exit 1", "1s", hold).ended;
    while (!existsSync(join(folder, "said"))) await take();
    for (let call = 1; call <= 3; call += 1) {
      expect(await take()).toMatchObject({ code: 13, document: { ran: false } });
    }
    expect(readFileSync(join(folder, "said"), "utf8")).toBe("failed\n");
  });

  it("a runner that dies before the command is let go: the command never begins", async () => {
    const folder = temporaryFolder();
    const { GatedChild } = await import("../../src/schedule/command/gated-child.ts");
    const gated = await GatedChild.start({
      command: ["sh", "-c", "echo began > began"],
      env: process.env,
      cwd: folder,
      stdout: () => {},
      stderr: () => {},
      monotonic: () => performance.now(),
    });
    await gated.abandon();
    expect(existsSync(join(folder, "began"))).toBe(false);
  });
});
