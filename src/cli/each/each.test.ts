/** The command `each`, as its user sees it: how far it is, why inputs fail, when it stops, and what it leaves behind. */
import { spawnSync } from "node:child_process";
import { openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { until } from "../../../test/support/gate.ts";
import type { EachProgress } from "../../engine/each-tally.ts";
import { Args } from "../args.ts";
import type { Context } from "../command.ts";
import { FailureCauses } from "./failure-causes.ts";
import { inputFile, LineCount } from "./input-file.ts";
import { EachView } from "./view.ts";

const COMMAND = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));

let ledger: CliLedger;
let modules = 0;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

/** `run` is the body of the action. A file named down is an outage of the provider. */
function actions(run = ""): string {
  modules += 1;
  const name = `each-actions-${modules}.mjs`;
  writeFileSync(
    join(ledger.folder, name),
    `import { existsSync, appendFileSync } from "node:fs";
     import { nevertwice, notSent, rejected } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
     const nt = nevertwice({ sweep: false, store: "sqlite:${ledger.path}", onWarning: () => {} });
     export const mail = nt.action("send_mail", { key: ["to"], wait: 0, run: async (i) => {
       ${run}
       if (existsSync(${JSON.stringify(join(ledger.folder, "down"))})) throw notSent(new Error("connect ECONNREFUSED 10.0.0.7:" + i.to.length));
       appendFileSync(${JSON.stringify(join(ledger.folder, "sent.txt"))}, i.to + "\\n");
       return { id: i.to };
     } });`,
  );
  return `./${name}`;
}

const recipients = (count: number) =>
  Array.from({ length: count }, (_, i) => `${JSON.stringify({ to: `n${i}` })}\n`).join("");
const each = (stdin: string, module: string, ...more: string[]) =>
  ledger.run(["each", "send_mail", "--actions", module, ...more], { stdin, columns: 400 });
const readLines = (name: string) => readFileSync(join(ledger.folder, name), "utf8").trimEnd().split("\n");

describe("each stops when the provider is down", () => {
  it("O11 after 20 failures in a row, with exit code 4, and the next start sends what is missing", async () => {
    writeFileSync(join(ledger.folder, "down"), "");
    const stopped = await each(recipients(300), actions(), "--concurrency", "5", "--failed-to", "failed.jsonl");
    expect(stopped.code).toBe(4);
    expect(stopped.out).toMatch(/^2\d inputs: 0 sent, 0 done before, 2\d failed, 0 in doubt$/m);
    expect(stopped.out).toMatch(
      /Stopped: 20 inputs in a row failed or came into doubt, the last with: connect ECONNREFUSED .*\. Nothing was begun after that, and nothing is lost\. Start it again with the same inputs: only what is missing is sent\./,
    );
    expect(stopped.out).toContain("--stop-after never");
    const failed = readLines("failed.jsonl").map((line) => JSON.parse(line) as { to: string });
    expect(failed.length).toBeGreaterThanOrEqual(20);
    expect(failed.length).toBeLessThan(25);

    rmSync(join(ledger.folder, "down"));
    const again = await each(recipients(300), actions());
    expect([again.code, again.err]).toEqual([0, ""]);
    expect(again.out).toBe("300 inputs: 300 sent, 0 done before, 0 failed, 0 in doubt\n");
    expect(new Set(readLines("sent.txt")).size).toBe(300);
    expect(readLines("sent.txt")).toHaveLength(300);
  });

  it("as many as it is told; 0 and never go through to the end", async () => {
    writeFileSync(join(ledger.folder, "down"), "");
    const { json, code } = await each(recipients(60), actions(), "--stop-after", "3", "--concurrency", "1", "--json");
    expect([code, json]).toMatchObject([
      4,
      { done: 3, failed: 3, complete: false, stopped: { inARow: 3, why: expect.stringContaining("ECONNREFUSED") } },
    ]);
    for (const never of ["never", "0"]) {
      const { json, code } = await each(recipients(60), actions(), "--stop-after", never, "--json");
      expect([code, json.failed, json.complete, json.stopped]).toEqual([1, 60, true, undefined]);
    }
    const wrong = await each(recipients(1), actions(), "--stop-after", "soon");
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("--stop-after soon: it takes a whole number")]);
  });

  it("not for inputs that are refused for good, and not for lines that cannot be read", async () => {
    const refuses = actions(`throw rejected(new Error("550 no such mailbox"));`);
    const { code, out } = await each(`${recipients(60)}${"{\n".repeat(60)}`, refuses, "--concurrency", "2");
    expect([code, out]).toEqual([1, "120 inputs: 0 sent, 0 done before, 120 failed, 0 in doubt\n"]);
  });
});

