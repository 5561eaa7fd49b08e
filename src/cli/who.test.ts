/** Who acted, and from a provider's id to the record: ls, show, status, and the commands that act. */
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const done = { state: "confirmed", attempt: 1 } as const;

describe("A6: looking", () => {
  it("ls shows the agent where there is one, and --agent lists its records", async () => {
    await cli.put({ key: keyLike("plain001"), ...done });
    expect((await cli.run(["ls"])).out).not.toContain("agent");
    await cli.put({ key: keyLike("billing1"), ...done, agent: "billing-bot" });
    await cli.put({ key: keyLike("sales001"), state: "unknown", attempt: 1, why: "reset", agent: "sales-bot" });
    const { out } = await cli.run(["ls"]);
    expect(out).toMatch(/key +action +agent +state/);
    expect(out).toMatch(/nt1_billing100 +send_followup +billing-bot +confirmed/);
    expect(out).toMatch(/nt1_plain00100 +send_followup +- +confirmed/);
    const only = await cli.run(["ls", "--agent", "billing-bot", "--json"]);
    expect(only.json.records).toMatchObject([{ key: keyLike("billing1"), agent: "billing-bot", providerId: null }]);
    expect((await cli.run(["ls", "--doubt", "--agent", "billing-bot"])).out).toContain("Nothing is in doubt.");
    expect((await cli.run(["ls", "--doubt", "--agent", "sales-bot"])).out).toContain("1 record in doubt");
    expect((await cli.run(["ls", "--agent", "nobody"])).out).toContain("No record fits.");
    const paged = await cli.run(["ls", "--limit", "1", "--agent", "billing-bot"]);
    expect(paged.out).not.toContain("There are more");
  });

  it("ls names its filters for the next page", async () => {
    for (const n of [1, 2]) await cli.put({ key: keyLike(`same000${n}`), ...done, agent: "a b", providerId: "msg_1" });
    const { out } = await cli.run(["ls", "--limit", "1", "--agent", "a b", "--result-id", "msg_1"]);
    expect(out).toMatch(/ls --agent 'a b' --result-id msg_1 --limit 1 --cursor/);
  });

  it("ls --result-id leads from a provider's id to the records, and show names it", async () => {
    await cli.put({ key: keyLike("mail0001"), ...done, providerId: "CAF+x@mail.example", agent: "bot" });
    await cli.put({ key: keyLike("mail0002"), ...done, providerId: "other" });
    const { json } = await cli.run(["ls", "--json", "--result-id", "<CAF+x@mail.example>"]);
    expect(json.records.map(({ key }: { key: string }) => key)).toEqual([keyLike("mail0001")]);
    const shown = await cli.run(["show", "mail0001"]);
    expect(shown.out).toMatch(/agent +bot\n/);
    expect(shown.out).toMatch(/provider id +CAF\+x@mail\.example\n/);
    expect((await cli.run(["ls", "--result-id", "none"])).out).toContain("No record fits.");
  });

  it("finds an id that is kept as a digest with the key of its encryption, and not without", async () => {
    const encrypt = randomBytes(32).toString("hex");
    const nt = cli.program({ encrypt });
    await nt.once("mail", ["ada"], () => ({ id: "msg_9" }));
    const find = async (...more: string[]) =>
      (await cli.run(["ls", "--json", "--result-id", "msg_9", ...more], { env: { KEYS: encrypt } })).json.records
        .length;
    expect(await find()).toBe(0);
    expect(await find("--encrypt-env", "KEYS")).toBe(1);
  });

  it.each([
    [["--result-id", "two words"], /it takes an id of 1 to 255 characters without blanks/],
    [["--result-id", "x", "--doubt"], /--result-id and --doubt exclude each other/],
    [["--encrypt-env", "KEYS"], /--encrypt-env belongs to --result-id/],
    [["--result-id", "x", "--encrypt-env", "UNSET"], /that variable is not set/],
  ])("ls %j is refused", async (argv, message) => {
    const env = { KEYS: randomBytes(32).toString("hex") };
    const { code, err } = await cli.run(["ls", ...argv], { env });
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });

  it("show names the agents of the history, and status --json the one that acted", async () => {
    const history = [{ at: 1, event: "taken-over", from: "claimed", to: "claimed", attempt: 1, agent: "a" }] as const;
    await cli.put({ key: keyLike("taken001"), ...done, attempt: 2, agent: "b", history });
    const { out } = await cli.run(["show", "taken001"]);
    expect(out).toMatch(/event +change +try +agent +by and why/);
    expect(out).toMatch(/taken-over +claimed → claimed +1 +a/);
    expect((await cli.run(["status", keyLike("taken001"), "--json"])).json).toMatchObject({ agent: "b" });
  });

  it("a name that another program wrote cannot forge lines", async () => {
    await cli.put({ key: keyLike("forged01"), ...done, agent: "a\nnt1_x\u001b[31m", providerId: "b\n\u001b[2J" });
    for (const argv of [["ls"], ["show", "forged01"]]) {
      const { out } = await cli.run(argv);
      expect(out).not.toContain("\u001b");
      expect(out).not.toContain("\nnt1_x");
    }
  });
});

