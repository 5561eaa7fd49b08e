/** What must be true of a ledger and its provider after any crash, once the dust has settled. */
import { kindOf } from "./actions.mjs";

/**
 * `records`: the ledger after recovery. `provider`: what really happened. `said`: what callers were told before they
 * were killed. Returns one sentence per violation.
 *
 * @param {{ ids: readonly string[], records: readonly import("./recovery.mjs").Brief[],
 *   provider: { mismatches: string[], effectsOf(id: string): number },
 *   said?: readonly { id: string, outcome: { status: string } }[] }} after
 */
export function violations({ ids, records, provider, said = [] }) {
  const byId = new Map(records.map((record) => [record.id, record]));
  const found = provider.mismatches.map((id) => `${id}: sent again with the same key and other bytes`);
  if (byId.size !== records.length) found.push("one intent has two records");
  for (const id of ids) found.push(...violationsOf(id, byId.get(id), provider.effectsOf(id)));
  for (const { id, outcome } of said) found.push(...takenBack(id, outcome, byId.get(id)));
  return found;
}

function violationsOf(id, record, effects) {
  const found = [];
  if (effects > 1) found.push(`${id}: ${effects} effects`);
  if (record === undefined) return [...found, `${id}: no record, ${effects} effects`];
  if (record.state === "confirmed" && effects !== 1) found.push(`${id}: confirmed with ${effects} effects`);
  if (record.state !== "confirmed" && (record.state !== "unknown" || kindOf(id) !== "C")) {
    found.push(`${id}: ended as ${record.state} (attempt ${record.attempt}, ${effects} effects)`);
  }
  return found;
}

/** An acknowledged result is there afterwards, and is the same. */
function takenBack(id, outcome, record) {
  if (outcome?.status !== "done") return [];
  if (record?.state === "confirmed" && record.result?.id === outcome.result?.id) return [];
  return [
    `${id}: a caller was told done (${outcome.result?.id}), the ledger says ${record?.state} (${record?.result?.id})`,
  ];
}
