/**
 * R2, F4 for `nevertwice run`: a runner that is killed between its claim of the slot and the start of the command has run
 * nothing. The next call on its host takes the slot over at once, though the lease of 30 minutes still runs; never from a
 * runner that lives.
 */
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const DIE_AT = new URL("lib/die-at.mjs", import.meta.url).href;
const POINTS = ["claimed", "file-made", "gate-started", "marked"] as const;

type Point = (typeof POINTS)[number] | "marked-all";

afterAll(cleanUp);

const storeOf = (folder: string, kind = "sqlite") =>
  `${kind}:${join(folder, kind === "file" ? "ledger.jsonl" : "ledger.db")}`;

function command(folder: string, line: readonly string[], die?: string) {
  const env = { ...process.env, COLUMNS: "300" };
  const child = spawn(process.execPath, [CLI, ...line], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
    env: die === undefined ? env : { ...env, NODE_OPTIONS: `--import=${DIE_AT}`, NEVERTWICE_TEST_DIE: die },
  });
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  const ended = new Promise<{ code: number | null; signal: string | null; out: string }>((done) => {
    child.once("close", (code, signal) => done({ code, signal, out }));
  });
  return { child, ended };
}

interface Given {
  readonly flags?: readonly string[];
  readonly kind?: string;
}

const WORK = 'echo "$NEVERTWICE_ATTEMPT" >> effects';

const runLine = (folder: string, { flags = [], kind }: Given) => [
  ...["run", "--job", "j", "--slot", "s", "--json", "--store", storeOf(folder, kind), ...flags],
  ...["--", "sh", "-c", WORK],
];

async function call(folder: string, given: Given = {}) {
  const { code, out } = await command(folder, runLine(folder, given)).ended;
  return { code, json: JSON.parse(out) };
}

const effects = (folder: string) =>
  existsSync(join(folder, "effects")) ? readFileSync(join(folder, "effects"), "utf8") : "";

async function until(look: () => boolean, what: string): Promise<void> {
  for (let poll = 0; poll < 2_000; poll += 1) {
    if (look()) return;
    await new Promise((next) => setTimeout(next, 10));
  }
  throw new Error(`never seen: ${what}`);
}

async function killedAt(point: Point, given: Given = {}): Promise<string> {
  const folder = temporaryFolder();
  const { signal } = await command(folder, runLine(folder, given), `${point} SIGKILL`).ended;
  expect(signal).toBe("SIGKILL");
  countKill();
  // Its gate notices a moment later, and leaves word of it.
  const exits = `${join(folder, given.kind === "file" ? "ledger.jsonl" : "ledger.db")}.exits`;
  if (point === "marked")
    await until(() => readdirSync(exits).some((name) => !name.endsWith(".open")), "the gate's end");
  expect(effects(folder)).toBe("");
  return folder;
}

describe("killed between the claim and the start of the command", () => {
  const flags = { "no flag": [], "--on-stale hold": ["--on-stale", "hold"], "--hold": ["--hold"] };
  for (const point of POINTS)
    it.each(Object.entries(flags))(`${point}, %s: the next call runs it, as its first attempt`, async (_, given) => {
      const folder = await killedAt(point, { flags: given });
      expect(await call(folder, { flags: given })).toMatchObject({ code: 0, json: { ran: true } });
      expect(effects(folder)).toBe("1\n");
      expect(await call(folder, { flags: given })).toMatchObject({ code: 0, json: { ran: false } });
      expect(effects(folder)).toBe("1\n");
    });

  it("on a ledger that is a file of lines too", async () => {
    const folder = await killedAt("claimed", { kind: "file" });
    expect(await call(folder, { kind: "file" })).toMatchObject({ code: 0, json: { ran: true } });
    expect(effects(folder)).toBe("1\n");
  });

  it("several calls at once: one of them takes it over", async () => {
    const folder = await killedAt("claimed");
    const calls = await Promise.all([1, 2, 3, 4].map(() => call(folder)));
    expect(calls.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(calls.filter(({ json }) => json.ran)).toHaveLength(1);
    expect(effects(folder)).toBe("1\n");
  });

  it("while it makes the plan: the next call makes the plan anew, and does not wait for its lease", async () => {
    const folder = temporaryFolder();
    const plan = "if [ ! -e planning ]; then : > planning; sleep 3; fi; echo 1";
    const given = { flags: ["--plan", plan, "--lease", "30m"] };
    const { child, ended } = command(folder, runLine(folder, given));
    await until(() => existsSync(join(folder, "planning")), "the plan");
    child.kill("SIGKILL");
    countKill();
    await ended;
    expect(await call(folder, given)).toMatchObject({ code: 0, json: { ran: true } });
    expect(effects(folder)).toBe("1\n");
  });
});

it("a runner that stands still at that place lives: nothing is taken over from it, and it goes on", async () => {
  const folder = temporaryFolder();
  const { child, ended } = command(folder, runLine(folder, {}), "claimed SIGSTOP");
  const stopped = () => / T /.test(readFileSync(`/proc/${child.pid}/stat`, "utf8"));
  await until(stopped, "the runner standing still");
  const { code, json } = await call(folder);
  expect([code, json.ran, json.words]).toEqual([0, false, expect.stringMatching(/running since/)]);
  child.kill("SIGCONT");
  expect(await ended).toMatchObject({ code: 0 });
  expect(effects(folder)).toBe("1\n");
});

it("killed after the send mark with everything around it: nobody can tell, and --on-stale hold holds it", async () => {
  const flags = ["--on-stale", "hold"];
  const folder = await killedAt("marked-all", { flags });
  const { code, json } = await call(folder, { flags });
  expect([code, json.ran]).toEqual([13, false]);
  const look = async (line: readonly string[]) =>
    (await command(folder, [...line, "--store", storeOf(folder)]).ended).out;
  expect(await look(["show", json.outcome.key])).toMatch(/until somebody decides/);
  expect(await look(["ls", "--doubt"])).toMatch(/1 record in doubt/);
  expect(effects(folder)).toBe("");
  // Each call says for itself what is to follow.
  expect(await call(folder)).toMatchObject({ code: 0, json: { ran: true } });
});

it("`show`, `ls` and `doctor` go by the process, not by the lease", async () => {
  const look = async (folder: string, line: readonly string[]) =>
    (await command(folder, [...line, "--store", storeOf(folder)]).ended).out;
  const keyIn = async (folder: string) => JSON.parse(await look(folder, ["ls", "--json"])).records[0].key;
  const cases: readonly (readonly [Point, readonly string[], RegExp])[] = [
    ["claimed", [], /nothing was started, and the next call for this slot takes it over/],
    ["marked", [], /its command was not started; the next call for this slot runs it/],
    ["marked-all", [], /nothing of its run is left, and the next call for this slot takes it over/],
    ["marked-all", ["--hold"], /nothing of its run is left, and it was to be held/],
  ];
  for (const [point, flags, words] of cases) {
    const folder = await killedAt(point, { flags });
    const key = await keyIn(folder);
    const shown = (await look(folder, ["show", key])).replace(/\s+/g, " ");
    expect(shown).toMatch(/its runner is no longer running: /);
    expect(shown).toMatch(words);
    expect(shown).toMatch(/process \d+, which has ended, \d+m of its lease left/);
    expect(shown).not.toMatch(/under way|still answers/);
    expect(JSON.parse(await look(folder, ["show", key, "--json"])).record.runnerGone).toBe(true);
    expect(await look(folder, ["ls"])).toMatch(/runner gone: /);
    expect(await look(folder, ["doctor"])).toMatch(/1 slot whose runner is no longer running/);
  }
});
