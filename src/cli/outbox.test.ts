/** The commands that run actions: worker and each. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import { until } from "../../test/support/gate.ts";

let ledger: CliLedger;
let modules = 0;

beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

/** A module with two actions; each writes what it did into a file. */
function actions(): string {
  modules += 1;
  const name = `actions-${modules}.mjs`;
  const source = `import { appendFileSync } from "node:fs";
    import { nevertwice, rejected } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
    const nt = nevertwice({ sweep: false, store: "sqlite:${ledger.path}" });
    const run = async (i) => {
      if (i.to === "nobody") throw rejected(new Error("no such mailbox"));
      if (i.to === "lost") throw new Error("socket hang up");
      appendFileSync(${JSON.stringify(join(ledger.folder, "sent.txt"))}, i.to + "\\n");
      return { id: "msg_" + i.to };
    };
    export const mail = nt.action("send_mail", { key: ["to"], run });
    export const sms = nt.action("send_sms", { key: ["to"], run });`;
  writeFileSync(join(ledger.folder, name), source);
  return `./${name}`;
}

function sent(): string[] {
  try {
    return readFileSync(join(ledger.folder, "sent.txt"), "utf8").trim().split("\n").sort();
  } catch {
    return [];
  }
}

async function queue(action: string, ...recipients: string[]): Promise<void> {
  const send = ledger.program().action(action, { key: ["to"], run: (_: { to: string }) => null });
  await send.enqueueMany(recipients.map((to) => ({ to })));
}

