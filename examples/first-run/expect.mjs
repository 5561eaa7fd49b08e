/** The story checks itself: what it tells must be what the mailbox and the ledger say. */
import { causes } from "./causes.mjs";
import { ada, grace, mary } from "./leads.mjs";

export function unmet(without, { rows, held, mails }) {
  return [...unmetWithout(without), ...unmetWith(rows, mails), ...unmetDoubts(rows, held)]
    .filter(([met]) => !met)
    .map(([, expectation]) => expectation);
}

function unmetWithout(rows) {
  return rows.map(({ cause, lead, duplicates }) => [duplicates > 0, `without: ${cause} sends ${lead.to} a duplicate`]);
}

function unmetWith(rows, mails) {
  const intents = causes.flatMap(({ leads }) => leads).length;
  const resent = rows.filter(({ version }) => version === 2);
  return [
    ...rows.map(({ cause, lead, mails: count }) => [count === 1, `with: ${cause} sends ${lead.to} exactly one mail`]),
    ...rows.map(({ lead, state }) => [state === "confirmed", `with: the record of ${lead.to} ends as confirmed`]),
    [rows.length === intents + 1, "with: one record for each intent, and one for the resend"],
    [resent.length === 1 && resent[0].lead.to === mary.to, `with: version 2 is the resend to ${mary.to}`],
    [mails.length === rows.length, "with: every mail in the mailbox belongs to a record"],
  ];
}

function unmetDoubts(rows, held) {
  const settled = (lead) => rows.find((row) => row.lead.to === lead.to)?.settledBy;
  return [
    [held.status === "unknown", `with: ${ada.to} was held as unknown`],
    [settled(ada) === "kim", `with: the doubt about ${ada.to} was resolved by kim`],
    [settled(grace) === "its probe", `with: the doubt about ${grace.to} was settled by its probe`],
    [rows.filter(({ doubted }) => doubted).length === 2, "with: these two doubts and no other"],
  ];
}