describe("A6: acting", () => {
  const env = { PATH: process.env.PATH ?? "" };
  const actions = () => {
    const dist = join(import.meta.dirname, "../../dist/index.js");
    writeFileSync(
      join(cli.folder, "actions.mjs"),
      `import { nevertwice } from ${JSON.stringify(dist)};
       const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${cli.path}`)}, sweep: false });
       export const send = nt.action("send", { key: ["to"], run: ({ to }) => ({ id: "msg_" + to }) });`,
    );
  };

  it("run --agent is on the job's record, and in the command's environment", async () => {
    const line = ["run", "--job", "digest", "--slot", "a", "--agent", "night-bot", "--", "sh", "-c"];
    expect((await cli.run([...line, "echo $NEVERTWICE_AGENT > who"], { env })).code).toBe(0);
    expect(readFileSync(join(cli.folder, "who"), "utf8")).toBe("night-bot\n");
    const fromEnv = { ...env, NEVERTWICE_AGENT: "day-bot" };
    const other = ["run", "--job", "digest", "--slot", "b", "--", "sh", "-c", "echo $NEVERTWICE_AGENT > who"];
    expect((await cli.run(other, { env: fromEnv })).code).toBe(0);
    expect(readFileSync(join(cli.folder, "who"), "utf8")).toBe("day-bot\n");
    const { json } = await cli.run(["ls", "--json", "--oldest"]);
    const jobs = json.records.filter(({ action }: { action: string }) => action === "job:digest");
    expect(jobs.map(({ agent }: { agent: string }) => agent)).toEqual(["night-bot", "day-bot"]);
  });

  it("each --agent and resend --agent name who acts", async () => {
    actions();
    const each = ["each", "send", "--actions", "./actions.mjs", "--agent", "bulk-bot"];
    expect((await cli.run(each, { stdin: '{"to":"ada"}\n' })).code).toBe(0);
    const { json } = await cli.run(["ls", "--json", "--result-id", "msg_ada"]);
    expect(json.records).toMatchObject([{ agent: "bulk-bot" }]);
    const again = [
      "resend",
      json.records[0].key,
      "--actions",
      "./actions.mjs",
      "--reason",
      "lost",
      "--agent",
      "ana-bot",
    ];
    // The module is loaded once in this process, and each has closed its ledger.
    writeFileSync(join(cli.folder, "again.mjs"), readFileSync(join(cli.folder, "actions.mjs"), "utf8"));
    again[3] = "./again.mjs";
    expect((await cli.run(again)).err).toBe("");
    const { json: now } = await cli.run(["ls", "--json", "--agent", "ana-bot"]);
    expect(now.records).toMatchObject([{ version: 2 }]);
  });

  it.each([
    [["--agent", "a\nb"], {}, /--agent: agent contains a control character/],
    [["--agent", "x".repeat(201)], {}, /--agent: agent is a string of 201 characters/],
    [[], { NEVERTWICE_AGENT: " " }, /\$NEVERTWICE_AGENT: agent is a string of 1 characters/],
  ])("refuses %j with %j before anything is run", async (flags, more, message) => {
    const line = ["run", "--job", "digest", "--slot", "a", ...flags, "--", "sh", "-c", "echo ran > ran"];
    const { code, err } = await cli.run(line, { env: { ...env, ...more } });
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });
});
