/** What is wrong with a command line is said in its own words: flags, and commands that can be copied as they are. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

describe("flags", () => {
  it.each([
    ["mcp --window 15 -- x", '--window: "15" is not a duration. Write a number with a unit: "250ms"'],
    ["mcp --guard no -- x", '--guard is "no"; it takes "undelivered" or "intent".'],
    ["mcp --on-timeout no -- x", '--on-timeout is "no"; it takes "cancel" or "finish".'],
    ["mcp --only= -- x", "--only takes names of tools, with commas between them"],
    ["mcp --name= -- x", "--name takes a text that is not blank."],
    ["mcp --preset no -- x", 'there is no preset "no". The presets are: filesystem,'],
    ["mcp --principal= --url http://a --listen 0", "--principal takes names that are not blank."],
    ["mcp --header x --url http://a", "--header takes a name and a value: --header 'X-Team: payments'."],
    ["mcp init --preset no -- x", '--preset: there is no preset "no".'],
    ["mcp init --url http://a", "--url is not for mcp init"],
    ["run --job a --per day --timeout 0 -- true", '--timeout: "0" is not a duration. Write a number with a unit:'],
    ["run --job a --per day --lease 15 -- true", '--lease: "15" is not a duration.'],
    ["run --job a --per day --cron x -- true", "--per and --cron exclude each other"],
    ["enqueue a b --run-at no", "--run-at takes an instant"],
    ["enqueue a b --priority 99", "--priority takes a whole number from 0 to 9; got 99"],
    ["enqueue a b --expires no", "Or: --expires takes an instant"],
    ["settle tok --as yes", '--as takes "done", "not-sent"'],
    ["claim a b --lease 15", '--lease: "15" is not a duration.'],
    ["claim a b --on-doubt no", '--on-doubt takes "hold", "retry"; got "no". Nothing was changed.'],
    ["claim a b --resend-within no", '--resend-within: "no" is not a duration.'],
    ["claim a b --max-backoff no", '--max-backoff: "no" is not a duration.'],
    ["take a --limit 9999", "--limit takes a whole number from 1 to 100"],
    ["serve --sweep 15", '--sweep: "15" is not a duration.'],
    ["prevented --since yesterday", "--since yesterday: it takes a duration back from now, such as 7d, or an instant"],
    ["doctor --quarantine abc", "--quarantine abc: that is not a full key."],
  ])("%s", async (line, said) => {
    cli.program();
    await cli.store.stats();
    const { code, err } = await cli.run(line.split(" "));
    expect([code, err]).toEqual([2, expect.stringContaining(`nevertwice: ${said.startsWith("Or") ? "" : said}`)]);
    expect(err).toContain(said);
    expect(err).not.toMatch(/milliseconds, or|nevertwice: nevertwice|takes an object/);
  });

  it("the same tool twice in a config is refused: which of the two would count?", async () => {
    writeFileSync(
      join(cli.folder, "c.jsonc"),
      '{ "tools": { "pay": { "key": ["a"] }, "pay": { "key": ["b"] } } } // x',
    );
    const { code, err } = await cli.run(["mcp", "--config", "c.jsonc", "--", "x"]);
    expect([code, err]).toEqual([2, expect.stringMatching(/c\.jsonc cannot be used: it has two members named "pay"/)]);
  });

  it("mcp init says that the file is there before it starts the server", async () => {
    writeFileSync(join(cli.folder, "there.jsonc"), "{}");
    const server = ["sh", "-c", "touch started"];
    const { code, err } = await cli.run(["mcp", "init", "--config", "there.jsonc", "--", ...server]);
    expect([code, err]).toEqual([2, expect.stringContaining("there.jsonc is there already")]);
  });
});

describe("commands to copy", () => {
  const store = ["--store", "sqlite:other/l.db"];

  it.each([
    ["retry --all-failed", 'nevertwice retry --all-failed --reason "the provider is back" --store sqlite:other/l.db'],
    ["resolve nt1_confirmed --not-done --reason r", /nevertwice show nt1_confirmed\w+ --store sqlite:other\/l\.db/],
    ["retry nt1_confirmed --reason r", /nevertwice show nt1_confirmed\w+ --store sqlite:other\/l\.db/],
    ["resend nt1_doubt00000 --tool --reason r", /nevertwice resolve nt1_doubt\w+ --store sqlite:other\/l\.db/],
    ["forget nt1_doubt00000", /forget nt1_doubt00000 --reason ".*" --store sqlite:other\/l\.db/],
    [
      "resend nt1_confirmed",
      "nevertwice resend nt1_confirmed0 --actions ./actions.js --reason '…' --store sqlite:other/l.db",
    ],
  ])("%s: with the ledger of this call", async (line, command) => {
    mkdirSync(join(cli.folder, "other"));
    const { nevertwice } = await import("nevertwice");
    const { sampleRecord } = await import("../testing/index.ts");
    const nt = nevertwice({ store: `sqlite:${join(cli.folder, "other/l.db")}`, sweep: false });
    for (const [key, state] of [
      ["confirmed", "confirmed"],
      ["doubt", "unknown"],
    ] as const)
      await nt.store.write([{ record: sampleRecord({ key: keyLike(key), action: "send", state }), expected: null }]);
    await nt.close();
    const { code, err } = await cli.run([...line.split(" "), ...store]);
    expect([code > 0, err]).toEqual([
      true,
      typeof command === "string" ? expect.stringContaining(command) : expect.stringMatching(command),
    ]);
  });

  it("forget does not say that its reason is kept in the history, which it erases", async () => {
    await cli.put({ key: keyLike("gone"), action: "send" });
    expect((await cli.run(["forget", keyLike("gone")])).err).not.toContain("history");
  });
});

it("help has every exit code, and its lines are aligned", async () => {
  const { out } = await cli.run(["help"], { columns: 200 });
  expect(out).toMatch(/^ {2}4 +each: stopped early/m);
  const columns = [...out.matchAll(/^ {2}(ls|help) +(?=\S)/gm)].map(([line]) => line.length);
  expect(new Set(columns).size).toBe(1);
});

it("one doubt is one", async () => {
  await cli.put({ key: keyLike("d"), action: "send", state: "unknown", why: "timeout", attempt: 1 });
  const { out } = await cli.run(["resolve", "--all", "--action", "send", "--not-done"], { columns: 300 });
  expect(out).toContain(
    "1 doubt would become pending: it did not happen, and may be run again. Nothing was changed. If that is true, settle it:",
  );
});

it("a command that is not there: run and ls say the same", async () => {
  const env = { PATH: process.env.PATH ?? "" };
  const { err } = await cli.run(["run", "--job", "nf", "--slot", "a", "--", "no-such-command-here"], { env });
  expect(err).toContain("the command was not found (exit code 127)");
  const key = (await cli.run(["ls", "--json"])).json.records[0].key;
  expect((await cli.run(["show", key])).out).not.toMatch(/realm|draft/);
});

it("the commands of the README are commands", async () => {
  const readme = readFileSync(join(import.meta.dirname, "../../README.md"), "utf8");
  const lines = [...readme.matchAll(/^npx nevertwice (.*?)(?: +#.*)?$/gm)].map(([, line = ""]) => line);
  expect(lines.length).toBeGreaterThan(3);
  await cli.put({ key: keyLike("s3hfqac7bg"), action: "send", state: "unknown", why: "timeout", attempt: 1 });
  for (const line of lines) {
    const words = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
      ([, one, two, three]) => one ?? two ?? three ?? "",
    );
    expect([line, await cli.run(words)]).toEqual([line, expect.objectContaining({ err: "" })]);
  }
  // A repeat gets what the README gives.
  const { json } = await cli.run(["show", keyLike("s3hfqac7bg"), "--json"]);
  expect(json.record).toMatchObject({ state: "confirmed", result: { value: expect.anything() } });
});
