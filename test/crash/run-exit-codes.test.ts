/**
 * R2, F4 to F9 for `nevertwice run`: the command's exit code survives its runner. A command that ended is known to have
 * ended, whoever was killed meanwhile; only a group that died as a whole is taken over, or held.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { seeded } from "../support/effort.mjs";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

afterAll(cleanUp);

interface Said {
  readonly code: number | null;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the document should hold
  readonly json: any;
}

function start(folder: string, script: string, flags: readonly string[] = []) {
  const line = ["run", "--job", "j", "--slot", "s", "--json", "--store", `sqlite:${folder}/ledger.db`, ...flags];
  const child = spawn(process.execPath, [CLI, ...line, "--", "sh", "-c", script], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
  });
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  const ended = new Promise<Said>((done) => {
    child.on("close", (code) => done({ code, json: out === "" ? null : JSON.parse(out) }));
  });
  return { child, ended };
}

const call = (folder: string, script: string, flags: readonly string[] = []) => start(folder, script, flags).ended;

async function until<T>(look: () => T | null | false, what: string): Promise<T> {
  for (let poll = 0; poll < 2_000; poll += 1) {
    const found = look();
    if (found !== null && found !== false) return found;
    await new Promise((next) => setTimeout(next, 10));
  }
  throw new Error(`never seen: ${what}`);
}

const written = (file: string) =>
  until(() => existsSync(file) && readFileSync(file, "utf8").trim() !== "" && readFileSync(file, "utf8").trim(), file);

/** The process group of a process; its leader is the gate's shell. */
function groupOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
}

