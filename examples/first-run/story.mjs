/** The first run: four causes of a double mail, without and with nevertwice, against a real mail server. */
import { mkdirSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { causes } from "./causes.mjs";
import { unmet } from "./expect.mjs";
import { allMails } from "./mail.mjs";
import { chapter, heading, paint, paragraph, print, say } from "./print.mjs";
import { ended, heard, start } from "./processes.mjs";
import { countWith, countWithout, printTable, sum } from "./report.mjs";
import { resendOnPurpose, settleByLooking } from "./settle.mjs";
import { openLedger, withNevertwice } from "./with.mjs";
import { withoutNevertwice } from "./without.mjs";

const began = performance.now();
const folder = fileURLToPath(new URL("../../.nevertwice/first-run", import.meta.url));
const ledgerFile = join(folder, "ledger.db");
// Far above what it takes; a story that hangs must say so.
const LONGEST_MS = 60_000;

async function openMailServer(mode) {
  const mailbox = join(folder, `mailbox-${mode}`);
  const server = start("./mail-server.mjs", [], { mailbox });
  server.on("message", ({ type, id, mail, fault, count }) => {
    if (type !== "accepted") return;
    const then = { cut: ", then cuts the line", stall: ", its reply not yet sent" }[fault] ?? "";
    say("mail server", `accepted mail ${count} for ${mail.to}${then}`);
    if (fault !== "stall") server.send({ id });
  });
  const { smtpPort, queryPort } = await heard(server, "ready");
  return { server, place: { smtpPort, queryPort, ledger: ledgerFile, notes: join(folder, "notes.txt") } };
}

async function closeMailServer(server) {
  server.disconnect();
  await ended(server);
}

async function playCauses(world) {
  for (const [index, cause] of causes.entries()) {
    heading(`${index + 1}. ${cause.title}`);
    await cause.play(world);
    sayMailbox(cause.leads, await allMails(world.place));
  }
}

function sayMailbox(leads, mails) {
  const counts = leads.map(({ to }) => ({ to, count: mails.filter((mail) => mail.to === to).length }));
  const text = counts.map(({ to, count }) => `${to.split("@")[0]} has ${count}`).join(", ");
  say("mailbox", text, counts.every(({ count }) => count === 1) ? "green" : "red");
}

async function runWithout() {
  const { server, place } = await openMailServer("without");
  await playCauses({ mode: "without", server, place, sender: withoutNevertwice(place) });
  const rows = countWithout(await allMails(place));
  await closeMailServer(server);
  return rows;
}

async function runWith() {
  const { server, place } = await openMailServer("with");
  const ledger = openLedger(place, say);
  const world = { mode: "with", server, place, ledger, sender: withNevertwice(ledger) };
  await playCauses(world);
  heading("5. A person settles what is still in doubt");
  const held = await settleByLooking(world);
  heading("6. A person sends one again, on purpose");
  await resendOnPurpose(world);
  const { items } = await ledger.nt.store.list({ limit: 100 });
  const records = items.map(({ record }) => record);
  const mails = await allMails(place);
  await ledger.nt.close();
  await closeMailServer(server);
  return { rows: countWith(mails, records), held, mails };
}

function printSummary(without, { rows }) {
  const byPerson = rows.filter(({ settledBy }) => settledBy === "kim").length;
  const resent = rows.filter(({ version }) => version > 1).length;
  const byProbe = rows.filter(({ settledBy }) => settledBy === "its probe").length;
  print();
  paragraph(
    `The same ${causes.length} causes made ${sum(without, "duplicates")} duplicate mails without nevertwice and ` +
      `${sum(rows, "duplicates")} with it: one mail for each intent, ${byPerson} held in doubt until a person resolved ` +
      `it, ${byProbe} settled by its probe, ${resent} sent again on purpose.`,
  );
}

function printCommands({ rows }) {
  const store = `--store sqlite:${relative(process.cwd(), ledgerFile)}`;
  heading("Look at the ledger it wrote:");
  for (const command of ["ls", "stats", "doctor", "show <key>"]) print(`  npx nevertwice ${command} ${store}`);
  print("\nThe key of the doubt that was held:");
  print(`  ${rows.find(({ settledBy }) => settledBy === "kim").key}`);
}

async function main() {
  setTimeout(() => fail([`it did not end within ${LONGEST_MS / 1000} s`]), LONGEST_MS).unref();
  // The demo's own ledger and mailboxes: every run starts afresh.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const leads = causes.flatMap((cause) => cause.leads);
  paragraph(`An agent follows up on ${leads.length} leads by mail: one mail for each is what is meant.`);
  chapter("WITHOUT nevertwice: the agent keeps a list of whom it mailed");
  const without = await runWithout();
  chapter("WITH nevertwice: the same function, wrapped once");
  const withIt = await runWith();
  chapter("What the mailbox and the ledger say");
  printTable(without, withIt.rows);
  const missed = unmet(without, withIt);
  if (missed.length > 0) fail(missed);
  printSummary(without, withIt);
  printCommands(withIt);
  print(paint("dim", `\nIt took ${((performance.now() - began) / 1000).toFixed(1)} s.`));
}

function fail(reasons) {
  process.stderr.write(`\nThe story did not go as told. Missing:\n${reasons.map((one) => `  - ${one}\n`).join("")}`);
  process.exit(1);
}

await main().catch((error) => fail([error.message]));
