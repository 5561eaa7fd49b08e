/** `nevertwice import` on every store, and killed in the middle. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { chooseStore } from "../src/open-store.ts";
import { freshDatabase, freshPrefix, redisUrl } from "./services/addresses.ts";
import { CliLedger } from "./support/cli.ts";
import { until } from "./support/gate.ts";
import { startS3 } from "./support/s3-server.ts";

function cliLedger(): CliLedger {
  const cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
  onTestFinished(() => cli.close());
  return cli;
}

const STORES: Record<string, (cli: CliLedger) => Promise<string>> = {
  sqlite: async (cli) => `sqlite:${cli.path}`,
  file: async (cli) => `file:${join(cli.folder, "ledger.jsonl")}`,
  postgres: async () => `${(await freshDatabase()).url}?schema=t_${randomBytes(4).toString("hex")}`,
  redis: async () => `${redisUrl()}?prefix=${freshPrefix().replace(/:$/, "")}`,
  s3: async () => {
    const server = await startS3();
    onTestFinished(() => server.close());
    vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    onTestFinished(() => void vi.unstubAllEnvs());
    return `${server.url}?endpoint=${encodeURIComponent(server.endpoint)}`;
  },
};

const CSV = `lead_id,template,status,sent_at,message_id
1,welcome,failed,2026-01-15T06:00:00Z,
1,welcome,sent,2026-01-15T06:01:00Z,m-1
2,welcome,sent,2026-01-15T06:00:00Z,m-2
3,welcome,in_progress,2026-01-15T06:00:00Z,
`;
const FLAGS = ["--action", "send", "--fields", "lead_id,template", "--types", "lead_id=number"];

describe.each(Object.entries(STORES))("%s", (_name, address) => {
  it("rows become records once, sealed, of one tenant; the program repeats none of them", async () => {
    const cli = cliLedger();
    const store = await address(cli);
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    writeFileSync(join(cli.folder, "sends.csv"), CSV);
    const line = [
      "import",
      "sends.csv",
      ...FLAGS,
      "--store",
      store,
      "--tenant",
      "acme",
      "--encrypt-env",
      "KEY",
      "--json",
    ];
    const around = { env: { KEY: encrypt } };
    const first = await cli.run(line, around);
    expect(first).toMatchObject({ code: 0, err: "" });
    expect(first.json).toMatchObject({
      rows: 4,
      keys: 3,
      imported: 3,
      states: { confirmed: 2, unknown: 1 },
      check: { repeats: 3, inDoubt: 1, unguarded: 0 },
    });
    const again = await cli.run(line, around);
    expect(again.json).toMatchObject({ imported: 0, strengthened: 0, known: 3, check: { unguarded: 0 } });

    const opened = chooseStore(store, "store", {
      cwd: cli.folder,
      env: {},
      home: cli.folder,
      platform: process.platform,
    }).store;
    const nt = nevertwice({ store: opened, tenant: "acme", encrypt, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    const ran: number[] = [];
    const send = nt.action("send", {
      key: ["lead_id", "template"],
      run: ({ lead_id }: { lead_id: number; template: string }) => void ran.push(lead_id),
    });
    const attempt = (lead_id: number, tenant = "acme") => send.attempt({ lead_id, template: "welcome" }, { tenant });
    expect(await attempt(1)).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-1" } });
    expect(await attempt(2)).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-2" } });
    expect(await attempt(3)).toMatchObject({ status: "unknown" });
    expect(ran).toEqual([]);

    // What was under way then is done by now, and the newer log says so.
    writeFileSync(join(cli.folder, "sends.csv"), `${CSV}3,welcome,sent,2026-01-15T06:02:00Z,m-3\n`);
    expect((await cli.run(line, around)).json).toMatchObject({ imported: 0, strengthened: 1, known: 2 });
    expect(await attempt(3)).toMatchObject({ status: "done", replayed: true, result: { message_id: "m-3" } });
    expect(ran).toEqual([]);
  });
});

it("killed in the middle and started again: every row is guarded, and none twice", async () => {
  const cli = cliLedger();
  const rows = Array.from({ length: 5_000 }, (_, i) => `{"key":"k${i}","result":"m-${i}"}\n`);
  writeFileSync(join(cli.folder, "l.jsonl"), rows.join(""));
  const command = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
  const total = async () => (await cli.program().store.stats()).total;
  for (let kill = 0; kill < 2; kill += 1) {
    const before = await total();
    const child = spawn(process.execPath, [command, "import", "l.jsonl", "--action", "send"], { cwd: cli.folder });
    const exited = new Promise((done) => child.once("exit", done));
    await until(async () => child.exitCode !== null || (await total()) > before, "the first records");
    child.kill("SIGKILL");
    await exited;
  }
  const { code, json } = await cli.run(["import", "l.jsonl", "--action", "send", "--json"]);
  expect(code).toBe(0);
  expect(json.imported + json.known).toBe(5_000);
  expect(json.check).toMatchObject({ repeats: 5_000, unguarded: 0 });
  expect(await total()).toBe(5_000);
  expect(await cli.program().once("send", ["k4999"], () => "again")).toBe("m-4999");
});
