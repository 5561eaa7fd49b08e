/** `nevertwice run` while the ledger is away as the command ends: never a silent 0 for what nobody wrote down. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
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

it("R2: it stays away: the exit code is 13, stderr says what follows, and the next call records the end", async () => {
  const { url, run, running } = await begun("2s");
  const { code, err } = await running;
  expect(code).toBe(13);
  expect(err).toMatch(
    /this end is not recorded: the exit code is kept in a file, and the next call for this slot on this host records it/,
  );
  // A ledger that is not a file keeps them in the user's state folder, for the user alone.
  const exits = join(cli.folder, ".local/state/nevertwice/exits");
  expect(statSync(exits).mode & 0o777).toBe(0o700);
  const [ledger = ""] = readdirSync(exits);
  expect(readdirSync(join(exits, ledger))).toHaveLength(1);
  let found = await run(["--store", url, "--on-skip", "75", ...sh("echo again >> log")]);
  while (!/recorded as done/.test(found.err)) {
    expect(found.err).toBe("");
    await new Promise((done) => setTimeout(done, 100));
    found = await run(["--store", url, "--on-skip", "75", ...sh("echo again >> log")]);
  }
  expect(found.code).toBe(75);
  expect(readFileSync(join(cli.folder, "log"), "utf8")).toBe("run\n");
  expect(readdirSync(join(exits, ledger))).toEqual([]);
});

it("it stays away, and the exit code cannot be kept: the next call runs it again, and stderr says so", async () => {
  mkdirSync(join(cli.folder, ".local/state"), { recursive: true });
  writeFileSync(join(cli.folder, ".local/state/nevertwice"), "not a folder\n");
  const { running } = await begun("2s");
  const { code, err } = await running;
  expect(code).toBe(13);
  expect(err).toMatch(/the exit code cannot be kept in .*nevertwice\/exits.*The command runs all the same/);
  expect(err).toMatch(/this end is not recorded: when its lease is over, the next call for this slot runs it again/);
});
