/**
 * S4: an agent in plain Python that publishes one post a day, called by crontab and by launchd. The nights that went
 * wrong: a 502 from the model, a kill in the middle, a night on which everything is slow, two schedulers at once. Time is
 * compressed: gates in the agent stand for its four minutes, and the lease is shorter than what it takes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { afterEach, beforeEach, expect, it } from "vitest";
import { cleanUp, temporaryFolder } from "../crash/lib/processes.mjs";

const CLI = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const BUCKETS = ["production-reliability", "agents", "tooling"];

/** Plans what the post is about: by the slot's number, and without what was published lately. */
const PLAN = `
import json, os, sys
buckets = ${JSON.stringify(BUCKETS)}
recent = json.loads(os.environ["NEVERTWICE_RECENT"])
open("plans", "a").write(os.environ["NEVERTWICE_SLOT"] + "\\n")
json.dump({
    "date": os.environ["NEVERTWICE_SLOT"],
    "bucket": buckets[int(os.environ["NEVERTWICE_SLOT_NUMBER"]) % len(buckets)],
    "excluded": [post["slug"] for post in recent],
}, sys.stdout)
`;

/**
 * The agent: a fresh session without memory. It writes another text each time; the slug comes from its plan. Publishing
 * is what must not happen twice: the site takes the slot's key and creates the post only if it is new.
 */
const AGENT = `
import json, os, sys, time, uuid
slot, attempt = os.environ["NEVERTWICE_SLOT"], os.environ["NEVERTWICE_ATTEMPT"]
plan = json.loads(os.environ["NEVERTWICE_PLAN"])
open("sessions", "a").write(json.dumps({"slot": slot, "attempt": attempt, "plan": plan}) + "\\n")
mine = "living-" + slot + "-" + str(os.getpid())
open(mine, "w").write("")
if len([name for name in os.listdir(".") if name.startswith("living-" + slot)]) > 1:
    open("overlaps", "a").write(slot + "\\n")
def gate(name):
    while os.path.exists("gate-" + name + "-" + slot):
        open("at-" + name + "-" + slot, "w").write(attempt)
        time.sleep(0.02)
gate("thinking")
if os.path.exists("502-" + slot):
    os.remove("502-" + slot)
    os.remove(mine)
    print("the model answered 502 Bad Gateway", file=sys.stderr)
    sys.exit(1)
slug = plan["bucket"] + "-" + slot
try:
    with open("site-" + os.environ["NEVERTWICE_KEY"], "x") as post:
        json.dump({"slug": slug, "text": str(uuid.uuid4())}, post)
except FileExistsError:
    print("the site has this post already")
gate("published")
with open(os.environ["NEVERTWICE_RESULT_FILE"], "w") as result:
    json.dump({"slug": slug}, result)
os.remove(mine)
`;

let folder: string;
const living = new Set<ChildProcess>();
beforeEach(() => {
  folder = temporaryFolder();
  writeFileSync(join(folder, "agent.py"), AGENT);
  writeFileSync(join(folder, "plan.py"), PLAN);
});
afterEach(async () => {
  for (const child of living) child.kill("SIGKILL");
  cleanUp();
});

interface Fired {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; said: string }>;
}

