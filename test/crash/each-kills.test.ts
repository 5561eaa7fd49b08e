/** O11: 10 000 recipients through the command `each`, killed three times on the way; every mailbox gets one mail. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { SMTPServer } from "smtp-server";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { effort } from "../support/effort.mjs";
import { until } from "../support/gate.ts";
import { cleanUp, countKill, temporaryFolder } from "./lib/processes.mjs";

const RECIPIENTS = effort(2_000, 10_000);
const SHARE_MS = 100_000;
const COMMAND = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const ACTIONS = fileURLToPath(new URL("./mail-actions.mjs", import.meta.url));

afterAll(cleanUp);

/** A real SMTP server that counts mails by mailbox and by the key they carry, and can be asked about a key. */
async function mailServer() {
  const mailboxes = new Map<string, number>();
  const keys = new Map<string, number>();
  const count = (map: Map<string, number>, name: string) => map.set(name, (map.get(name) ?? 0) + 1);
  const smtp = new SMTPServer({
    disabledCommands: ["AUTH", "STARTTLS"],
    disableReverseLookup: true,
    onData: async (stream, session, reply) => {
      // Cut off in the middle by a kill: a mail that was never taken over.
      const raw = await text(stream).catch(() => null);
      if (raw === null) return;
      const unfolded = raw.replace(/\r\n[ \t]+/g, " ");
      count(keys, /^X-Idempotency-Key: *(\S+)/im.exec(unfolded)?.[1] ?? "none");
      for (const { address } of session.envelope.rcptTo) count(mailboxes, address);
      reply(null);
    },
  });
  smtp.on("error", () => {});
  await new Promise<void>((ready) => smtp.listen(0, "127.0.0.1", ready));
  const query = createServer((request, response) => {
    const key = new URL(request.url ?? "/", "http://mail").searchParams.get("key") ?? "";
    response.end(String(keys.get(key) ?? 0));
  });
  await new Promise<void>((ready) => query.listen(0, "127.0.0.1", ready));
  onTestFinished(async () => {
    query.closeAllConnections();
    query.close();
    await new Promise<void>((closed) => smtp.close(() => closed()));
  });
  const port = (server: { address(): unknown }) => String((server.address() as AddressInfo).port);
  return { mailboxes, smtpPort: port(smtp.server), queryPort: port(query) };
}

it("O11: killed three times, started again each time, it sends only what is missing", async () => {
  const mail = await mailServer();
  const folder = temporaryFolder();
  const inputs = join(folder, "recipients.jsonl");
  const recipient = (i: number) => `lead-${i}@example.com`;
  const lines = Array.from({ length: RECIPIENTS }, (_, i) => JSON.stringify({ to: recipient(i), issue: "2026-01" }));
  writeFileSync(inputs, `${lines.join("\n")}\n`);
  const started: ChildProcess[] = [];
  onTestFinished(() => {
    for (const child of started) child.kill("SIGKILL");
  });
  const start = () => {
    const stdin = openSync(inputs, "r");
    const args = [COMMAND, "each", "send_newsletter", "--actions", ACTIONS, "--concurrency", "20", "--json"];
    const env = {
      ...process.env,
      MAIL_STORE: `sqlite:${folder}/ledger.db`,
      MAIL_SMTP_PORT: mail.smtpPort,
      MAIL_QUERY_PORT: mail.queryPort,
    };
    const child = spawn(process.execPath, args, { stdio: [stdin, "pipe", "pipe"], env });
    closeSync(stdin);
    started.push(child);
    const said = Promise.all([
      text(child.stdout as NodeJS.ReadableStream),
      text(child.stderr as NodeJS.ReadableStream),
    ]);
    const exited = new Promise<number | null>((done) => child.on("close", done));
    return { child, said, exited };
  };
  for (const share of [0.2, 0.5, 0.8]) {
    const run = start();
    await Promise.race([
      until(() => mail.mailboxes.size >= RECIPIENTS * share, "a share of the mails", SHARE_MS),
      run.exited,
    ]);
    expect(run.child.kill("SIGKILL"), "it still ran").toBe(true);
    countKill();
    await run.exited;
  }
  const last = start();
  const [[out, err], code] = await Promise.all([last.said, last.exited]);
  expect(err).toBe("");
  const report = JSON.parse(out);
  expect(report).toMatchObject({ done: RECIPIENTS, failed: 0, inDoubt: 0, elsewhere: 0, complete: true });
  expect(code).toBe(0);
  expect(report.replayed).toBeGreaterThan(RECIPIENTS / 2);
  expect(mail.mailboxes.size).toBe(RECIPIENTS);
  expect([...mail.mailboxes].filter(([, mails]) => mails !== 1)).toEqual([]);
}, 400_000);
