/** O11: `nevertwice each --failed-to`, killed at any moment: what had failed by then is in the file, as whole JSON lines. */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { until } from "../support/gate.ts";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";

const COMMAND = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const INPUTS = 3_000;

afterAll(cleanUp);

interface Input {
  readonly to: string;
  readonly body: string;
}

/** Every other input is refused for good; both kinds are written down by the action itself, before it ends. */
function program(folder: string): string {
  const path = join(folder, "actions.mjs");
  const tried = JSON.stringify(join(folder, "tried.txt"));
  writeFileSync(
    path,
    `import { appendFileSync } from "node:fs";
     import { nevertwice, rejected } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
     const nt = nevertwice({ sweep: false, store: ${JSON.stringify(`sqlite:${folder}/ledger.db`)} });
     export const mail = nt.action("send_mail", { key: ["to"], lease: "1s", doubt: "retry", run: async ({ to }) => {
       appendFileSync(${tried}, to + "\\n");
       if (Number(to) % 2 === 1) throw rejected(new Error("550 no such mailbox " + to));
     } });`,
  );
  return path;
}

it("O11 the inputs that failed before each of three kills are in the file; the last start has all of them", async () => {
  const folder = temporaryFolder();
  const actions = program(folder);
  const inputs = join(folder, "inputs.jsonl");
  const failed = join(folder, "failed.jsonl");
  const lines = Array.from({ length: INPUTS }, (_, i) => JSON.stringify({ to: String(i), body: "ü".repeat(200) }));
  writeFileSync(inputs, `${lines.join("\n")}\n`);
  const tried = () => readFileSync(join(folder, "tried.txt"), { encoding: "utf8", flag: "a+" }).split("\n").length - 1;
  const start = () => {
    const stdin = openSync(inputs, "r");
    const argv = [COMMAND, "each", "send_mail", "--actions", actions, "--failed-to", failed, "--json"];
    const child = spawn(process.execPath, argv, { cwd: folder, stdio: [stdin, "pipe", "pipe"] });
    closeSync(stdin);
    child.stderr?.resume();
    onTestFinished(() => void child.kill("SIGKILL"));
    const out = text(child.stdout as NodeJS.ReadableStream);
    return { child, out, exited: new Promise<number | null>((done) => child.on("exit", done)) };
  };
  const keptInputs = (): Input[] =>
    readFileSync(failed, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Input);
  for (const [kills, share] of [0.2, 0.5, 0.8].entries()) {
    const { child, exited } = start();
    await until(() => tried() >= INPUTS * share, "a share of the inputs", 60_000);
    expect(child.kill("SIGKILL"), "it still ran").toBe(true);
    countKill();
    await exited;
    const kept = keptInputs();
    // All but those that were under way when it was killed, 20 at a time: a later start may hold them in doubt.
    const odd = new Set(
      readFileSync(join(folder, "tried.txt"), "utf8")
        .split("\n")
        .filter((to) => Number(to) % 2 === 1),
    );
    expect(kept.length).toBeGreaterThanOrEqual(odd.size - 20 * (kills + 1));
    expect(new Set(kept.map(({ to }) => to)).size).toBe(kept.length);
    for (const { to, body } of kept) expect([Number(to) % 2, body]).toEqual([1, "ü".repeat(200)]);
    expect(readFileSync(failed, "utf8")).toMatch(/\n$/);
  }
  const { exited, out } = start();
  expect(await exited).toBe(1);
  const report = JSON.parse(await out) as { failed: number; inDoubt: number };
  expect(report.failed + report.inDoubt).toBe(INPUTS / 2);
  expect(new Set(keptInputs().map(({ to }) => to)).size).toBe(report.failed);
}, 200_000);
