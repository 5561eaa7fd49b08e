/**
 * R1, F4 to F9 for `nevertwice run`: a scheduler that fires far too often, runners that are killed with SIGKILL at random,
 * alone or with their command. Each slot's effect (a provider that honours the key the command is given) happens once,
 * and every slot's does.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { afterAll, beforeAll, expect, it } from "vitest";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const KILLS = effort(15, 100);
const FIRE_EVERY_MS = 120;
const LEASE_MS = 1_500;
const MAX_FIRES = 5_000;

let provider: Awaited<ReturnType<typeof startProvider>>;
beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

/**
 * What the job does: one effect under the slot's key, slowly enough to be killed before, in and after it. The provider
 * honours the key, so two at once would still be one effect: each command also looks whether another one of its slot lives.
 */
const WORK = `
  import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
  const { NEVERTWICE_SLOT: slot, NEVERTWICE_KEY: key } = process.env;
  const [, , folder] = process.argv;
  const mine = folder + "/" + slot + ".pid";
  const lives = (pid) => {
    try {
      return !/\\) Z /.test(readFileSync("/proc/" + pid + "/stat", "utf8"));
    } catch {
      return false;
    }
  };
  try {
    writeFileSync(mine, String(process.pid), { flag: "wx" });
  } catch {
    if (lives(readFileSync(mine, "utf8"))) appendFileSync(folder + "/overlaps", slot + "\\n");
    writeFileSync(mine, String(process.pid));
  }
  await new Promise((done) => setTimeout(done, 60));
  const response = await fetch(process.argv[1] + "/effects", {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify({ id: slot, kind: "A", text: "digest" }),
  });
  if (!response.ok) process.exit(1);
  await new Promise((done) => setTimeout(done, 60));
  rmSync(mine, { force: true });
`;

const living = new Set<ReturnType<typeof spawn>>();

function fire(folder: string, store: string, slot: string) {
  const line = ["run", "--job", "digest", "--slot", slot, "--lease", `${LEASE_MS}ms`, "--store", store];
  const child = spawn(
    process.execPath,
    [CLI, ...line, "--", process.execPath, "--input-type=module", "-e", WORK, provider.url, folder],
    {
      stdio: "ignore",
      env: { ...process.env, NODE_OPTIONS: "" },
    },
  );
  living.add(child);
  const ended = new Promise<number | null>((done) => child.once("close", (code) => done(code)));
  void ended.then(() => living.delete(child));
  return { child, ended };
}

/** The process group of a runner's command, once there is one. Its output has a process of its own, which is started first. */
function commandOf(runner: number): number | null {
  try {
    const children = readFileSync(`/proc/${runner}/task/${runner}/children`, "utf8").trim().split(" ");
    return children.length < 2 ? null : Number(children.at(-1));
  } catch {
    return null;
  }
}

function killGroup(group: number): boolean {
  try {
    process.kill(-group, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}

it(`R1: killed ${KILLS} times at random while the scheduler fires every ${FIRE_EVERY_MS} ms: effects = slots`, async () => {
  const folder = temporaryFolder();
  const store = `sqlite:${join(folder, "ledger.db")}`;
  const random = seeded(20261115);
  const nt = nevertwice({ store, sweep: false });
  const done = async (slot: string) => {
    const { items } = await nt.store.list({ limit: 500, action: "job:digest", states: ["confirmed"] });
    return items.some(
      ({ record }) => record.input !== null && "json" in record.input && record.input.json.includes(`"${slot}"`),
    );
  };
  let kills = 0;
  let groups = 0;
  let slots = 0;
  let fires = 0;
  // Slot after slot: each is fired until the ledger says that it is done, and its runners are shot at meanwhile.
  while (kills < KILLS && fires < MAX_FIRES) {
    slots += 1;
    const slot = `A-slot-${slots}`;
    while (fires < MAX_FIRES) {
      const { child, ended } = fire(folder, store, slot);
      fires += 1;
      const shot = kills < KILLS && random() < 0.75;
      const together = random() < 0.5;
      if (shot) {
        setTimeout(
          () => {
            const group = together ? commandOf(child.pid as number) : null;
            if (child.kill("SIGKILL")) {
              if (group !== null && killGroup(group)) groups += 1;
              kills += 1;
              countKill();
            }
          },
          80 + random() * 450,
        );
      }
      await new Promise((next) => setTimeout(next, FIRE_EVERY_MS));
      if (living.size >= 4) await ended;
      if (living.size === 0 && (await done(slot))) break;
      if (living.size > 0 && fires % 3 === 0)
        await Promise.all([...living].map((one) => new Promise((over) => one.once("close", over))));
      if (await done(slot)) break;
    }
  }
  await Promise.all([...living].map((one) => new Promise((over) => one.once("close", over))));
  const names = Array.from({ length: slots }, (_, i) => `A-slot-${i + 1}`);
  for (const name of names) expect(await done(name), name).toBe(true);
  await nt.close();
  console.log(
    `nevertwice run: ${fires} runners started, ${kills} killed, ${groups} with their command, ${slots} slots`,
  );
  expect(existsSync(join(folder, "overlaps")), "two commands of one slot at once").toBe(false);
  expect(kills).toBeGreaterThanOrEqual(KILLS);
  expect(names.map((name) => provider.effectsOf(name))).toEqual(names.map(() => 1));
  expect(provider.mismatches).toEqual([]);
}, 400_000);