describe("why inputs fail", () => {
  it("each cause is said once when it comes up, and counted at the end, with the first lines", async () => {
    const module = actions(`
      if (i.to.endsWith("7")) throw rejected(new Error('no mailbox "' + i.to + '@example.com" (request ' + i.to.length + ')'));
      if (i.to.endsWith("9")) throw new Error("socket hang up");`);
    const { err, out } = await each(recipients(100), module, "--concurrency", "1");
    expect(out).toContain("100 inputs: 80 sent, 0 done before, 10 failed, 10 in doubt");
    expect(err.split("\n").filter((line) => line !== "")).toEqual([
      expect.stringMatching(/^nevertwice: line 8 \(nt1_\w+\) failed: no mailbox "n7@example.com" \(request 2\)$/),
      expect.stringMatching(/^nevertwice: line 10 \(nt1_\w+\) is in doubt: socket hang up$/),
      "nevertwice: 10 failed: no mailbox … (request #) (lines 8, 18, 28 and 7 more)",
      expect.stringMatching(/^nevertwice: 10 in doubt: socket hang up \(lines 10, 20, 30 and 7 more\)$/),
    ]);
  });

  it("errors that all differ do not flood the screen, nor the memory", async () => {
    const letters = `const word = [...String(i.to)].map((c) => String.fromCharCode(97 + c.charCodeAt(0) % 26)).join("");`;
    const module = actions(`${letters} throw rejected(new Error("no " + word + " here"));`);
    const { err } = await each(recipients(90), module, "--concurrency", "1");
    expect(err.match(/^nevertwice: line /gm)).toHaveLength(20);
    expect(err.split("\n").length).toBeLessThan(50);
    expect(err).toMatch(/and \d+ further causes/);
    const causes = new FailureCauses();
    for (let i = 0; i < 5_000; i += 1) causes.add("failed", i, `no ${"abcdefghij"[i % 10]}${"x".repeat(i % 500)}`);
    expect(causes.list()).toHaveLength(200);
    expect(causes.others + causes.list().reduce((sum, { count }) => sum + count, 0)).toBe(5_000);
  });

  it("--json stays one document, and nothing else", async () => {
    const { json, err } = await each(recipients(3), actions(`throw rejected(new Error("no"));`), "--json");
    expect(err).toBe("");
    expect(Object.keys(json).sort()).toEqual(
      "brokenLines complete done elsewhere failed failedInputs inDoubt inDoubtInputs replayed sent".split(" "),
    );
  });
});

describe("--failed-to", () => {
  it("holds every input that failed, however many there are", async () => {
    const refuses = actions(`throw rejected(new Error("no"));`);
    const { code, err } = await each(recipients(2_500), refuses, "--failed-to", "failed.jsonl");
    expect(code).toBe(1);
    expect(err).not.toContain("holds the first");
    const kept = readLines("failed.jsonl").map((line) => (JSON.parse(line) as { to: string }).to);
    expect(new Set(kept).size).toBe(2_500);
  });

  it("is made anew by each start, before anything runs; where it cannot be written, nothing runs", async () => {
    writeFileSync(join(ledger.folder, "failed.jsonl"), "of an earlier start\n");
    await each(recipients(1), actions(), "--failed-to", "failed.jsonl");
    expect(readFileSync(join(ledger.folder, "failed.jsonl"), "utf8")).toBe("");
    const nowhere = await each(recipients(2), actions(), "--failed-to", "no/such/folder/failed.jsonl");
    expect([nowhere.code, nowhere.err]).toEqual([
      1,
      expect.stringContaining("no/such/folder/failed.jsonl cannot be written, and nothing was run"),
    ]);
    expect(readLines("sent.txt")).toEqual(["n0"]);
  });

  it("is refused where it is the file that is read: it would be emptied", () => {
    const inputs = join(ledger.folder, "inputs.jsonl");
    writeFileSync(inputs, recipients(3));
    const argv = [COMMAND, "each", "send_mail", "--actions", actions(), "--failed-to", "./inputs.jsonl"];
    const ran = spawnSync(process.execPath, argv, {
      cwd: ledger.folder,
      stdio: [openSync(inputs, "r"), "pipe", "pipe"],
      encoding: "utf8",
    });
    expect([ran.status, ran.stderr]).toEqual([2, expect.stringContaining("is the file that the inputs are read from")]);
    expect(readFileSync(inputs, "utf8")).toBe(recipients(3));
  });
});

