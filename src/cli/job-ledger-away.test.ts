/** `nevertwice run` while the ledger is away as the command ends: never a silent 0 for what nobody wrote down. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { freshDatabase } from "../../test/services/addresses.ts";
import { CliLedger } from "../../test/support/cli.ts";
import { tcpProxy } from "../../test/support/tcp-proxy.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
});
afterEach(() => cli.close());

const env = { PATH: process.env.PATH ?? "" };
const sh = (script: string) => ["--", "sh", "-c", script];

async function begun(lease: string) {
  const { url } = await freshDatabase();
  const proxy = await tcpProxy(new URL(url));
  const run = (argv: readonly string[]) =>
    cli.run(["run", "--job", "post", "--slot", "s", "--lease", lease, ...argv], { env });
  const running = run([
    "--store",
    proxy.through(url),
    ...sh("echo run >> log; touch began; while [ ! -e go ]; do sleep 0.05; done"),
  ]);
  while (!existsSync(join(cli.folder, "began"))) await new Promise((done) => setTimeout(done, 20));
  await proxy.close();
  writeFileSync(join(cli.folder, "go"), "");
  return { url, proxy, run, running };
}

it("it comes back: the end is written late, and the slot does not run again", async () => {
  const { url, proxy, run, running } = await begun("20s");
  await new Promise((done) => setTimeout(done, 500));
  const back = await tcpProxy(new URL(url), proxy.port);
  expect(await running).toMatchObject({ code: 0, err: expect.stringContaining("trying again to record the end") });
  expect(await run(["--store", url, "--on-skip", "75", ...sh("echo again >> log")])).toMatchObject({ code: 75 });
  expect(readFileSync(join(cli.folder, "log"), "utf8")).toBe("run\n");
  await back.close();
});

it("it stays away: the exit code is 13, and stderr says what follows", async () => {
  const { running } = await begun("2s");
  const { code, err } = await running;
  expect(code).toBe(13);
  expect(err).toMatch(/this end is not recorded: when its lease is over, the next call for this slot runs it again/);
});
