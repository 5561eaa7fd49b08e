/** However a run ends, its servers and its folder go with it. Each test starts a run of its own and looks for traces. */
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { until } from "../support/gate.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const script = join(root, "scripts/services.mjs");
const vitest = join(root, "node_modules/vitest/vitest.mjs");
const inner = "nevertwice-services-";

describe.runIf(existsSync("/proc/self/cwd"))("nothing is left behind", () => {
  test.each(["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"] as const)("by the script after %s", async (signal) => {
    const run = start([script, "postgres", "redis"]);
    await until(() => run.said.text.includes("up; Ctrl-C"), "the servers");
    expect(processesOf(run.temporary).length).toBeGreaterThanOrEqual(3);
    process.kill(run.group, signal);
    expect(await run.ended).toBe(signal === "SIGKILL" ? null : 0);
    await expectNothingLeft(run.temporary);
  });

  test.each([0, 500, 1_500])("by a script that is killed %i ms into its start", async (ms) => {
    const run = start([script]);
    await until(() => processesOf(run.temporary).length > 0, "the keeper");
    await new Promise((resume) => setTimeout(resume, ms));
    process.kill(run.group, "SIGKILL");
    await run.ended;
    await expectNothingLeft(run.temporary);
  });

  test("when the keeper itself is killed: no server at once, no folder when the run ends", async () => {
    const run = start([script, "postgres", "redis"]);
    await until(() => run.said.text.includes("up; Ctrl-C"), "the servers");
    const keeper = processesOf(run.temporary).find((pid) => isKeeper(pid, run.temporary));
    process.kill(Number(keeper), "SIGKILL");
    await until(() => processesOf(run.temporary).length === 0, "the servers' end");
    process.kill(run.group, "SIGINT");
    await run.ended;
    await expectNothingLeft(run.temporary);
  });

  test("by a server that was stopped with SIGSTOP", async () => {
    const run = start([script, "redis", "postgres"]);
    await until(() => run.said.text.includes("up; Ctrl-C"), "the servers");
    for (const pid of processesOf(run.temporary)) {
      if (!isKeeper(pid, run.temporary)) process.kill(Number(pid), "SIGSTOP");
    }
    process.kill(run.group, "SIGKILL");
    await run.ended;
    await expectNothingLeft(run.temporary);
  });

  test("by a test run with a failing test", async () => {
    const run = startTests('throw new Error("on purpose")');
    expect(await run.ended).toBe(1);
    expect(run.said.text).toContain("on purpose");
    await expectNothingLeft(run.temporary);
  });

  test.each(["SIGINT", "SIGTERM", "SIGKILL"] as const)("by a test run after %s", async (signal) => {
    const run = startTests('process.stderr.write("it runs\\n"); await new Promise(() => {})');
    await until(() => run.said.text.includes("it runs"), "the test");
    process.kill(run.group, signal);
    await run.ended;
    await expectNothingLeft(run.temporary);
  });
});

function start(args: string[]) {
  const temporary = temporaryFolder();
  // In a group of its own, so that a signal to the group is Ctrl-C for this run only.
  const child = spawn(process.execPath, args, { cwd: root, env: environment(temporary), detached: true });
  const said = { text: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      said.text += chunk;
    });
  }
  const ended = new Promise<number | null>((done) => child.once("exit", done));
  onTestFinished(() => void child.kill("SIGKILL"));
  return { said, ended, temporary, group: -(child.pid as number) };
}

/** A vitest run with our global setup and one test with this body. */
function startTests(body: string) {
  const project = temporaryFolder();
  const globalSetup = join(root, "test/services/global-setup.ts");
  const config = { test: { globals: true, globalSetup: [globalSetup], testTimeout: 600_000, fileParallelism: false } };
  writeFileSync(join(project, "vitest.config.mjs"), `export default ${JSON.stringify(config)};\n`);
  writeFileSync(join(project, "one.test.mjs"), `test("one", async () => { ${body} });\n`);
  return start([vitest, "run", "--root", project, "--disable-console-intercept"]);
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "nt-run-"));
  chmodSync(folder, 0o755);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Without the outer run's servers, so that the inner run has to start its own. */
function environment(temporary: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(NEVERTWICE_TEST_|VITEST)/.test(name));
  return { ...Object.fromEntries(kept), TMPDIR: temporary };
}

/** The servers work in the run's folder, the keeper lets itself be found by its environment. */
function processesOf(temporary: string): string[] {
  const trace = join(temporary, inner);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => folderOf(pid).startsWith(trace) || isKeeper(pid, temporary));
}

function folderOf(pid: string): string {
  return orNothing(() => readlinkSync(`/proc/${pid}/cwd`));
}

function isKeeper(pid: string, temporary: string): boolean {
  const [command, environment] = ["cmdline", "environ"].map((file) =>
    orNothing(() => readFileSync(`/proc/${pid}/${file}`, "utf8")),
  );
  return command?.includes("keeper.mjs") === true && environment?.includes(`TMPDIR=${temporary}\0`) === true;
}

/** A process may end while we look at it. */
function orNothing(look: () => string): string {
  try {
    return look();
  } catch {
    return "";
  }
}

function folders(temporary: string): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith(inner));
}

async function expectNothingLeft(temporary: string): Promise<void> {
  await until(() => processesOf(temporary).length === 0, "the end of every process");
  await until(() => folders(temporary).length === 0, "the folder's removal");
}
