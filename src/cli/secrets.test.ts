/** What the command prints: no secret that it was given or that the ledger holds, and no character that a terminal obeys. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { nevertwice } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";
import { jsonLines } from "./json-lines.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const STORES = [
  "postgres:/ana:hunter2@127.0.0.1:1/app",
  "postgres://ana:hunter2@127.0.0.1:1/app",
  "postgres://ana:hunter2/hunter2@127.0.0.1:1/app",
  "postgres://ana:hunter2@127.0.0.1:notaport/app",
  "postgres://127.0.0.1:1/app?user=ana&password=hunter2",
  "postgres://ana@127.0.0.1:1/app?sslpassword=hunter2",
  "redis://:hunter2@127.0.0.1:1",
  "redis:ana:hunter2@127.0.0.1:1",
  "rediss://ana:hunter2@127.0.0.1:notaport",
  "s3://ana:hunter2@bucket/prefix",
  "s3://bucket/prefix?endpoint=https://ana:hunter2@127.0.0.1:1",
  "s3://bucket/prefix?endpoint=ftp://ana:hunter2@127.0.0.1:1",
  "s3://bucket/prefix?region=eu&token=hunter2",
  "mysql://ana:hunter2@127.0.0.1/app",
  "ana:hunter2@127.0.0.1/app",
];

describe("a store's password is not repeated", () => {
  it.each(STORES)("by the command: %s", async (store) => {
    const commands = [
      ["ls"],
      ["doctor"],
      ["stats", "--verbose"],
      ["show", keyLike("a"), "--verbose"],
      ["ls", "--json"],
    ];
    // At once: a server that is not there is tried for some seconds.
    const ran = await Promise.all([
      ...commands.map((argv) => cli.run([...argv, "--store", store])),
      cli.run(["doctor"], { env: { NEVERTWICE_STORE: store } }),
    ]);
    for (const { out, err } of ran) expect(out + err).not.toContain("hunter2");
  });

  it.each(STORES)("by errors in a program: %s", async (store) => {
    let shown = "";
    try {
      const nt = nevertwice({ store, sweep: false });
      shown += nt.store.name;
      await nt
        .once("mail", ["a"], () => 1, { wait: 0 })
        .catch((error) => {
          shown += inspect(error, { depth: 6 }) + JSON.stringify(error);
        });
      await nt.close().catch(() => {});
    } catch (error) {
      shown += inspect(error, { depth: 6 });
    }
    expect(shown).not.toContain("hunter2");
  });
});

describe("secrets on the command line are not repeated", () => {
  it.each([
    [["ls", "--tokn=hunter2"]],
    [["ls", "--token", "hunter2"]],
    [["ls", "postgres://ana:hunter2@h/app"]],
    [["lss", "--password=hunter2"]],
    [["mcp", "--url", "ftp://ana:hunter2@h"]],
    [["mcp", "--header", "Authorization: Bearer hunter2hunter2", "--", "npx", "x"]],
    [["run", "--job", "a", "--per", "day", "TOKEN=hunter2", "--", "true"]],
    [["migrate", "--store", "postgres:ana:hunter2@h/app"]],
    [["status", "postgres://ana:hunter2@h"]],
  ])("%j", async (argv) => {
    const { code, out, err } = await cli.run(argv);
    expect(code).not.toBe(0);
    expect(out + err).not.toContain("hunter2");
  });
});

describe("secrets in the ledger are not shown", () => {
  it("the error of a failed attempt is stored without them", async () => {
    const nt = cli.program();
    const connect = nt.action("connect", {
      key: () => ["a"],
      run: async (): Promise<void> => {
        throw new Error("connect failed: postgres://ana:hunter2@db/app, Authorization: Bearer hunter2hunter2");
      },
    });
    await connect.attempt(undefined, { wait: 0 });
    const { items } = await nt.store.list({ limit: 1 });
    expect(JSON.stringify(items)).toContain("connect failed: postgres://…@db/app");
    expect(JSON.stringify(items)).not.toContain("hunter2");
  });

  it("a name from before, in lists and in detail", async () => {
    await cli.put({
      key: keyLike("a"),
      action: "TOKEN=hunter2/send",
      error: { name: "Error", message: "--token hunter2" },
    });
    for (const argv of [["ls"], ["show", keyLike("a")], ["status", keyLike("a")], ["stats"]]) {
      const { out, err } = await cli.run(argv);
      expect(out + err).not.toContain("hunter2");
    }
  });

  it("what a command said last is kept without them", async () => {
    const { out, err } = await cli.run([
      ...["run", "--job", "digest", "--slot", "1", "--", "sh", "-c"],
      "echo connecting to postgres://ana:hunter2@db/app; exit 3",
    ]);
    expect(out).toContain("hunter2");
    expect(err).not.toContain("hunter2");
    await cli.run(["run", "--job", "good", "--slot", "1", "--", "sh", "-c", "echo token=hunter2"]);
    const { items } = await cli.store.list({ limit: 10 });
    expect(items).toHaveLength(2);
    expect(JSON.stringify(items)).not.toContain("hunter2");
  });
});

describe("characters that a terminal obeys", () => {
  // Escape, DEL, C1 and the marks of direction.
  const OBEYED = /\p{Bidi_Control}|[^\P{Cc}\n]/u;
  const harmful = "\u007f\u0085\u009b31m\u009d\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u001b[2J";

  it("are escaped in --json, which stays the same document", async () => {
    await cli.put({
      key: keyLike("a"),
      action: `a${harmful}`,
      scope: harmful,
      input: { json: JSON.stringify(harmful) },
    });
    for (const argv of [
      ["ls", "--json"],
      ["show", keyLike("a"), "--json"],
    ]) {
      const { out, json } = await cli.run(argv);
      expect(out).not.toMatch(OBEYED);
      expect(out).toContain("\\u009b31m");
      expect(JSON.stringify(json)).toContain(JSON.stringify(harmful).slice(1, -1));
    }
    const { out } = await cli.run(["ls", "--json", `--${harmful}`]);
    expect(out).not.toMatch(OBEYED);
  });

  it("are shown as escapes to a person", async () => {
    await cli.put({
      key: keyLike("a"),
      action: `a${harmful}`,
      scope: harmful,
      input: { json: JSON.stringify(harmful) },
    });
    for (const argv of [["ls"], ["show", keyLike("a")], ["ls", "--verbose", `--${harmful}`]]) {
      const { out, err } = await cli.run(argv);
      expect(out + err).not.toMatch(OBEYED);
    }
  });
});

describe("JSON that is nested too deeply", () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;

  it("is refused as a result, and said of a line of inputs", async () => {
    await cli.put({ key: keyLike("a"), state: "unknown" });
    const resolved = await cli.run(["resolve", keyLike("a"), "--done", "--reason", "r", "--result", deep]);
    expect(resolved).toMatchObject({
      code: 2,
      err: expect.stringMatching(/--result: it is nested more than 256 levels/),
    });
    writeFileSync(join(cli.folder, "proxy.json"), `{"tools":${deep}}`);
    const proxy = await cli.run(["mcp", "--config", "proxy.json", "--", "true"]);
    expect(proxy).toMatchObject({ code: 2, err: expect.stringMatching(/nested more than 256 levels/) });
  });

  it("does not stop a listing or a look at the record that holds it", async () => {
    await cli.put({ key: keyLike("a"), result: { json: deep } });
    await cli.put({ key: keyLike("b") });
    for (const argv of [["ls"], ["ls", "--json"], ["show", keyLike("a")], ["show", keyLike("a"), "--json"]]) {
      expect(await cli.run(argv)).toMatchObject({ code: 0, err: "" });
    }
  });

  it("is a broken line of inputs, and not the end of the others", async () => {
    const lines: unknown[] = [];
    async function* chunks() {
      yield Buffer.from(`1\n${deep}\n2\n`);
    }
    for await (const line of jsonLines(chunks())) lines.push(line.broken ?? line.input);
    expect(lines).toEqual([1, expect.stringMatching(/nested more than 256/), 2]);
  });
});

it("resolve refuses a plain result for a record whose program encrypts, even where no payload shows it", async () => {
  const nt = cli.program({ encrypt: Buffer.alloc(32, 1).toString("base64") });
  const lost = nt.action("lost", {
    key: () => ["a"],
    run: async (): Promise<string> => {
      throw new Error("reply lost");
    },
  });
  const { key } = await lost.attempt(undefined, { wait: 0 });
  const refused = await cli.run(["resolve", key, "--done", "--reason", "r", "--result", '"x"']);
  expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/the command has no key/) });
  expect((await cli.run(["resolve", key, "--done", "--reason", "r"])).code).toBe(0);
  expect(await lost.attempt(undefined)).toMatchObject({ status: "done" });
});

it("an empty --tenant is refused: the variable may not be set", async () => {
  for (const argv of [
    ["ls"],
    ["retry", "--all-failed", "--reason", "r"],
    ["worker"],
    ["import", "x.jsonl", "--action", "a"],
    ["run"],
  ]) {
    const { code, err } = await cli.run([...argv, "--tenant", ""]);
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/--tenant is empty: the variable it comes from may not be set/),
    ]);
  }
});