describe("worker", () => {
  it("works off what is due and ends, with what it came to", async () => {
    await queue("send_mail", "ada", "bob");
    await queue("send_sms", "cyd");
    const { code, out, err } = await ledger.run(["worker", actions(), "--until-idle"]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain(`worker on sqlite:${ledger.path}: send_mail, send_sms`);
    expect(out).toContain("stopped: 3 done, 0 to be tried again, 0 failed, 0 in doubt");
    expect(sent()).toEqual(["ada", "bob", "cyd"]);
  });

  it("--only an action that the module does not have: refused before anything starts, with the names there are", async () => {
    await queue("send_mail", "ada");
    const { code, out, err } = await ledger.run(["worker", actions(), "--only", "send_mial", "--until-idle"]);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toMatch(
      /--only send_mial: .* exports no such action\. Did you mean send_mail\? It exports: send_mail, send_sms\./,
    );
    expect(sent()).toEqual([]);
    const nope = await ledger.run(["worker", "./nope.mjs"]);
    expect(nope.code).toBe(2);
    expect(nope.err).toMatch(/worker \.\/nope\.mjs: there is no such file/);
  });

  it("--until-idle ends with exit code 3 where the ledger is lost before everything was run", async () => {
    await queue("send_mail", "ada", "bob", "cyd");
    const module = actions();
    const source = readFileSync(join(ledger.folder, module), "utf8")
      .replace("{ appendFileSync }", "{ appendFileSync, rmSync }")
      .replace(
        "return {",
        `for (const end of ["", "-wal", "-shm"]) rmSync("${ledger.path}" + end, { force: true });\n return {`,
      );
    writeFileSync(join(ledger.folder, "loses.mjs"), source);
    const ran = await ledger.run(["worker", "./loses.mjs", "--until-idle", "--concurrency", "1", "--json"]);
    expect(ran.code).toBe(3);
    expect(ran.json).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
    expect(ran.err).toMatch(/was removed or replaced while this program had it open/);
    expect(sent()).toHaveLength(1);
  });

  it("--tenant runs that tenant's work alone, and is refused where the module belongs to another", async () => {
    for (const tenant of ["acme", "globex"]) {
      const send = ledger.program().action("send_mail", { key: ["to"], run: (_: { to: string }) => null });
      await send.enqueue({ to: tenant }, { tenant });
    }
    const module = actions();
    const { code } = await ledger.run(["worker", module, "--until-idle", "--tenant", "acme"]);
    expect([code, sent()]).toEqual([0, ["acme"]]);
    const own = readFileSync(join(ledger.folder, module), "utf8").replace(
      "sweep: false",
      'tenant: "globex", sweep: false',
    );
    writeFileSync(join(ledger.folder, "globex.mjs"), own);
    const refused = await ledger.run(["worker", "./globex.mjs", "--until-idle", "--tenant", "acme"]);
    expect(refused.code).not.toBe(0);
    expect(refused.err).toContain('confined to "globex"');
    await ledger.run(["worker", "./globex.mjs", "--until-idle"]);
    expect(sent()).toEqual(["acme", "globex"]);
  });

  it("runs only what it is told to, and says by its exit code that somebody is needed", async () => {
    await queue("send_mail", "ada", "nobody", "lost");
    await queue("send_sms", "cyd");
    const { code, out } = await ledger.run(["worker", actions(), "--until-idle", "--only", "send_mail"]);
    expect(code).toBe(1);
    expect(out).toContain("1 done, 0 to be tried again, 1 failed, 1 in doubt");
    expect(sent()).toEqual(["ada"]);
  });

  it("runs until it is asked to end, with a line that is written over on a terminal", async () => {
    await queue("send_mail", "ada");
    let interrupt = () => {};
    const running = ledger.run(["worker", actions()], {
      tty: true,
      interrupts: (asked) => {
        interrupt = asked;
      },
    });
    await until(() => sent().length === 1, "the mail");
    await queue("send_sms", "bob");
    await until(() => sent().length === 2, "the later one");
    await new Promise((done) => setTimeout(done, 600));
    interrupt();
    const { code, out, err } = await running;
    expect(code).toBe(0);
    expect(err).toMatch(/\d+\/s, backlog (\d+|…), in flight \d+, done 2, failed 0, doubt \d+/);
    expect(err).toContain("stopping: waiting for 0 intents under way");
    expect(out).toContain("stopped: 2 done");
  });

  it("says what it needs", async () => {
    expect((await ledger.run(["worker"])).err).toContain("nevertwice worker ./dist/actions.js");
    expect((await ledger.run(["worker", "./nowhere.mjs"])).err).toContain("there is no such file");
    expect((await ledger.run(["worker", actions(), "--store", "memory:"])).err).toContain("leave --store out");
    const { code, err } = await ledger.run(["worker", actions(), "--only", "send_fax"]);
    expect(code).toBe(2);
    expect(err).toContain("--only send_fax: ");
    writeFileSync(join(ledger.folder, "empty.mjs"), "export const one = 1;");
    expect((await ledger.run(["worker", "./empty.mjs"])).err).toContain("exports no action");
  });
});

describe("each", () => {
  const lines = (...recipients: string[]) => recipients.map((to) => JSON.stringify({ to })).join("\n");
  const each = (stdin: string, ...more: string[]) =>
    ledger.run(["each", "send_mail", "--actions", actions(), ...more], { stdin });

  it("O11 calls the action for every line; again, it does only what is missing", async () => {
    const first = await each(lines("ada", "bob", "zoë"));
    expect([first.code, first.err]).toEqual([0, ""]);
    expect(first.out).toBe("3 inputs: 3 sent, 0 done before, 0 failed, 0 in doubt\n");
    const again = await each(`${lines("ada", "bob", "zoë", "dan")}\n\n`);
    expect(again.out).toBe("4 inputs: 1 sent, 3 done before, 0 failed, 0 in doubt\n");
    expect(sent()).toEqual(["ada", "bob", "dan", "zoë"]);
  });

  it("tells what failed and what is in doubt, and keeps the failed inputs", async () => {
    const { code, out, err } = await each(
      `${lines("ada", "nobody", "lost")}\nnot json\n`,
      "--failed-to",
      "failed.jsonl",
    );
    expect(code).toBe(1);
    expect(out).toContain("4 inputs: 1 sent, 0 done before, 2 failed, 1 in doubt");
    expect(out).toContain("nevertwice ls --doubt\n");
    expect(err).toContain("line 4 failed: it is not JSON");
    expect(err).toMatch(/line 2 \(nt1_\w+\) failed: .*no such mailbox/);
    expect(err).toMatch(/line 3 \(nt1_\w+\) is in doubt/);
    const kept = readFileSync(join(ledger.folder, "failed.jsonl"), "utf8").trimEnd().split("\n");
    expect(kept.toSorted()).toEqual(["not json", '{"to":"nobody"}']);
    expect(err).toMatch(/failed.jsonl also holds 1 line that could not be read, unchanged: correct it/);
  });

  it("names lines of the file, also behind blank and broken ones, and every counter adds up", async () => {
    const stdin = `\nnot json\n${lines("ada")}\n\n${lines("nobody", "lost")}\n`;
    const { json } = await each(stdin, "--json", "--failed-to", "failed.jsonl");
    expect(json).toMatchObject({ done: 4, sent: 1, replayed: 0, failed: 2, inDoubt: 1, elsewhere: 0 });
    expect(json).toMatchObject({ brokenLines: [2], failedInputs: [{ line: 5 }], inDoubtInputs: [{ line: 6 }] });
    expect(readFileSync(join(ledger.folder, "failed.jsonl"), "utf8")).toBe('not json\n{"to":"nobody"}\n');
    expect((await each(stdin)).err).toMatch(/line 2 failed.*line 5 \(.*line 6 \(/s);
  });

  it("what it suggests names the module's ledger, where the command would not find it by itself", async () => {
    const other = `sqlite:${join(ledger.folder, "other.db")}`;
    const module = (name: string) =>
      writeFileSync(
        join(ledger.folder, name),
        `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
       const nt = nevertwice({ store: ${JSON.stringify(other)}, sweep: false, onWarning: () => {} });
       export const send = nt.action("send", { key: ["to"], run: async () => { throw new Error("reset"); } });`,
      );
    module("other.mjs");
    module("again.mjs");
    const { out } = await ledger.run(["each", "send", "--actions", "./other.mjs"], { stdin: lines("ada") });
    expect(out).toContain(`nevertwice ls --doubt --store ${other}\n`);
    writeFileSync(join(ledger.folder, "past.jsonl"), '{"to":"bob","status":"in_progress"}\n');
    const argv = ["import", "past.jsonl", "--action", "send", "--actions", "./again.mjs", "--fields", "to"];
    expect((await ledger.run(argv)).out).toContain(`nevertwice ls --doubt --store ${other}\n`);
  });

  it("a file's name instead of stdin is refused with the line to write", async () => {
    const { code, err } = await ledger.run(["each", "send_mail", "in.jsonl", "--actions", "a.mjs"], { stdin: "{}" });
    expect(code).toBe(2);
    expect(err).toMatch(/each takes one action; unexpected arguments: "in.jsonl"\. .*< in\.jsonl\./);
    expect((await ledger.run(["worker", "a.mjs", "b.mjs"])).err).toMatch(/worker takes one module; unexpected/);
    expect((await ledger.run(["import", "a.csv", "b.csv"])).err).toMatch(/import takes one file; unexpected/);
    expect((await ledger.run(["show", "a", "b"])).err).toMatch(/show takes one key; unexpected arguments: "b"/);
  });

  it("as JSON", async () => {
    const { json } = await each(lines("ada", "nobody"), "--json");
    expect(json).toMatchObject({ done: 2, sent: 1, failed: 1, complete: true, failedInputs: [{ index: 1 }] });
  });

  it("draws a bar on a terminal", async () => {
    const inputs = lines(...Array.from({ length: 40 }, (_, i) => `n${i}`));
    const { err } = await ledger.run(["each", "send_mail", "--actions", actions()], { stdin: inputs, tty: true });
    expect(err).toMatch(/[█░]{24} \d+ % {2}\d+ sent/);
  });

  it("says what it needs", async () => {
    expect((await ledger.run(["each"])).err).toContain("each needs an action's name");
    expect((await ledger.run(["each", "send_mail", "--actions", actions()])).err).toContain("nothing is piped in");
    const { err } = await ledger.run(["each", "send_fax", "--actions", actions()], { stdin: "{}" });
    expect(err).toContain('no action named "send_fax"; it has: send_mail, send_sms');
  });
});
