/** One slot, asked for by `nevertwice run` and by a job in code: the second one is answered with what the first one did. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Nevertwice } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import { deriveKey } from "../core/key/key.ts";
import { instantOfSlot, slotOfInstant, timetable } from "../schedule/timetable.ts";

let cli: CliLedger;
let nt: Nevertwice;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
  nt = cli.program();
});
afterEach(() => cli.close());

// The last instant is the same before and after midnight in either zone for all but a moment of the year.
const CRON = "0 6 1 * *";
const ZONES = [undefined, "Europe/Berlin", "America/Los_Angeles"] as const;

function scheduled(tz?: string) {
  const times = timetable({ cron: CRON, ...(tz !== undefined && { tz }) }, "test");
  return times.upTo(Date.now(), 1)[0] as number;
}

const sh = (script: string) => ["--", "sh", "-c", script];
const command = (slot: readonly string[], script: string, flags: readonly string[] = []) =>
  cli.run(["run", "--job", "invoices", ...slot, ...flags, "--json", ...sh(script)], {
    env: { PATH: process.env.PATH ?? "" },
  });
const inCode = (run: () => unknown, options: { tz?: string } = {}) =>
  nt.job("invoices", { cron: CRON, run, ...options });

/** The ways to name one slot on the command line. */
const WAYS = ZONES.flatMap((tz) => {
  const slot = slotOfInstant(scheduled(tz));
  const zone = tz === undefined ? [] : ["--tz", tz];
  return [
    { way: `--cron ${zone.join(" ")}`, tz, argv: ["--cron", CRON, ...zone] },
    { way: `--slot ${slot}`, tz, argv: ["--slot", slot] },
  ];
});

describe.each(WAYS)("a job in code and nevertwice run $way", ({ tz, argv }) => {
  const zone = tz === undefined ? {} : { tz };

  it("the command has run: the job in code is answered as done before", async () => {
    expect((await command(argv, "echo sent")).json).toMatchObject({ ran: true });
    let ran = 0;
    const outcome = await inCode(() => ++ran, zone).runAt(scheduled(tz));
    expect(outcome).toMatchObject({ status: "done", replayed: true });
    expect(outcome).not.toHaveProperty("differs");
    expect(ran).toBe(0);
  });

  it("the job in code has run: the command is skipped", async () => {
    await inCode(() => "sent", zone).runAt(scheduled(tz));
    const { code, json, err } = await command(argv, "echo ran");
    expect([code, err]).toEqual([0, ""]);
    expect(json).toMatchObject({ ran: false, outcome: { status: "done", replayed: true } });
    expect(json.outcome).not.toHaveProperty("differs");
  });
});

describe("a job in code and nevertwice run", () => {
  const argv = ["--cron", CRON];

  it("the job in code is running: the command is skipped", async () => {
    let release = () => {};
    const gate = new Promise<void>((open) => {
      release = open;
    });
    let began = () => {};
    const begun = new Promise<void>((done) => {
      began = done;
    });
    const running = inCode(() => {
      began();
      return gate;
    }).runAt(scheduled());
    await begun;
    const { code, json } = await command(argv, "echo ran");
    release();
    await running;
    expect([code, json.ran, json.outcome.status]).toEqual([0, false, "in_flight"]);
  });

  it("the command is running: the job in code is answered as in flight", async () => {
    const waits = "touch begun; while [ ! -e go ]; do sleep 0.05; done";
    const running = command(argv, waits);
    const job = inCode(() => "ran");
    while ((await job.statusAt(scheduled())).status !== "in_flight") await new Promise((done) => setTimeout(done, 20));
    const outcome = await job.runAt(scheduled());
    writeFileSync(join(cli.folder, "go"), "");
    expect(outcome).toMatchObject({ status: "in_flight" });
    expect((await running).json).toMatchObject({ ran: true });
  });

  it("the command failed: the job in code runs the slot, with its instant and its plan", async () => {
    expect((await command(argv, "exit 7")).code).toBe(7);
    const seen: unknown[] = [];
    const job = nt.job("invoices", {
      cron: CRON,
      plan: () => ({ topic: "cost" }),
      run: ({ at, slot, plan }) => void seen.push(at, slot, plan),
    });
    expect(await job.runAt(scheduled())).toMatchObject({ status: "done", replayed: false });
    expect(seen).toEqual([new Date(scheduled()), slotOfInstant(scheduled()), { topic: "cost" }]);
  });

  it("R9: a run in code failed: the command runs the slot", async () => {
    const broken = inCode(() => {
      throw new Error("who knows");
    });
    expect(await broken.runAt(scheduled())).toMatchObject({ status: "failed", final: false });
    const { code, json } = await command(argv, "echo ran");
    expect([code, json.ran, json.outcome.attempt]).toEqual([0, true, 2]);
  });

  it("R9: a run in code with doubt: hold is in doubt: the command runs nothing, whatever --on-stale says", async () => {
    const broken = nt.job("invoices", {
      cron: CRON,
      doubt: "hold",
      run: () => {
        throw new Error("who knows");
      },
    });
    expect(await broken.runAt(scheduled())).toMatchObject({ status: "unknown" });
    for (const flags of [[], ["--on-stale", "hold"], ["--on-failure", "hold"]]) {
      const { code, json } = await command(argv, "echo ran", flags);
      expect([code, json.ran, json.outcome.status]).toEqual([13, false, "unknown"]);
    }
  });

  it("the command is in doubt: a job in code with doubt: retry runs the slot, with its own plan", async () => {
    expect((await command(argv, "exit 1", ["--on-failure", "hold"])).code).toBe(13);
    expect(await inCode(() => "ran").runAt(scheduled())).toMatchObject({ status: "unknown" });
    const plans: unknown[] = [];
    const job = cli.program().job("invoices", {
      cron: CRON,
      doubt: "retry",
      plan: () => "planned",
      run: ({ plan }) => void plans.push(plan),
    });
    expect(await job.runAt(scheduled())).toMatchObject({ status: "done" });
    expect(plans).toEqual(["planned"]);
  });

  it("records of releases that compared the instant too are answered in the same way", async () => {
    const input = { slot: slotOfInstant(scheduled()), at: scheduled() };
    // As earlier releases recorded it: in code the slot and its instant. The name is the ledger's own by now, so it is made under another.
    const nt = cli.program();
    const send = nt.action("invoices", { key: ["slot"], run: (_: typeof input) => "sent" });
    await send(input);
    const [stored] = await nt.store.read([await send.keyOf(input)]);
    const identity = { tenant: "", action: "job:invoices", version: 1, scope: null, secret: undefined };
    const record = { ...stored?.record, action: "job:invoices", key: deriveKey({ ...identity, parts: [input.slot] }) };
    await cli.put(record);
    expect((await command(argv, "echo ran")).json).toMatchObject({ ran: false, outcome: { status: "done" } });
    expect(await inCode(() => "ran").runAt(scheduled())).toMatchObject({ status: "done", replayed: true });
  });

  it("a slot's name says its instant", () => {
    for (const at of [0, scheduled(), Date.parse("2026-01-15T06:00:30Z"), Date.parse("2026-01-15T06:00:00.100Z")])
      expect(instantOfSlot(slotOfInstant(at))).toBe(at);
  });
});
