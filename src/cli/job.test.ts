/** `nevertwice run`: one run per slot, its fate on record, its exit code for scripts. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import { jobAction } from "../schedule/job-action.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const env = { PATH: process.env.PATH ?? "" };
const job = (argv: readonly string[], more: { tty?: boolean } = {}) => cli.run(["run", ...argv], { env, ...more });
const sh = (script: string) => ["--", "sh", "-c", script];

async function recordOf(name: string) {
  const { items } = await cli.program().store.list({ limit: 1, action: jobAction(name) });
  return items[0]?.record;
}

describe("nevertwice run", () => {
  it("R1: runs the command once per slot; the second time it is skipped, and a crontab hears nothing", async () => {
    const line = ["--job", "digest", "--per", "day", ...sh("echo published >> log; echo published")];
    expect(await job(line)).toMatchObject({ code: 0, out: "published\n", err: "" });
    expect(await job(line)).toMatchObject({ code: 0, out: "", err: "" });
    expect((await job(line, { tty: true })).err).toMatch(/digest \d{4}-\d\d-\d\d: already done .*; skipped\./);
    expect(readFileSync(join(cli.folder, "log"), "utf8")).toBe("published\n");
    expect(await recordOf("digest")).toMatchObject({ state: "confirmed", attempt: 1 });
  });

  it("R1: what it was skipped for is an exit code, if one is asked for", async () => {
    const line = ["--job", "deploy", "--slot", "abc123", "--on-skip", "75"];
    expect((await job([...line, ...sh("true")])).code).toBe(0);
    expect((await job([...line, ...sh("true")])).code).toBe(75);
    expect((await job(["--job", "deploy", "--slot", "def456", "--on-skip", "75", ...sh("true")])).code).toBe(0);
  });

  it.each([
    ["hour", ["--per", "hour"], 30],
    ["month", ["--per", "month"], 62],
    ["quarter", ["--per", "quarter", "--tz", "Europe/Berlin"], 184],
    ["year", ["--per", "year"], 732],
    ["45 days", ["--per", "45d"], 90],
    ["a month that the shell wrote", ["--slot", "2026-01"], 62],
    ["a quarter by cron", ["--cron", "0 0 1 */3 *"], 184],
    ["a month, with a keep by hand", ["--per", "month", "--keep", "62d"], 62],
  ])("O8: a finished slot is kept for two slots at least: %s", async (_, slot, days) => {
    const line = ["--job", "report", ...slot, ...sh("true")];
    expect((await job(line)).code).toBe(0);
    expect((await job([...line.slice(0, 2), "--on-skip", "75", ...line.slice(2)])).code).toBe(75);
    const keptDays = ((await recordOf("report"))?.keepMs ?? 0) / 86_400_000;
    expect(keptDays).toBeGreaterThanOrEqual(days);
    // A day more on the first of a month: it may be the one before in another zone.
    expect(keptDays).toBeLessThan(days + 1);
  });

  it("R2: a command that fails is on record with its fate, passes its exit code on, and may run again", async () => {
    const line = ["--job", "sync", "--per", "hour"];
    const failed = await job([...line, ...sh("echo first; echo broken >&2; exit 7")]);
    expect(failed.code).toBe(7);
    expect(failed.err).toMatch(
      /broken\n.*sync .*exited with 7 after \d+ ms: .*broken.*The next call for this slot runs it/s,
    );
    expect(await recordOf("sync")).toMatchObject({
      state: "failed",
      final: false,
      error: { name: "CommandFailed", code: "EXIT_7", message: expect.stringContaining("broken") },
    });
    expect((await job([...line, ...sh("exit 0")])).code).toBe(0);
    expect(await recordOf("sync")).toMatchObject({ state: "confirmed", attempt: 2 });
  });

  it("ends as a shell would say it: 128 + the signal's number, 127 for a command that is not there", async () => {
    expect((await job(["--job", "a", "--per", "day", ...sh("kill -TERM $$")])).code).toBe(143);
    expect(await recordOf("a")).toMatchObject({ error: { code: "SIGTERM" } });
    expect((await job(["--job", "b", "--per", "day", "--", "no-such-command-here"])).code).toBe(127);
  });

  it.each([
    ["with --on-failure hold again", ["--on-failure", "hold"]],
    ["with --on-stale hold as well", ["--on-failure", "hold", "--on-stale", "hold"]],
    ["with --on-stale take-over", ["--on-failure", "hold", "--on-stale", "take-over"]],
    ["without --on-failure", []],
  ])("--on-failure hold: a command that failed is a doubt for a person; a call %s runs nothing", async (_, flags) => {
    const line = ["--job", "pay", "--slot", "1"];
    expect((await job([...line, "--on-failure", "hold", ...sh("exit 1")])).code).toBe(13);
    for (let call = 1; call <= 2; call += 1) {
      const again = await job([...line, ...flags, ...sh("echo ran")]);
      expect(again).toMatchObject({ code: 13, out: "" });
      expect(again.err).toMatch(/in doubt: .*Look, and settle it: nevertwice show nt1_/);
    }
    const record = await recordOf("pay");
    expect(record).toMatchObject({ state: "unknown", attempt: 1 });
    expect(record?.history.map(({ event }) => event)).toEqual(["doubt"]);
  });

  it("--on-failure hold: is in doubt also while something that the command left behind still runs", async () => {
    const line = ["--job", "pay", "--slot", "1", "--on-failure", "hold"];
    const leaving = "trap '' TERM; sleep 300 & echo $! > left; exit 1";
    const codes = [(await job([...line, ...sh(leaving)])).code, (await job([...line, ...sh("echo ran")])).code];
    process.kill(Number(readFileSync(join(cli.folder, "left"), "utf8")), "SIGKILL");
    expect(codes).toEqual([13, 13]);
  });

  it("--on-failure hold: a doubt that a person settled as not done is run again", async () => {
    const line = ["--job", "pay", "--slot", "1", "--on-failure", "hold"];
    await job([...line, ...sh("exit 1")]);
    const key = (await recordOf("pay"))?.key ?? "";
    expect((await cli.run(["resolve", key, "--not-done", "--reason", "no charge"])).code).toBe(0);
    expect(await job([...line, ...sh("echo ran")])).toMatchObject({ code: 0, out: "ran\n" });
  });

  it.each([
    ["again", ["--on-failure", "hold"]],
    ["by a call without it", []],
  ])("--timeout with --on-failure hold: a command that was ended is held, also when asked %s", async (_, flags) => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms"];
    expect((await job([...line, "--on-failure", "hold", ...sh("exec sleep 20")])).code).toBe(13);
    expect(await job([...line, ...flags, ...sh("echo mine")])).toMatchObject({ code: 13, out: "" });
    expect((await recordOf("slow"))?.history.map(({ event }) => event)).toEqual(["doubt"]);
  });

  it("--timeout, then a call with --on-failure hold: nobody knows what the command did, so it is held", async () => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms"];
    expect((await job([...line, ...sh("exec sleep 20")])).code).toBe(13);
    const held = await job([...line, "--on-failure", "hold", ...sh("echo mine")]);
    expect(held).toMatchObject({ code: 13, out: "" });
  });

  it("R3: the command finds its key, slot, attempt and seed; a second attempt gets the same seed and key", async () => {
    const line = ["--job", "post", "--slot", "2026-06-19"];
    const print = "printf '%s ' $NEVERTWICE_JOB $NEVERTWICE_SLOT $NEVERTWICE_ATTEMPT $NEVERTWICE_KEY $NEVERTWICE_SEED";
    const first = (await job([...line, ...sh(`${print}; exit 1`)])).out.trim().split(" ");
    const second = (await job([...line, ...sh(print)])).out.trim().split(" ");
    expect(first.slice(0, 3)).toEqual(["post", "2026-06-19", "1"]);
    expect(second.slice(0, 3)).toEqual(["post", "2026-06-19", "2"]);
    expect(second.slice(3)).toEqual(first.slice(3));
    expect(first[3]).toMatch(/^nt1_/);
    expect(first[4]).toMatch(/^[0-9a-f]{64}$/);
  });

  it("--json: one document on stdout, the command's output on stderr", async () => {
    const ran = await job(["--job", "j", "--slot", "s", "--json", ...sh("echo hello")]);
    expect(ran.err).toBe("hello\n");
    expect(ran.json).toMatchObject({
      job: "j",
      slot: "s",
      ran: true,
      exitCode: 0,
      outcome: { status: "done", result: { exitCode: 0, lastLines: ["hello"] } },
    });
    expect((await job(["--job", "j", "--slot", "s", "--json", ...sh("echo hello")])).json).toMatchObject({
      ran: false,
    });
  });

  it("--timeout: the command is ended, the slot is in doubt, and the next call takes it over", async () => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms"];
    expect((await job([...line, ...sh("exec sleep 20")])).code).toBe(13);
    expect(await job([...line, ...sh("echo mine")])).toMatchObject({ code: 0, out: "mine\n" });
    const record = await recordOf("slow");
    expect(record?.history.map(({ event }) => event)).toEqual(["doubt", "probed-not-done"]);
  });

  it("--timeout: says that the command was ended and that the next call runs it again, and --json that it ran", async () => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms"];
    const words = /the command was ended after 300ms \(its timeout\)\. The next call for this slot runs it again\./;
    const said = await job([...line, ...sh("exec sleep 20")]);
    expect([said.code, said.err]).toEqual([13, expect.stringMatching(words)]);
    expect(said.err).not.toMatch(/in doubt|settle/);
    const { json } = await job([...line, "--json", ...sh("exec sleep 20")]);
    expect(json).toMatchObject({ ran: true, exitCode: 13, words: expect.stringMatching(words) });
    expect(await job([...line, ...sh("echo mine")])).toMatchObject({ code: 0, out: "mine\n" });
  });

  it.each([
    ["--on-failure", ["--on-failure", "hold"]],
    ["--on-stale", ["--on-stale", "hold"]],
  ])("--timeout with %s hold: says that it was ended, and that it is held", async (flag, flags) => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms", ...flags, "--json"];
    const { code, json } = await job([...line, ...sh("exec sleep 20")]);
    expect([code, json.ran]).toEqual([13, true]);
    expect(json.words).toMatch(
      new RegExp(
        `in doubt: the command was ended after 300ms \\(its timeout\\), and ${flag} is hold\\. Look, and settle it`,
      ),
    );
    const again = await job([...line, ...sh("echo ran")]);
    expect([again.code, again.json.ran]).toEqual([13, false]);
  });

  it("--timeout: what the command left running is named, and nothing runs beside it", async () => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms"];
    const leaving = "sh -c 'trap \"\" TERM; echo $$ > left; while :; do sleep 0.1; done' & exec sleep 20";
    const said = await job([...line, ...sh(leaving)]);
    const beside = await job([...line, "--json", ...sh("echo ran")]);
    process.kill(Number(readFileSync(join(cli.folder, "left"), "utf8")), "SIGKILL");
    expect([said.code, said.err]).toEqual([
      13,
      expect.stringMatching(/something that it started still runs \(process group \d+\)/),
    ]);
    expect([beside.code, beside.json.ran]).toEqual([0, false]);
  });

  it("--timeout: a command that ends well when it is asked to end is done, and is not run again", async () => {
    const line = ["--job", "slow", "--slot", "s", "--lease", "2s", "--timeout", "300ms", "--json"];
    const ended = await job([...line, ...sh("trap 'exit 0' TERM; sleep 20 & wait")]);
    expect([ended.code, ended.json.ran, ended.json.outcome.status]).toEqual([0, true, "done"]);
    const again = await job([...line, ...sh("echo ran")]);
    expect([again.code, again.json.ran, again.json.outcome.status]).toEqual([0, false, "done"]);
  });

  it.each([
    ["exit 7", /in doubt: the command exited with 7, and --on-failure is hold\. Look, and settle it/],
    ["kill -TERM $$", /in doubt: the command was ended by SIGTERM, and --on-failure is hold\./],
  ])("--on-failure hold: %s says how the command ended, in every later call and in show too", async (script, words) => {
    const line = ["--job", "pay", "--slot", "1", "--on-failure", "hold", "--json"];
    const first = await job([...line, ...sh(script)]);
    expect([first.code, first.json.ran, first.json.words]).toEqual([13, true, expect.stringMatching(words)]);
    const second = await job([...line, ...sh("echo ran")]);
    expect([second.code, second.json.ran, second.json.words]).toEqual([13, false, expect.stringMatching(words)]);
    const shown = await cli.run(["show", first.json.outcome.key], { columns: 120 });
    expect(shown.out).toMatch(/why +the command (exited with 7|was ended by SIGTERM), and --on-failure is hold/);
  });

  it("a ledger that cannot be opened is exit code 3, and the command was not run", async () => {
    writeFileSync(join(cli.folder, "taken"), "");
    const line = ["--job", "x", "--per", "day", "--store", "file:taken/ledger.jsonl", ...sh("echo ran")];
    const { code, out, err } = await job(line);
    expect([code, out]).toEqual([3, ""]);
    expect(err).toMatch(/taken\/ledger\.jsonl\.lock cannot be opened .*needs a folder it may write to/);
  });

  it.each([
    [["--per", "day", ...sh("true")], /run needs --job <name>/],
    [["--job", "x".repeat(151), "--per", "day", ...sh("true")], /a job's name must be a text of 1 to 150 characters/],
    [["--job", "x", "--per", "day", "--timeout", "0s", ...sh("true")], /timeout is 0\. Give a duration above zero/],
    [["--job", "x", "--per", "day", "--lease", "1ms", ...sh("true")], /the shortest that heartbeats can keep is 30ms/],
    [
      ["--job", "x", "--per", "day", "--hold", "--on-failure", "retry", ...sh("true")],
      /--hold and --on-failure retry say two things/,
    ],
    [["--job", "x", "--per", "day", "--recent", "all", ...sh("true")], /--recent all: it takes a whole number from 0/],
    [["--job", "x", "--per", "day", "--plan", " ", ...sh("true")], /--plan is blank/],
    [["--job", "x", "--per", "day", "--result-file", "", ...sh("true")], /--result-file is blank/],
    [["--job", "x", "--per", "day"], /run needs a command after --: nevertwice run --job/],
    [["--job", "x", ...sh("true")], /run needs one of --per <window>, --cron <expression> and --slot <text>/],
    [["--job", "x", "--per", "fortnight", ...sh("true")], /--per fortnight: it takes day, week, month, hour/],
    [["--job", "x", "--per", "day", "--tz", "Mars/Base", ...sh("true")], /Mars\/Base/],
    [["--job", "x", "--cron", "99 * * * *", ...sh("true")], /"99 \* \* \* \*" in the zone "UTC" is not a schedule/],
    [
      ["--job", "x", "--per", "day", "--on-stale", "maybe", ...sh("true")],
      /--on-stale maybe: it takes take-over or hold/,
    ],
    [["--job", "x", "--per", "day", "--on-skip", "300", ...sh("true")], /--on-skip 300: it takes an exit code from 0/],
    [["--job", "x", "--per", "day", "--lease", "soon", ...sh("true")], /lease/],
    [["--job", "x", "--slot", "s", "--tz", "UTC", ...sh("true")], /--tz belongs to --per and --cron/],
    [
      ["--job", "x", "--per", "month", "--keep", "30d", ...sh("true")],
      /keep is 30d, and there may be 31d from one of its slots to the next: .*Give keep 62d or more, or "forever"/,
    ],
    [["--job", "x", "--per", "15m", "--keep", "29m", ...sh("true")], /Give keep 30m or more/],
    [["--job", "x", "--cron", "0 0 1 */3 *", "--keep", "100d", ...sh("true")], /Give keep 184d or more/],
    [["--job", "x", "--slot", "report 2026-01", "--keep", "7d", ...sh("true")], /Give keep 62d or more/],
    [["--job", "x", "--per", "day", "--keep", "soon", ...sh("true")], /keep: "soon" is not a duration/],
  ])("says what is wrong with %j", async (argv, message) => {
    const { code, err, out } = await job(argv);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toMatch(message);
  });
});
