/** The service and its clients, killed at random points: no effect twice, and every gap visible as a doubt. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { temporaryFolder } from "../support/each-store.ts";
import { effort } from "../support/effort.mjs";
import { until } from "../support/gate.ts";

const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const client = fileURLToPath(new URL("./serve-client.mjs", import.meta.url));
// Each kills the service or clients, one or two processes.
const ROUNDS = effort(5, 20);
const TOKEN = "a-token-for-tests-0123456789";

const STORES: Readonly<Record<string, (folder: string) => Promise<string>>> = {
  sqlite: async (folder) => `sqlite:${join(folder, "ledger.db")}`,
  postgres: async () => (await freshDatabase()).url,
};

function start(argv: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, argv, {
    env: { PATH: process.env.PATH, NEVERTWICE_SERVE_TOKEN: TOKEN },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

async function serve(store: string, port: string): Promise<{ service: ChildProcess; url: string }> {
  const service = start([command, "serve", "--store", store, "--port", port, "--sweep", "200ms"]);
  for await (const line of createInterface({ input: service.stdout as NodeJS.ReadableStream })) {
    const [url] = /http:\S+/.exec(line) ?? [];
    if (url !== undefined) return { service, url };
  }
  throw new Error("the service did not start");
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

function lines(file: string): string[] {
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
}

const ask = async (url: string, name: string, body: object) => {
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/v1/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await answer.json()) as Record<string, unknown>;
};

describe.each(Object.keys(STORES))("D7: on %s", (name) => {
  const storeOf = STORES[name] as (folder: string) => Promise<string>;

  it("the service is killed between claim and settlement: the client settles after its restart", async () => {
    const store = await storeOf(temporaryFolder());
    const first = await serve(store, "0");
    const { port } = new URL(first.url);
    const claimed = await ask(first.url, "claim", { action: "send", parts: ["a"] });
    await kill(first.service);
    const second = await serve(store, port);
    const intent = { action: "send", parts: ["a"] };
    expect(await ask(second.url, "claim", intent)).toMatchObject({ status: "in_flight" });
    expect(await ask(second.url, "heartbeat", { token: claimed.token })).toEqual({ leaseMs: 60_000 });
    const settle = { token: claimed.token, as: "done", result: "m-1" };
    expect(await ask(second.url, "settle", settle)).toMatchObject({ status: "done", replayed: false });
    second.service.kill("SIGTERM");
    expect(await once(second.service, "exit")).toEqual([0, null]);
  });

  it("kills of clients and of the service, anywhere: no effect twice, every gap a doubt", {
    timeout: 240_000,
  }, async () => {
    const folder = temporaryFolder();
    const store = await storeOf(folder);
    const effects = join(folder, "effects");
    writeFileSync(effects, "");
    const intents = 400;
    let running = await serve(store, "0");
    const { port } = new URL(running.url);
    // Two clients with the same list, as a cron that starts twice would have them.
    const client_ = (from: number) => start([client, running.url, TOKEN, effects, String(from), String(intents)]);
    const reached = () => Math.max(0, ...lines(effects).map((line) => Number(line.split(" ")[0]) + 1));
    let clients = [client_(0), client_(0)];
    for (let round = 0; round < ROUNDS; round += 1) {
      const seen = lines(effects).length;
      await until(() => lines(effects).length > seen + 2 || reached() >= intents, "the clients go on");
      await sleep(Math.random() * 60);
      const from = Math.max(0, reached() - 3);
      if (round % 2 === 0) await kill(running.service);
      for (const one of clients) if (Math.random() < 0.7) await kill(one);
      if (round % 2 === 0) running = await serve(store, port);
      clients = clients.map((one) => (one.signalCode === null && one.exitCode === null ? one : client_(from)));
    }
    await Promise.all(clients.map((one) => one.exitCode ?? once(one, "exit")));
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    await until(async () => (await nt.store.stats()).states.sent === 0, "no attempt is open any more");
    const counts = new Map<number, number>();
    for (const line of lines(effects)) {
      const intent = Number(line.split(" ")[0]);
      counts.set(intent, (counts.get(intent) ?? 0) + 1);
    }
    const wrong: string[] = [];
    for (let intent = 0; intent < intents; intent += 1) {
      const { status } = await ask(running.url, "status", { action: "send", parts: [intent] });
      const count = counts.get(intent) ?? 0;
      const right = status === "done" ? count === 1 : status === "unknown" ? count <= 1 : count === 0;
      if (!right) wrong.push(`${intent}: ${String(status)} with ${count} effects`);
    }
    expect(wrong).toEqual([]);
    expect(counts.size).toBeGreaterThan(effort(10, 50));
  });
});
