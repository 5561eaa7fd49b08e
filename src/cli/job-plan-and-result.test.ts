/** R8, R9, R10 on the command line: time, failures, a plan, the last results and a place for the command's own. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import { instantOf } from "../core/store.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const env = { PATH: process.env.PATH ?? "" };
const job = (argv: readonly string[]) => cli.run(["run", "--job", "post", ...argv], { env });
const sh = (script: string) => ["--", "sh", "-c", script];
const lines = (name: string) => readFileSync(join(cli.folder, name), "utf8").trim().split("\n");

async function records(action: string) {
  const { items } = await cli.store.list({ limit: 20, action });
  return items.map(({ record }) => record).filter((record) => record.action === action);
}

describe("R8: a command may take as long as it takes", () => {
  it("it outlives its lease, which heartbeats keep, and a call meanwhile is skipped", async () => {
    const line = ["--slot", "s", "--lease", "1s", "--json"];
    const slow = job([...line, ...sh("touch began; while [ ! -e go ]; do sleep 0.05; done; echo slow")]);
    while (!existsSync(join(cli.folder, "began"))) await new Promise((done) => setTimeout(done, 20));
    const since = performance.now();
    // Three leases.
    while (performance.now() - since < 3_000) {
      const { json } = await job([...line, ...sh("echo second")]);
      expect([json.ran, json.outcome.status]).toEqual([false, "in_flight"]);
    }
    writeFileSync(join(cli.folder, "go"), "");
    expect((await slow).json).toMatchObject({ ran: true, outcome: { status: "done", attempt: 1 } });
  });

  it("a slot that is taken over from another host says that the first command may still run there", async () => {
    expect((await job(["--slot", "s", "--timeout", "300ms", ...sh("exec sleep 30")])).code).toBe(13);
    const [record] = await records("job:post");
    if (record === undefined || record.draft === null || !("json" in record.draft)) throw new Error("no draft");
    const [stored] = await cli.store.read([record.key]);
    const draft = { json: JSON.stringify({ ...JSON.parse(record.draft.json), realm: "another host" }) };
    await cli.store.write([{ record: { ...record, draft }, expected: stored?.version ?? null }]);
    const again = await job(["--slot", "s", ...sh("echo again")]);
    expect(again).toMatchObject({ code: 0, out: "again\n", err: expect.stringContaining("may still run there") });
  });

  it("by default there is no timeout, and the lease is 30 minutes", async () => {
    const running = job(["--slot", "s", ...sh("while [ ! -e go ]; do sleep 0.05; done")]);
    let record = (await records("job:post"))[0];
    while (record?.state !== "sent") {
      await new Promise((done) => setTimeout(done, 20));
      [record] = await records("job:post");
    }
    const leftMs = (record.lease?.until ?? 0) - instantOf(cli.store).steady;
    expect(leftMs / 60_000).toBeGreaterThan(29);
    writeFileSync(join(cli.folder, "go"), "");
    expect((await running).code).toBe(0);
  });

  it("--timeout may be longer than --lease", async () => {
    const line = ["--slot", "s", "--lease", "1s", "--timeout", "1500ms"];
    const said = await job([...line, ...sh("exec sleep 30")]);
    expect([said.code, said.err]).toEqual([
      13,
      expect.stringMatching(/ended after 1.5s \(its timeout\)\. The next call/),
    ]);
    expect(await job([...line, ...sh("echo again")])).toMatchObject({ code: 0, out: "again\n" });
  });
});

describe("R9: --hold, by name", () => {
  it("a command that failed waits for a person, whatever later calls say", async () => {
    const held = await job(["--slot", "s", "--hold", ...sh("exit 3")]);
    expect([held.code, held.err]).toEqual([13, expect.stringMatching(/in doubt: .*Look, and settle it/)]);
    for (const flags of [[], ["--on-stale", "take-over"]])
      expect((await job(["--slot", "s", ...flags, ...sh("echo ran")])).out).toBe("");
    const key = (await records("job:post"))[0]?.key ?? "";
    await cli.run(["resolve", key, "--not-done", "--reason", "looked"]);
    expect((await job(["--slot", "s", ...sh("echo ran")])).out).toBe("ran\n");
  });
});

describe("R10: --plan", () => {
  it("is made once for the slot, kept, and the same in every attempt; the next slot gets its own", async () => {
    writeFileSync(join(cli.folder, "count"), "");
    const plan = `echo x >> count; printf '{"topic":"%s","n":%s}' "$NEVERTWICE_SLOT" "$(wc -l < count)"`;
    const use = 'echo "$NEVERTWICE_PLAN" >> seen; cat "$NEVERTWICE_PLAN_FILE" >> files; echo >> files';
    expect((await job(["--slot", "a", "--plan", plan, ...sh(`${use}; exit 1`)])).code).toBe(1);
    expect((await job(["--slot", "a", "--plan", plan, ...sh(use)])).code).toBe(0);
    expect((await job(["--slot", "a", "--plan", plan, ...sh(use)])).code).toBe(0);
    expect((await job(["--slot", "b", "--plan", plan, ...sh(use)])).code).toBe(0);
    const expected = ['{"topic":"a","n":1}', '{"topic":"a","n":1}', '{"topic":"b","n":2}'];
    expect([lines("seen"), lines("files"), lines("count").length]).toEqual([expected, expected, 2]);
    // Done: the plan is kept for as long as its slot.
    const plans = await records("job-plan:post");
    expect(plans.map(({ keepMs }) => keepMs)).toEqual([30 * 86_400_000, 30 * 86_400_000]);
  });

  it("is the plan of a job in code of the same name and slot", async () => {
    const nt = cli.program();
    const day = Math.floor(Date.now() / 86_400_000) * 86_400_000;
    const inCode = nt.job("post", {
      every: "1d",
      plan: () => ({ topic: "code" }),
      run: () => {
        throw new Error("gateway");
      },
    });
    expect((await inCode.runAt(day)).status).toBe("failed");
    const slot = new Date(day).toISOString().replace(":00.000Z", "Z/slot");
    const ran = await job(["--slot", slot, "--plan", "echo '{}'", ...sh('echo "$NEVERTWICE_PLAN"')]);
    expect(ran.out).toBe('{"topic":"code"}\n');
  });

  it.each([
    ["echo broken >&2; exit 4", /the command of --plan exited with 4: broken/],
    ["true", /must print one JSON document on its standard output, and it printed nothing/],
    ["echo not json", /must print one JSON document.*it is not JSON.*Print everything else on standard error/],
    ["head -c 1100000 /dev/zero | tr '\\0' '1'", /printed 1100000 bytes, and 1048576 is the most/],
    ["kill -TERM $$", /the command of --plan was ended by SIGTERM/],
  ])("%s: the command is not run, and the next call makes the plan again", async (plan, message) => {
    const { code, err, out } = await job(["--slot", "s", "--plan", plan, ...sh("echo ran")]);
    expect([code, out]).toEqual([12, ""]);
    expect(err).toMatch(message);
    expect(err).toMatch(/not run, because it has no plan: .*The next call for this slot makes it again\./s);
    const again = await job(["--slot", "s", "--plan", "echo '[1]'", ...sh('echo "$NEVERTWICE_PLAN"')]);
    expect(again).toMatchObject({ code: 0, out: "[1]\n" });
  });

  it.each([`echo '{"reply_to":1850000000000000123}'`, "echo 1e400"])(
    "with a number that JavaScript cannot hold exactly is refused: %s",
    async (plan) => {
      const { code, err, out } = await job(["--slot", "s", "--plan", plan, ...sh("echo ran")]);
      expect([code, out]).toEqual([12, ""]);
      expect(err).toMatch(
        /the number (1850000000000000123|1e400), which JavaScript cannot hold exactly.*Write it as text/,
      );
    },
  );

  it("ended by --timeout it is no plan: exit code 12, and the next call makes it again", async () => {
    const { code, err, out } = await job([
      ...["--slot", "s", "--timeout", "300ms", "--plan", "exec sleep 30"],
      ...sh("echo ran"),
    ]);
    expect([code, out]).toEqual([12, ""]);
    expect(err).toMatch(
      /not run, because it has no plan: the command of --plan was ended after 300ms \(--timeout\)\. /,
    );
    expect(await job(["--slot", "s", "--plan", "echo 1", ...sh("echo ran")])).toMatchObject({ code: 0, out: "ran\n" });
  });

  it("has the lease that --lease says", async () => {
    const plan = "touch planning; while [ ! -e go ]; do sleep 0.05; done; echo 1";
    const running = job(["--slot", "s", "--lease", "7m", "--plan", plan, ...sh("true")]);
    while (!existsSync(join(cli.folder, "planning"))) await new Promise((done) => setTimeout(done, 20));
    const { items } = await cli.store.list({ limit: 20 });
    const left = items.map(({ record }) => (record.lease?.until ?? 0) - instantOf(cli.store).steady);
    expect(Math.max(...left) / 60_000).toBeGreaterThan(6);
    writeFileSync(join(cli.folder, "go"), "");
    expect((await running).code).toBe(0);
  });

  it("one that is too large for a variable is in the file alone", async () => {
    const plan = `printf '"'; head -c 200000 /dev/zero | tr '\\0' 'a'; printf '"'`;
    const use = 'env | grep -c "^NEVERTWICE_PLAN="; wc -c < "$NEVERTWICE_PLAN_FILE"';
    expect((await job(["--slot", "s", "--plan", plan, ...sh(use)])).out).toMatch(/^0\n *200002/);
  });

  it("another call that is making the plan: this one is skipped, and nothing runs twice", async () => {
    const plan = "touch planning; while [ ! -e go ]; do sleep 0.05; done; echo '{}'";
    const first = job(["--slot", "s", "--plan", plan, "--json", ...sh("echo x >> ran")]);
    while (!existsSync(join(cli.folder, "planning"))) await new Promise((done) => setTimeout(done, 20));
    const second = await job(["--slot", "s", "--plan", plan, "--on-skip", "75", "--json", ...sh("echo x >> ran")]);
    writeFileSync(join(cli.folder, "go"), "");
    expect([second.code, second.json.ran, (await first).json.ran]).toEqual([75, false, true]);
    expect(lines("ran")).toEqual(["x"]);
  });
});

describe("R10: a command's own result", () => {
  it("is stored as the slot's result, and given to the next slots with those of jobs in code", async () => {
    const write = (slug: string) => `printf '{"slug":"${slug}"}' > "$NEVERTWICE_RESULT_FILE"`;
    expect((await job(["--slot", "1", ...sh(`${write("one")}; echo "$NEVERTWICE_RECENT"`)])).out).toBe("[]\n");
    const two = await job(["--slot", "2", "--json", ...sh(write("two"))]);
    expect(two.json.outcome.result).toMatchObject({ exitCode: 0, result: { slug: "two" } });
    await job(["--slot", "3", ...sh("true")]);
    const seen = await job(["--slot", "4", ...sh('echo "$NEVERTWICE_RECENT"')]);
    expect(JSON.parse(seen.out)).toEqual([{ slug: "two" }, { slug: "one" }]);
    const last = await job(["--slot", "5", "--recent", "0", ...sh('echo "$NEVERTWICE_RECENT"')]);
    expect(last.out).toBe("[]\n");
    const inCode = cli.program().job("post", { every: "1d", run: () => null });
    expect(await inCode.recent(9, "slug")).toEqual(["two", "one"]);
  });

  it("--result-file: where the user wants it; what an earlier run left there does not count", async () => {
    const write = `printf '[1]' > out/result.json`;
    mkdirSync(join(cli.folder, "out"));
    writeFileSync(join(cli.folder, "out", "result.json"), "[0]");
    const named = ["--result-file", "out/result.json", "--json"];
    const none = await job(["--slot", "1", ...named, ...sh("test ! -e out/result.json")]);
    expect([none.code, none.json.words]).toEqual([0, expect.stringMatching(/it wrote no result to --result-file out/)]);
    expect((await job(["--slot", "2", ...named, ...sh(write)])).json.outcome.result.result).toEqual([1]);
    symlinkSync("elsewhere.json", join(cli.folder, "link"));
    for (const path of ["out", "link"]) {
      const refused = await job(["--slot", "3", "--result-file", path, ...sh("echo ran")]);
      expect([refused.code, refused.out, refused.err]).toEqual([
        2,
        "",
        expect.stringContaining(`--result-file ${path} is not a file`),
      ]);
    }
  });

  it.each([
    ["not json", "printf 'slug: one'", /it is not JSON/],
    ["a number that cannot be kept", `printf '{"id":1850000000000000123}'`, /the number 1850000000000000123, which/],
    ["a number that is too large", "printf 1e400", /the number 1e400, which JavaScript cannot hold exactly/],
    ["too large", "head -c 1000001 /dev/zero", /it has more than 1000000 bytes\. Store what is large elsewhere/],
    ["too deep", "{ printf '[%.0s' $(seq 400); printf ']%.0s' $(seq 400); }", /nested more than 256 levels deep/],
  ])("%s: the command is done all the same, is not run again, and the reason is said", async (_, script, message) => {
    const done = await job(["--slot", "s", ...sh(`${script} > "$NEVERTWICE_RESULT_FILE"`)]);
    expect([done.code, done.err]).toEqual([0, expect.stringMatching(/done in \d+ ms, but its result was not kept/)]);
    expect(done.err).toMatch(message);
    expect((await job(["--slot", "s", ...sh("echo ran")])).out).toBe("");
  });

  it("a failed command has no result, and its half-written one is not that of the next attempt", async () => {
    expect((await job(["--slot", "s", "--result-file", "r", ...sh("printf '{\"half' > r; exit 1")])).code).toBe(1);
    const done = await job(["--slot", "s", "--result-file", "r", "--json", ...sh("true")]);
    expect(done.json.outcome.result).not.toHaveProperty("result");
  });

  it("the last results are those of the tenant alone", async () => {
    const write = `printf '{"slug":"a"}' > "$NEVERTWICE_RESULT_FILE"`;
    await job(["--slot", "1", "--tenant", "acme", ...sh(write)]);
    const show = sh('echo "$NEVERTWICE_RECENT"');
    expect((await job(["--slot", "2", "--tenant", "other", ...show])).out).toBe("[]\n");
    expect((await job(["--slot", "2", "--tenant", "acme", ...show])).out).toBe('[{"slug":"a"}]\n');
  });

  it("the slot has a number for what is taken in turn; a free text has none", async () => {
    const show = sh('echo "$NEVERTWICE_SLOT_NUMBER"');
    expect((await job(["--slot", "2026-06-19", ...show])).out).toBe("20623\n");
    expect((await job(["--slot", "2026-06-20", ...show])).out).toBe("20624\n");
    expect((await job(["--cron", "0 6 * * *", ...show])).out).toMatch(/^\d+\n$/);
    expect((await job(["--slot", "abc123", ...show])).out).toBe("\n");
  });
});
