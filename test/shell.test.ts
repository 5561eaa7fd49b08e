/** Shell scripts that claim and settle: what they do under `set -e`, and what is left when they die. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "./support/each-store.ts";
import { until } from "./support/gate.ts";

const command = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

let folder: string;
let env: NodeJS.ProcessEnv;
beforeEach(() => {
  folder = temporaryFolder();
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "package.json"), "{}\n");
  tool("nevertwice", `exec "${process.execPath}" "${command}" "$@"`);
  // The effect: a line in a file.
  tool("send-invoice", `echo "$1" >> "${join(folder, "sent")}"; echo "msg-$1"`);
  env = { PATH: `${join(folder, "bin")}:${process.env.PATH}`, HOME: folder };
});

function tool(name: string, body: string): void {
  const file = join(folder, "bin", name);
  writeFileSync(file, `#!/bin/sh\n${body}\n`);
  chmodSync(file, 0o755);
}

function sh(script: string, shell = "sh") {
  const { status, stdout, stderr } = spawnSync(shell, ["-c", script], { cwd: folder, env, encoding: "utf8" });
  return { code: status, out: stdout, err: stderr };
}

const sent = () =>
  existsSync(join(folder, "sent")) ? readFileSync(join(folder, "sent"), "utf8").trim().split("\n") : [];

const SCRIPT = `
set -eu
if token=$(nevertwice claim send_invoice 7); then
  id=$(send-invoice 7)
  nevertwice settle "$token" --as done --result-text "$id"
else
  case $? in
    16) echo "sent before" ;;
    *)  echo "not now: $?"; exit 1 ;;
  esac
fi
echo "goes on"
`;

describe.each(["sh", "bash"])("in %s", (shell) => {
  it("D7: a script that is started twice sends once, and goes on under set -e", () => {
    expect(sh(SCRIPT, shell)).toMatchObject({ code: 0, out: expect.stringMatching(/^done {2}nt1_\w+\ngoes on\n$/) });
    expect(sh(SCRIPT, shell)).toMatchObject({ code: 0, out: "sent before\ngoes on\n" });
    expect(sent()).toEqual(["7"]);
  });

  it("D7: token=$(claim) && effect && settle runs the effect only where it was claimed", () => {
    const line = `set -e
      token=$(nevertwice claim send_invoice 8) && send-invoice 8 > id && nevertwice settle "$token" --as done --result-text "$(cat id)"
      echo "goes on"`;
    expect(sh(line, shell)).toMatchObject({ code: 0, out: expect.stringContaining("goes on") });
    expect(sh(line, shell)).toMatchObject({ code: 0, out: "goes on\n" });
    expect(sent()).toEqual(["8"]);
  });
});

it("D7: an effect that fails leaves a doubt unless the script says what its failure means", () => {
  tool("fails", `exit 7`);
  const run = `set -e; token=$(nevertwice claim send_invoice 9 --lease 40ms) && fails 9 && nevertwice settle "$token" --as done`;
  expect(sh(run).code).toBe(7);
  expect(sh("sleep 0.1; nevertwice claim send_invoice 9").code).toBe(13);
  const said = `set -e; token=$(nevertwice claim send_invoice 10)
    if fails; then nevertwice settle "$token" --as done; else nevertwice settle "$token" --as not-sent --error "exit $?"; fi`;
  expect(sh(said).code).toBe(0);
  expect(sh("nevertwice claim send_invoice 10").code).toBe(0);
});

it("D7: a script that is killed between its claim and its settlement leaves a doubt, never a second send", async () => {
  tool("hangs", `echo "$1" >> "${join(folder, "sent")}"; exec sleep 600`);
  const script = `set -e; token=$(nevertwice claim send_invoice 11 --lease 3s); hangs 11; nevertwice settle "$token" --as done`;
  const child = spawn("sh", ["-c", script], { cwd: folder, env, detached: true });
  await until(() => sent().includes("11"), "the effect began");
  expect(sh("nevertwice claim send_invoice 11").code).toBe(10);
  // The whole group, as a machine that dies would.
  process.kill(-(child.pid as number), "SIGKILL");
  await once(child, "close");
  await until(() => sh("nevertwice claim send_invoice 11").code === 13, "the doubt is visible");
  expect(sh(SCRIPT.replaceAll("7", "11"))).toMatchObject({ code: 1, out: "not now: 13\n" });
  expect(sent()).toEqual(["11"]);
  const nt = nevertwice({ store: `sqlite:${join(folder, ".nevertwice", "ledger.db")}`, sweep: false });
  onTestFinished(() => nt.close());
  await expect(nt.once("send_invoice", ["11"], async () => "again")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
});

it("D7: a worker in shell takes what programs enqueue, until nothing is due", async () => {
  const nt = nevertwice({ store: `sqlite:${join(folder, ".nevertwice", "ledger.db")}`, sweep: false });
  onTestFinished(() => nt.close());
  const mail = nt.action("mail", { key: ["to"], run: async (_: { to: string }) => "by a program" });
  for (const to of ["a", "b"]) await mail.enqueue({ to });
  const loop = `set -eu
    while work=$(nevertwice take mail); do
      token=$(node -p 'JSON.parse(process.argv[1]).token' "$work")
      to=$(node -p 'JSON.parse(process.argv[1]).input.to' "$work")
      nevertwice settle "$token" --as done --result-text "$(send-invoice "$to")" > /dev/null
    done`;
  expect(sh(loop)).toMatchObject({ code: 0, err: "" });
  expect(sent().toSorted()).toEqual(["a", "b"]);
  expect(await mail({ to: "a" })).toBe("msg-a");
});