describe("how far it is", () => {
  function screen({ tty = false, json = false, columns = 200 } = {}) {
    const said = { err: "" };
    const write = (text: string) => {
      said.err += text;
    };
    const stderr = { write, isTTY: tty, columns };
    const context = {
      args: new Args([], new Map(json ? [["json", []]] : [])),
      io: { stderr },
      note: (text: string) => stderr.write(`nevertwice: ${text}\n`),
    } as unknown as Context;
    return { context, said };
  }
  const progress = (given: Partial<EachProgress>): EachProgress => ({
    done: 0,
    sent: 0,
    replayed: 0,
    failed: 0,
    inDoubt: 0,
    elsewhere: 0,
    rate: 0,
    ...given,
  });

  it("on a terminal: one line, with the share of records done, the rate and the time left", () => {
    const { context, said } = screen({ tty: true });
    const view = new EachView(context, 10_000);
    // A tenth of the bytes may be read long before: the records count. What was done before counts as done.
    view.progress(progress({ done: 1_000, sent: 400, replayed: 590, failed: 10, rate: 50 }));
    expect(said.err).toMatch(/█{2}░{22} 10 % {2}400 sent, 590 done before, 10 failed, 0 in doubt, 50\/s, 3m left$/);
    expect(said.err).not.toContain("\n");
    view.close();
  });

  it("a narrow terminal gets as much of the line as fits: it is written over as a whole", () => {
    const { context, said } = screen({ tty: true, columns: 40 });
    new EachView(context, 10_000).progress(progress({ done: 1_000, sent: 1_000, rate: 50 }));
    const shown = said.err.split("\u001b[2K").at(-1) ?? "";
    expect([...shown].length).toBeLessThan(40);
  });

  it("from a pipe: no share and no time left, only counts and the rate", () => {
    const { context, said } = screen({ tty: true });
    new EachView(context, null).progress(progress({ done: 70, sent: 70, rate: 3.25 }));
    expect(said.err.split("\u001b[2K").at(-1)).toBe("70 sent, 0 done before, 0 failed, 0 in doubt, 3.3/s");
  });

  it("without a terminal: a line now and then, and how often known causes came up since", async () => {
    const { context, said } = screen();
    const view = new EachView(context, 200, 5);
    const failure = { index: 0, input: {}, status: "failed", why: new Error("503 from 10.0.0.7") } as const;
    for (let line = 1; line <= 50; line += 1) view.failed({ ...failure, index: line }, line);
    view.broken(51, "it is not JSON");
    view.progress(progress({ done: 99, sent: 49, failed: 50, rate: 20 }));
    await until(() => said.err.includes("so far"));
    view.close();
    expect(said.err).toContain("nevertwice: line 1 failed: 503 from 10.0.0.7\n");
    expect(said.err).toContain(
      "nevertwice: 50 %, 100 of 200 inputs: 49 sent, 0 done before, 51 failed, 0 in doubt, 20/s, 5s left\n",
    );
    expect(said.err.match(/so far 50 failed: 503 from/g)).toHaveLength(1);
    expect(said.err.match(/^nevertwice: line /gm)).toHaveLength(2);
  });

  it("counts the lines of a file that are not blank, without moving where it is read", async () => {
    const path = join(temporaryFolder(), "inputs.jsonl");
    writeFileSync(path, '{"to":1}\r\n\n  \t\r\n{"to":2}\nnot json\n{"to":3}');
    const fd = openSync(path, "r");
    const file = inputFile(fd);
    expect(await file?.countLines()).toBe(4);
    expect(readFileSync(fd, "utf8")).toContain('{"to":1}');
    expect([file?.isAt(path), file?.isAt(`${path}.other`)]).toEqual([true, false]);
    for (const cut of [1, 2, 3, 7]) {
      const count = new LineCount();
      const bytes = readFileSync(path);
      for (let at = 0; at < bytes.length; at += cut) count.push(bytes.subarray(at, at + cut));
      expect(count.end()).toBe(4);
    }
  });
});