/** One line of a crontab, or one launchd job: the same command. */
function fire(slot: string, flags: readonly string[] = [], store = "sqlite:ledger.db"): Fired {
  const line = ["run", "--job", "landing", "--slot", slot, "--plan", "python3 plan.py", "--store", store, "--verbose"];
  const child = spawn(process.execPath, [CLI, ...line, ...flags, "--", "python3", "agent.py"], {
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  living.add(child);
  let said = "";
  const hear = (chunk: Buffer) => {
    said += chunk.toString();
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  const ended = new Promise<{ code: number | null; said: string }>((done) =>
    child.once("close", (code) => {
      living.delete(child);
      done({ code, said });
    }),
  );
  return { child, ended };
}

/** The runner, the command with the shell that waits for it, and what passes on its output. */
function killTree(runner: ChildProcess): void {
  const groups = readFileSync(`/proc/${runner.pid}/task/${runner.pid}/children`, "utf8").trim().split(" ");
  runner.kill("SIGKILL");
  for (const group of groups) process.kill(-Number(group), "SIGKILL");
}

const path = (name: string) => join(folder, name);
const close = (gate: string, slot: string) => writeFileSync(path(`gate-${gate}-${slot}`), "");
const open = (gate: string, slot: string) => spawn("rm", ["-f", path(`gate-${gate}-${slot}`)]);
const posts = () => readdirSync(folder).filter((name) => name.startsWith("site-"));
const lines = (name: string) =>
  existsSync(path(name))
    ? readFileSync(path(name), "utf8")
        .trim()
        .split("\n")
        .filter((line) => line !== "")
    : [];
const sessions = (slot: string) =>
  lines("sessions")
    .map((line) => JSON.parse(line) as { slot: string; attempt: string; plan: { bucket: string; excluded: string[] } })
    .filter((one) => one.slot === slot);

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let look = 0; look < 3_000; look += 1) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error("it did not come to that");
}

const reached = (gate: string, slot: string) => until(() => existsSync(path(`at-${gate}-${slot}`)));

it("S4, R9: a 502: the scheduler calls four minutes later, and the fresh session gets the same plan; one post", async () => {
  const slot = "2026-06-19";
  writeFileSync(path(`502-${slot}`), "");
  const first = await fire(slot).ended;
  expect([first.code, first.said]).toEqual([
    1,
    expect.stringMatching(/exited with 1 .*502 Bad Gateway.*The next call for this slot runs it again\./s),
  ]);
  expect((await fire(slot).ended).code).toBe(0);
  expect((await fire(slot).ended).said).toMatch(/already done .*; skipped\./);
  expect(posts().length).toBe(1);
  expect(lines("plans")).toEqual([slot]);
  const [one, two] = sessions(slot);
  expect([one?.attempt, two?.attempt]).toEqual(["1", "2"]);
  expect(two?.plan).toEqual(one?.plan);
});

it("S4, R9: a kill after the post was published: the agent finishes, the next call records it, and the site has one post", async () => {
  const slot = "2026-06-20";
  close("published", slot);
  const killed = fire(slot);
  await reached("published", slot);
  killed.child.kill("SIGKILL");
  await killed.ended;
  // The agent goes on without its runner: nothing is started beside it, though nobody holds the lease any more.
  expect((await fire(slot).ended).said).toMatch(
    /its runner died, and the command still runs \(process group \d+\); skipped/,
  );
  open("published", slot);
  await until(async () => !readdirSync(folder).some((name) => name.startsWith(`living-${slot}`)));
  // With the default lease of 30 minutes: on one host the runner's death is seen, and not waited for.
  await until(async () => (await fire(slot).ended).said.includes("exited with 0, and its runner ended"));
  expect((await fire(slot).ended).said).toMatch(/already done .*; skipped\./);
  expect(posts().length).toBe(1);
  expect(sessions(slot).map(({ attempt }) => attempt)).toEqual(["1"]);
  expect(lines("overlaps")).toEqual([]);
});

it("S4, R9: the whole tree is killed before anything was published: the next call does it", async () => {
  const slot = "2026-06-21";
  close("thinking", slot);
  const killed = fire(slot);
  await reached("thinking", slot);
  killTree(killed.child);
  await killed.ended;
  open("thinking", slot);
  for (const name of readdirSync(folder).filter((one) => one.startsWith(`living-${slot}`))) spawn("rm", [path(name)]);
  await until(async () => (await fire(slot).ended).said.includes("done in"));
  expect(posts().length).toBe(1);
  expect(lines("plans")).toEqual([slot]);
});

it("S4, R8: a slow night: the agent takes many leases, is not cut off, and no other call runs beside it", async () => {
  const slot = "2026-06-22";
  close("thinking", slot);
  const slow = fire(slot, ["--lease", "1s"]);
  await reached("thinking", slot);
  const said: string[] = [];
  const since = performance.now();
  while (performance.now() - since < 4_000) said.push((await fire(slot, ["--lease", "1s"]).ended).said);
  expect(said.every((one) => /running since .*; skipped\./.test(one))).toBe(true);
  open("thinking", slot);
  expect((await slow.ended).code).toBe(0);
  expect([posts().length, sessions(slot).length, lines("overlaps")]).toEqual([1, 1, []]);
});

it.each(["sqlite:ledger.db", "file:ledger.jsonl"])(
  "S4, R1: crontab and launchd start it at the same moment, night after night, on %s: one post each, never one bucket twice in a row",
  async (store) => {
    const slots = ["2026-06-28", "2026-06-29", "2026-06-30", "2026-07-01"];
    for (const slot of slots) {
      const ended = await Promise.all([1, 2, 3].map(() => fire(slot, [], store).ended));
      expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
    }
    expect([posts().length, lines("overlaps"), lines("plans")]).toEqual([4, [], slots]);
    const plans = slots.map((slot) => sessions(slot)[0]?.plan);
    const buckets = plans.map((plan) => plan?.bucket);
    expect(buckets.every((bucket, at) => at === 0 || bucket !== buckets[at - 1])).toBe(true);
    // The newest first: what not to write about again.
    expect(plans[3]?.excluded).toEqual([2, 1, 0].map((at) => `${buckets[at]}-${slots[at]}`));
  },
);

it("S4, R9: --hold: after a kill nobody runs it again until a person has looked", async () => {
  const slot = "2026-07-04";
  close("published", slot);
  const killed = fire(slot, ["--hold"]);
  await reached("published", slot);
  killTree(killed.child);
  await killed.ended;
  open("published", slot);
  const held = await fire(slot).ended;
  expect([held.code, held.said]).toEqual([
    13,
    expect.stringMatching(/in doubt: .*Look, and settle it: nevertwice show/),
  ]);
  const nt = nevertwice({ store: `sqlite:${path("ledger.db")}`, sweep: false });
  const { items } = await nt.store.list({ limit: 1, action: "job:landing" });
  const key = items[0]?.record.key as string;
  await nt.resolve({ key }, { as: "done", by: "liam", reason: "the post is on the site" });
  await nt.close();
  expect((await fire(slot).ended).said).toMatch(/already done .*; skipped\./);
  expect([posts().length, sessions(slot).length]).toEqual([1, 1]);
});
