import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

describe("help", () => {
  it("shows every command, and more about each", async () => {
    const { code, out } = await ledger.run([]);
    expect(code).toBe(0);
    for (const name of ["ls", "show", "status", "resolve", "retry", "resend", "sweep", "stats", "doctor"]) {
      expect(out).toContain(`\n  ${name}`);
      const help = await ledger.run(["help", name]);
      expect(help.code).toBe(0);
      expect(help.out).toContain("Examples");
      expect((await ledger.run([name, "--help"])).out).toBe(help.out);
    }
  });

  it("keeps prose inside 80 columns", async () => {
    const { out } = await ledger.run([], { columns: 80 });
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });
});

it("a command that is not found is said once", async () => {
  const { code, err } = await ledger.run(["run", "--job", "j", "--per", "day", "--", "nosuchcmd"]);
  expect(code).toBe(127);
  expect(err.match(/nosuchcmd: command not found/g)).toHaveLength(1);
  expect(err).toContain("the command was not found");
});

describe("a wrong command line exits 2 and says what was meant", () => {
  const K = "nt1_abcdefgh";
  const wrong: [argv: string[], message: RegExp][] = [
    [["lss"], /no command "lss"\. Did you mean: nevertwice ls\?/],
    [["frobnicate"], /The commands are: ls, show/],
    [["help", "reslove"], /Did you mean: nevertwice resolve\?/],
    [["ls", "--stat", "x"], /--stat is not a flag of ls\. Did you mean --state\?.*help ls/],
    [["--verson"], /Did you mean --version\?/],
    [["ls", "-x"], /-x is not a flag of ls/],
    [["show", K, "--limit", "3"], /--limit is not a flag of show/],
    [["ls", "--state", "pendin"], /Did you mean pending\?/],
    [["ls", "--limit"], /--limit needs a value: --limit <n>/],
    [["ls", "--limit", "0"], /whole number above zero/],
    [["ls", "--limit", "1001"], /at most 1000/],
    [["ls", "--json=yes"], /--json takes no value/],
    [["ls", "--doubt", "--state", "sent"], /exclude each other/],
    [["ls", "--doubt", "--cursor", "7"], /not the cursor of an earlier page of ls --doubt/],
    [["ls", "--provider-id", "msg_1"], /Did you mean --result-id\?/],
    [["resolve", K, "--as", "done"], /--as is not a flag of resolve\. Write --done\./],
    [["claim", "pay", "x", "--parts", "[7]"], /give words or --parts, not both/],
    [["run", "--job", "j", "--per", "dy", "--", "true"], /--per dy: it takes day, week/],
    [["run", "--job", "j", "--per", "day", "--tz", "Berlin", "--", "true"], /--tz Berlin: it is not a time zone/],
    [["run", "--job", "j", "--per", "day", "--cron", "* * * * *", "--", "true"], /--per and --cron exclude each other/],
    [["ls", "extra"], /unexpected arguments: "extra"/],
    [["show"], /show needs a key/],
    [["show", "nt1_abc"], /at least 8 characters/],
    [["show", "hello world"], /is not a key/],
    [["resolve", K, "--reason", "r"], /say how it is settled/],
    [["resolve", K, "--done", "--failed", "--reason", "r"], /choose one/],
    [["resolve", K, "--done"], /--reason is missing.*\n {2}nevertwice resolve nt1_abcdefgh --done --reason "/],
    [["resolve", K, "--done", "--reason", "--json"], /--reason needs a value/],
    [["resolve", K, "--done", "--reason", "r", "--by", " "], /say who decides/],
    [["resolve", K, "--done", "--reason", "r", "--result", "{id}"], /--result is not JSON.*--result '"msg_81"'/],
    [["resolve", K, "--not-done", "--reason", "r", "--result", "1"], /goes with --done/],
    [["resolve", K, "--done", "--reason", "r", "--result-file", "none.json"], /cannot be read: ENOENT/],
    [["retry"], /needs a key, or --all-failed/],
    [["retry", K, "--all-failed", "--reason", "r"], /not both/],
    [["retry", K, "--dry-run"], /goes with --all-failed/],
    [["retry", "--all-failed"], /--reason is missing/],
    [["ls", "--store", "nope:x"], /there is no store "nope:"/],
    [["ls", "--store", "sqlite:"], /names no file/],
    [["run", "--job", "x", "--per", "day", "--store", "flie:x", "--", "true"], /there is no store "flie:"/],
    [["import", "none.csv", "--action", "x"], /none\.csv cannot be read: ENOENT/],
    [["mcp"], /mcp needs the server it stands in front of/],
    [["mcp", "--listen", "0", "--", "cat"], /--listen, --header and --principal belong to --url/],
    [["mcp", "--header", "A: b", "--", "cat"], /--listen, --header and --principal belong to --url/],
    [["mcp", "--principal", "X-User", "--", "cat"], /--listen, --header and --principal belong to --url/],
    [
      ["mcp", "--url", "http://127.0.0.1:9/mcp", "--listen", "0", "--header", "Authorization: Bearer x"],
      /--header is for a client on stdio: with --listen, each client sends its own headers/,
    ],
    [["mcp", "--config", "none.json", "--", "cat"], /--config none\.json cannot be read: ENOENT/],
    [["mcp", "--window", "5y", "--", "cat"], /window: "5y" is not a duration/],
    [["mcp", "probe", "--window", "5y", "--", "cat"], /window: "5y" is not a duration/],
    [["mcp", "prob", "--", "cat"], /mcp: there is no "prob"\. It takes init, probe, serve/],
  ];
  it.each(wrong)("%j", async (argv, message) => {
    const { code, err, out } = await ledger.run(argv);
    expect(err).toMatch(message);
    expect(err).toMatch(/^nevertwice: /);
    expect(err).not.toMatch(/\n {4}at /);
    expect(code).toBe(2);
    if (!argv.includes("--json")) expect(out).toBe("");
  });

  it("mcp: a config with a slip in it is named, with its place, before any server is started", async () => {
    writeFileSync(join(ledger.folder, "tools.json"), '{ "tools": { "a": { "keep": "1 fortnight" } } }');
    for (const argv of [["mcp"], ["mcp", "probe"]]) {
      const { code, err } = await ledger.run([...argv, "--config", "tools.json", "--", "touch", "started"]);
      expect(err).toMatch(/^nevertwice: tools\.json: tools\.a: keep: "1 fortnight" is not a duration/);
      expect([code, existsSync(join(ledger.folder, "started"))]).toEqual([2, false]);
    }
  });

  it("answers --json with JSON even then", async () => {
    const { json, code } = await ledger.run(["ls", "--json", "--frob"]);
    expect(json.error).toMatchObject({ code: "USAGE", message: expect.stringContaining("--frob") });
    expect(code).toBe(2);
  });
});

describe("which ledger", () => {
  const wouldMake: string[][] = [["ls"], ["stats"], ["sweep"], ["doctor"]];
  it.each(wouldMake)("%s makes none where there is none, and says so", async (...argv) => {
    const place = ["--store", "sqlite:nowhere/ledger.db"];
    const { code, out } = await ledger.run([...argv, ...place]);
    expect(code).toBe(0);
    expect(out.replace(/\s+/g, " ")).toContain(
      "nowhere/ledger.db yet (named by --store): it is made at the first call",
    );
    expect((await ledger.run([...argv, ...place, "--json"])).json.ledger.exists).toBe(false);
    expect(existsSync(join(ledger.folder, "nowhere"))).toBe(false);
  });

  it("is empty in JSON where there is none", async () => {
    writeFileSync(join(ledger.folder, "package.json"), "{}");
    expect((await ledger.run(["ls", "--json"])).json).toMatchObject({ records: [], cursor: null });
    expect((await ledger.run(["stats", "--json"])).json).toMatchObject({ total: 0, states: { unknown: 0 } });
    expect(existsSync(join(ledger.folder, ".nevertwice"))).toBe(false);
  });

  it("says which one it is and why with --verbose, on stderr", async () => {
    await ledger.put({ key: keyLike("verbose1") });
    const byDefault = await ledger.run(["ls", "--verbose"]);
    expect(byDefault.err).toBe(`nevertwice: the ledger is sqlite:${ledger.path} (the nearest .nevertwice folder)\n`);
    const env = { NEVERTWICE_STORE: `sqlite:${ledger.path}` };
    expect((await ledger.run(["ls", "--verbose"], { env })).err).toContain("(named by $NEVERTWICE_STORE)");
    const named = await ledger.run(["--store", ".nevertwice/ledger.db", "ls", "--verbose"], { env });
    expect(named.err).toContain(`sqlite:${ledger.path} (named by --store)`);
  });

  it("exits 3 where the store is lost or damaged, with the stack only when asked", async () => {
    mkdirSync(join(ledger.folder, ".nevertwice"));
    writeFileSync(ledger.path, "this is not a database, but long enough to look like one".repeat(100));
    const { code, err } = await ledger.run(["ls"]);
    expect(code).toBe(3);
    expect(err).toMatch(/^nevertwice: the ledger .* is damaged[^\n]*\n$/);
    expect((await ledger.run(["ls", "--verbose"])).err).toMatch(/\n {4}at /);
    const seen = await ledger.run(["doctor", "--json"]);
    expect(seen.code).toBe(3);
    expect(seen.json.checks).toContainEqual(expect.objectContaining({ name: "available", level: "problem" }));
  });

  it("takes a ledger whose id is still there for lost, not for new", async () => {
    mkdirSync(join(ledger.folder, ".nevertwice"));
    writeFileSync(`${ledger.path}.id`, "some-id\n");
    const { code, err } = await ledger.run(["ls"]);
    expect(code).toBe(3);
    expect(err).toContain("is gone");
  });
});
