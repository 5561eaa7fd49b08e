/** The command as it is installed: a process of its own, from the build. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";

const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

function nevertwice(...argv: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...argv], {
    cwd: ledger.folder,
    encoding: "utf8",
    env: { PATH: process.env.PATH },
  });
  return { code: status, out: stdout, err: stderr };
}

it("tells its version, and begins with the line a shell needs", () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  expect(nevertwice("--version")).toEqual({ code: 0, out: `${version}\n`, err: "" });
  expect(readFileSync(command, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
});

it("ends with the code of what it found", async () => {
  await ledger.put({ key: keyLike("doubt001"), state: "unknown", why: "timeout" });
  expect(nevertwice("ls").code).toBe(0);
  expect(nevertwice("status", "doubt001").code).toBe(13);
  expect(nevertwice("status", keyLike("none0001")).code).toBe(15);
  expect(nevertwice("show", keyLike("none0001")).code).toBe(1);
  expect(nevertwice("lss").code).toBe(2);
  expect(nevertwice("doctor").code).toBe(1);
  writeFileSync(join(ledger.folder, "broken.db"), "not a database ".repeat(1_000));
  expect(nevertwice("ls", "--store", "broken.db").code).toBe(3);
});

it("signs with the user's name when no other is given", async () => {
  await ledger.put({ key: keyLike("doubt001"), state: "unknown", why: "timeout" });
  expect(nevertwice("resolve", "doubt001", "--done", "--reason", "r").code).toBe(0);
  const [entry] = JSON.parse(nevertwice("show", "doubt001", "--json").out).record.history;
  expect(entry).toMatchObject({ by: expect.stringMatching(/./), reason: "r" });
});

it("writes all of a long answer into a pipe", async () => {
  const input = { json: JSON.stringify("x".repeat(200_000)) };
  await ledger.put({ key: keyLike("long0001"), state: "confirmed", input });
  expect(JSON.parse(nevertwice("show", "long0001", "--json").out).record.input.value).toHaveLength(200_000);
});

it("is silent when its reader has seen enough", async () => {
  const input = { json: JSON.stringify("x".repeat(200_000)) };
  await ledger.put({ key: keyLike("long0001"), state: "confirmed", input });
  const child = spawn(process.execPath, [command, "show", "long0001", "--json"], { cwd: ledger.folder });
  let err = "";
  child.stderr.on("data", (data) => {
    err += data;
  });
  await once(child.stdout, "data");
  child.stdout.destroy();
  const [code] = await once(child, "close");
  expect([code, err]).toEqual([0, ""]);
});