const lives = (pid: number) => {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

async function kill(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.kill("SIGKILL");
  countKill();
  await ended;
}

/** Says its process id, goes on when it is told to, prints, and leaves its effect and its result. */
const working = (end: string) => `
  echo $$ > ready
  while [ ! -e finish ]; do sleep 0.02; done
  echo still printing; echo and here >&2
  echo effect >> effects
  echo '{"posted":7}' > "$NEVERTWICE_RESULT_FILE"
  echo printed after it
  ${end}
`;

/** A command under way whose runner is killed; `finish` lets it end. */
async function orphan(end: string, flags: readonly string[] = []) {
  const folder = temporaryFolder();
  const { child, ended } = start(folder, working(end), flags);
  const command = Number(await written(join(folder, "ready")));
  const gate = groupOf(command);
  await kill(child, ended);
  const finish = async () => {
    writeFileSync(join(folder, "finish"), "");
    await until(() => !lives(command) && !lives(gate), "the end of the command");
  };
  const effects = () => readFileSync(join(folder, "effects"), "utf8");
  return { folder, command, gate, finish, effects };
}

const AGAIN = "echo again >> effects";

describe("a command that outlives its runner", () => {
  it.each([
    ["", []],
    ["--hold", ["--hold"]],
    ["--on-stale hold", ["--on-stale", "hold"]],
  ])("R2: %s: still runs, then is done, with its result; its effect happens once", async (_, flags) => {
    const { folder, finish, effects } = await orphan("exit 0", flags);
    const { code, json } = await call(folder, AGAIN, flags);
    expect([code, json.ran, json.words]).toEqual([0, false, expect.stringMatching(/the command still runs/)]);
    await finish();
    const found = await call(folder, AGAIN, [...flags, "--on-skip", "75"]);
    expect(found).toMatchObject({ code: 75, json: { ran: false, outcome: { status: "done" } } });
    expect(found.json.words).toMatch(
      /the command had exited with 0, and its runner ended without reporting it: recorded as done; skipped\./,
    );
    expect(found.json.outcome.result).toMatchObject({ exitCode: 0, result: { posted: 7 } });
    const later = await call(folder, AGAIN, flags);
    expect(later).toMatchObject({ code: 0, json: { ran: false, words: expect.stringMatching(/already done/) } });
    expect(effects()).toBe("effect\n");
    expect(readdirSync(join(folder, "ledger.db.exits"))).toEqual([]);
  });

  it("R2: a failure is recorded with its exit code, which that call passes on; the next one runs it again", async () => {
    const { folder, finish, effects } = await orphan("exit 7");
    await finish();
    const found = await call(folder, AGAIN);
    expect(found).toMatchObject({ code: 7, json: { ran: false, outcome: { status: "failed" } } });
    expect(found.json.words).toMatch(
      /exited with 7 after \d+ ms\. Its runner ended without reporting it; it is recorded now/,
    );
    expect(effects()).toBe("effect\n");
    expect(await call(folder, AGAIN)).toMatchObject({ code: 0, json: { ran: true } });
    expect(effects()).toBe("effect\nagain\n");
  });

  it.each([
    ["--hold", ["--hold"]],
    ["--on-failure hold", ["--on-failure", "hold"]],
  ])("R2: a failure with %s waits for a person, with its exit code", async (_, flags) => {
    const { folder, finish, effects } = await orphan("exit 7", flags);
    await finish();
    for (const again of [flags, []]) {
      const { code, json } = await call(folder, AGAIN, again);
      expect([code, json.ran]).toEqual([13, false]);
      expect(json.words).toMatch(/in doubt: the command exited with 7, and --on-failure is hold\./);
    }
    expect(effects()).toBe("effect\n");
  });

  it("R2: killed by a signal, it is 128 + n, as its runner would have said", async () => {
    const { folder, finish } = await orphan("kill -TERM $$");
    await finish();
    const found = await call(folder, AGAIN);
    expect(found).toMatchObject({ code: 143, json: { words: expect.stringMatching(/was ended by SIGTERM/) } });
  });
});

describe("the shell that waits for the command is killed", () => {
  it("with the runner: the command is left to end, and then nobody knows how it did: it is taken over", async () => {
    const { folder, gate, finish, effects } = await orphan("exit 0");
    process.kill(gate, "SIGKILL");
    const { json } = await call(folder, AGAIN);
    expect([json.ran, json.words]).toEqual([false, expect.stringMatching(/the command still runs/)]);
    await finish();
    expect(await call(folder, AGAIN)).toMatchObject({ code: 0, json: { ran: true } });
    expect(effects()).toBe("effect\nagain\n");
  });

  it("with the runner, and --on-stale hold: it waits for a person", async () => {
    const flags = ["--on-stale", "hold"];
    const { folder, gate, finish, effects } = await orphan("exit 0", flags);
    process.kill(gate, "SIGKILL");
    await finish();
    expect(await call(folder, AGAIN, flags)).toMatchObject({ code: 13, json: { ran: false } });
    expect(effects()).toBe("effect\n");
  });

  it("alone: its runner waits for the command all the same, and says that the end is not known", async () => {
    const folder = temporaryFolder();
    const { child, ended } = start(folder, working("exit 0"));
    const command = Number(await written(join(folder, "ready")));
    process.kill(groupOf(command), "SIGKILL");
    // Longer than a group takes to die as a whole.
    await new Promise((next) => setTimeout(next, 1_500));
    expect(child.exitCode).toBe(null);
    expect(await call(folder, AGAIN)).toMatchObject({ code: 0, json: { ran: false } });
    writeFileSync(join(folder, "finish"), "");
    const { code, json } = await ended;
    expect([code, json.ran]).toEqual([13, true]);
    expect(json.words).toMatch(/the shell that waits for the command was killed .* its exit code is not known/);
  });
});

describe("the whole group is killed with its runner", () => {
  it.each([
    ["taken over", [], { code: 0, json: { ran: true } }],
    ["held with --hold", ["--hold"], { code: 13, json: { ran: false } }],
    ["held with --on-stale hold", ["--on-stale", "hold"], { code: 13, json: { ran: false } }],
  ])("R2: it is %s", async (_, flags, expected) => {
    const { folder, gate, command } = await orphan("exit 0", flags);
    process.kill(-gate, "SIGKILL");
    await until(() => !lives(gate) && !lives(command), "the end of the group");
    expect(await call(folder, AGAIN, flags)).toMatchObject(expected);
  });
});

const SLOTS = 8;

it(`R2: ${SLOTS} runners killed at random moments: each command that ended has its effect once, without a provider's key`, async () => {
  const folder = temporaryFolder();
  const store = `sqlite:${join(folder, "ledger.db")}`;
  const random = seeded(20261116);
  const script =
    ': > "began-$NEVERTWICE_SLOT"; sleep 0.05; echo "$NEVERTWICE_SLOT" >> effects; echo printed; sleep 0.05; echo printed again';
  const fire = (slot: string) => {
    const line = ["run", "--job", "k", "--slot", slot, "--json", "--store", store, "--", "sh", "-c", script];
    const child = spawn(process.execPath, [CLI, ...line], { cwd: folder, stdio: ["ignore", "pipe", "ignore"] });
    let out = "";
    child.stdout?.on("data", (chunk) => {
      out += chunk;
    });
    const ended = new Promise<string | null>((done) =>
      child.once("close", () => done(out === "" ? null : JSON.parse(out).outcome.status)),
    );
    return { child, ended };
  };
  let orphans = 0;
  /** Before the command begins, or while it runs: a busy machine takes long to start a runner. */
  const settle = async (slot: string, at: number) => {
    const first = fire(slot);
    const began = () => existsSync(join(folder, `began-${slot}`));
    if (at % 4 !== 0) await until(began, slot);
    await new Promise((next) => setTimeout(next, random() * 150));
    if (first.child.kill("SIGKILL") && began()) orphans += 1;
    countKill();
    let status = await first.ended;
    for (let time = 0; status !== "done" && time < 200; time += 1) status = await fire(slot).ended;
    expect(status, slot).toBe("done");
  };
  const slots = Array.from({ length: SLOTS }, (_, i) => `slot-${i + 1}`);
  const queue = [...slots.entries()];
  await Promise.all(
    [1, 2, 3].map(async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await settle(next[1], next[0]);
    }),
  );
  console.log(`nevertwice run: ${orphans} of ${SLOTS} commands lost their runner`);
  expect(orphans).toBeGreaterThan(0);
  expect(readFileSync(join(folder, "effects"), "utf8").trim().split("\n").sort()).toEqual([...slots].sort());
}, 120_000);

it("R2: `show` and `ls` say that the command still runs, and later how it ended", async () => {
  const { folder, finish } = await orphan("exit 7");
  const look = async (line: readonly string[]) => {
    const child = spawn(process.execPath, [CLI, ...line, "--store", `sqlite:${folder}/ledger.db`], {
      env: { ...process.env, COLUMNS: "300" },
    });
    let out = "";
    child.stdout.on("data", (chunk) => {
      out += chunk;
    });
    await new Promise((done) => child.once("close", done));
    return out;
  };
  // Its call makes the doubt visible.
  const { key } = (await call(folder, AGAIN)).json.outcome;
  expect(await look(["show", key])).toMatch(/its runner died\. Its command still runs/);
  await finish();
  expect(await look(["show", key])).toMatch(/Its command exited with 7; the next call for this slot records it/);
  expect(await look(["ls", "--doubt"])).toMatch(/its command exited with 7/);
});
