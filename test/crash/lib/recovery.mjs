/** What a program does after a crash: open the ledger, wait until dead holders' leases are over, sweep, call again. */
import { nevertwice } from "nevertwice";
import { kindOf, makeActions } from "./actions.mjs";
import { storeAt } from "./store-at.mjs";
import { storeOf } from "./stores.mjs";

const POLL_MS = 20;
const MAX_POLLS = 1_000;

/** Opens, sweeps and calls every id again, until each is settled as far as its policy allows. */
export async function recover(spec, pause) {
  const nt = nevertwice({ store: storeOf(spec), sweep: false });
  try {
    const actions = makeActions(nt, spec, pause);
    const outcomes = {};
    await silentHoldersGone(nt);
    for (const id of spec.ids) outcomes[id] = await settle(nt, actions[kindOf(id)], id);
    return { outcomes, records: await recordsOf(nt) };
  } finally {
    await nt.close();
  }
}

async function silentHoldersGone(nt) {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    await nt.sweep();
    const { items } = await nt.store.list({ limit: 1, states: ["sent"] });
    if (items.length === 0) return;
    await pauseFor(POLL_MS);
  }
  throw new Error("a record stayed sent: its lease never lapsed");
}

async function settle(nt, action, id) {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    const outcome = await action.attempt({ id });
    if (outcome.status === "done") return outcome;
    if (outcome.status === "unknown" && kindOf(id) === "C") return outcome;
    await pauseFor(POLL_MS);
    await nt.sweep();
  }
  throw new Error(`${id} was never settled`);
}

/**
 * Every intent of a ledger, in the words of the tests. What the ledger notes for itself is left out.
 *
 * @typedef {{ id: string, state: string, attempt: number, fence: number, why: string | null,
 *   result: { id: string } | null, history: string[] }} Brief
 * @returns {Promise<Brief[]>}
 */
export async function recordsOf(nt) {
  const records = [];
  let cursor;
  do {
    const page = await nt.store.list({ limit: 500, order: "oldest", ...(cursor !== undefined && { cursor }) });
    for (const { record } of page.items) if (!record.action.startsWith("nevertwice.")) records.push(brief(record));
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return records;
}

function brief(record) {
  const { state, attempt, fence, history, why } = record;
  return {
    id: JSON.parse(record.input.json).id,
    state,
    attempt,
    fence,
    why,
    result: record.result === null ? null : JSON.parse(record.result.json),
    history: history.map((entry) => entry.event),
  };
}

/**
 * Opens a ledger (which checks every page and every row of a small file), reads all of it, closes it.
 *
 * @param {string} ledger
 * @returns {Promise<{ bad: string[], records: Brief[] }>}
 */
export async function viewLedger(ledger) {
  const nt = nevertwice({ store: storeAt(ledger), sweep: false });
  try {
    const findings = await nt.store.inspect();
    const bad = findings.filter((finding) => !finding.ok).map((finding) => `${finding.name}: ${finding.value}`);
    return { bad, records: await recordsOf(nt) };
  } finally {
    await nt.close();
  }
}

function pauseFor(ms) {
  return new Promise((done) => setTimeout(done, ms));
}
