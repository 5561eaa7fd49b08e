/** What the mailbox and the ledger say in the end. Nothing in the table is known beforehand. */
import { causes } from "./causes.mjs";
import { paint, print } from "./print.mjs";

/** Without: all mails to a lead belong to one intent, so every mail above the first is a duplicate. */
export function countWithout(mails) {
  return leadRows().map((row) => counted(row, mails.filter(({ to }) => to === row.lead.to).length));
}

/** With: one row per record, counted by the key that the mails carried. */
export function countWith(mails, records) {
  const rows = records.map((record) => {
    const to = JSON.parse(record.input.json).to;
    const row = leadRows().find(({ lead }) => lead.to === to);
    const cause = record.version === 1 ? row.cause : `resent, version ${record.version}`;
    const count = mails.filter(({ key }) => key === record.key).length;
    const { key, state, version } = record;
    return { ...counted({ ...row, cause }, count), key, state, version, ...doubtOf(record) };
  });
  return rows.sort((a, b) => a.version - b.version || a.at - b.at);
}

function leadRows() {
  return causes
    .flatMap(({ name, leads }) => leads.map((lead) => ({ cause: name, lead })))
    .map((row, at) => ({ ...row, at }));
}

function counted(row, mails) {
  return { ...row, mails, duplicates: Math.max(0, mails - 1) };
}

/** From the record's own history: was it ever unknown, and who ended that? */
function doubtOf({ history }) {
  const doubted = history.some(({ to }) => to === "unknown");
  const end = history.find(({ event }) => event === "probed-done" || event === "resolved-done");
  if (!doubted) return { doubted, settledBy: null };
  return { doubted, settledBy: end === undefined ? null : (end.by ?? "its probe") };
}

const RULE = "-".repeat(79);

export function printTable(without, withIt) {
  print(`${" ".repeat(26)}without nevertwice   with nevertwice`);
  print(cells("cause", "lead", ["mails", "duplicates", "mails", "duplicates"], "doubt ended by"));
  print(RULE);
  let last = "";
  for (const row of withIt) {
    const before = without.find(({ lead }) => row.version === 1 && lead.to === row.lead.to);
    const counts = [before?.mails ?? "-", before?.duplicates ?? "-", row.mails, row.duplicates];
    const doubt = row.doubted ? (row.settledBy ?? "nobody yet") : "-";
    print(cells(row.cause === last ? "" : row.cause, row.lead.to.split("@")[0], counts, doubt));
    last = row.cause;
  }
  print(RULE);
  const counts = [without, withIt].flatMap((rows) => [sum(rows, "mails"), sum(rows, "duplicates")]);
  print(cells("all", "", counts, `${withIt.filter(({ doubted }) => doubted).length} doubts`));
}

export function sum(rows, field) {
  return rows.reduce((total, row) => total + row[field], 0);
}

function cells(cause, lead, [mails, duplicates, mailsWith, duplicatesWith], doubt) {
  const text = (value, width) => String(value).padStart(width);
  const before = `${text(mails, 5)} ${colour(duplicates, text(duplicates, 12))}`;
  const after = `${text(mailsWith, 5)} ${colour(duplicatesWith, text(duplicatesWith, 10))}`;
  return `${cause.padEnd(18)}${lead.padEnd(8)}${before}   ${after}  ${doubt}`;
}

function colour(count, text) {
  return typeof count === "number" ? paint(count > 0 ? "red" : "green", text) : text;
}
