/** Hosts with different wall clocks on one S3 ledger: each is served, and the effect happens once. */
import { fileURLToPath } from "node:url";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { startS3 } from "../support/s3-server.ts";
import { wallClock } from "./lib/holders.ts";
import { cleanUp, startProgram } from "./lib/processes.mjs";

const HOST = fileURLToPath(new URL("./s3-host.mjs", import.meta.url));
const HOUR_MS = 3_600_000;
const CLOCKS = ["-3h", "+0", "+1h", "+40d", "2030-01-01 00:00:00"];

afterAll(cleanUp);

it("hosts hours and years apart on one bucket: one effect per key, stamped with the server's time", async () => {
  const server = await startS3();
  onTestFinished(() => server.close());
  const env = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" };
  const spec = { store: server.url, endpoint: server.endpoint, key: "ada" };
  const hosts = CLOCKS.map((clock) => startProgram(HOST, spec, { env: { ...env, ...wallClock(clock) } }));
  const said = await Promise.all(hosts.map((host) => host.says((line: object) => "effects" in line)));
  expect(said.map(({ status }) => status)).toEqual(CLOCKS.map(() => "done"));
  expect(said.reduce((sum, { effects }) => sum + effects, 0)).toBe(1);
  for (const { now } of said) expect(Math.abs(now - Date.now())).toBeLessThan(60_000);
  // The clocks were really off.
  expect(said.filter(({ wall }) => Math.abs(wall - Date.now()) > HOUR_MS / 2).length).toBe(CLOCKS.length - 1);
  await Promise.all(hosts.map((host) => host.exited));
});
