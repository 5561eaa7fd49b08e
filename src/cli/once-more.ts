/** `nevertwice resend` of a tool's record: the tool lives in its agent, so that its next identical call is granted one more run. */

import { readKeyNote } from "../core/key/definition.ts";
import { readNote } from "../core/note.ts";
import { onceMoreKey } from "../core/once-more.ts";
import type { LedgerRecord } from "../core/record.ts";
import { instantOf, type Page } from "../core/store.ts";
import { KEY_NOTE_ACTION } from "../engine/key-notes.ts";
import type { Signature } from "../engine/operate.ts";
import { nevertwice } from "../nevertwice.ts";
import type { Context } from "./command.ts";
import { ledgerJson, requireStore } from "./ledger/open.ts";
import { EXIT } from "./term/exit.ts";
import { shortKey } from "./term/format.ts";
import { oneLine } from "./term/text.ts";

const PAGE = 200;

/** Whether the ledger knows that the record is of a guarded tool: by a request for it, or by the note of its key. */
export async function isOfTool(context: Context, { key, action }: LedgerRecord): Promise<boolean> {
  const store = requireStore(context);
  const [asked] = await store.read([onceMoreKey(key)]);
  if (asked !== null) return true;
  let cursor: string | null = null;
  do {
    const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
    const page: Page = await store.list({ action: KEY_NOTE_ACTION, limit: PAGE, ...from });
    const notes = page.items.map(({ record }) => readKeyNote(readNote(record, instantOf(store))));
    if (notes.some((note) => note?.tool === action)) return true;
    cursor = page.cursor;
  } while (cursor !== null);
  return false;
}

export async function decide(
  context: Context,
  { key, action, terms }: LedgerRecord,
  signature: Signature,
  state: "granted" | "denied",
): Promise<number> {
  const nt = nevertwice({ store: requireStore(context), sweep: false });
  const decided = await (state === "granted" ? nt.grantOnceMore : nt.denyOnceMore).call(nt, { key }, signature);
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(context.ledger()), ...decided });
    return EXIT.ok;
  }
  const name = oneLine(action);
  const before = decided.unchanged ? ", as before" : "";
  if (state === "denied") {
    context.line(`${name}: denied${before}. Identical calls get the first result.`);
    return EXIT.ok;
  }
  // A call that is guarded until its answer has arrived has one record at a time.
  const as = terms?.untilDelivered ? "" : `, as version ${decided.version + 1}`;
  context.line(`${name}: granted${before}. The next identical call of the tool runs${as}.`);
  context.line(`key     ${decided.key}`);
  context.line(`undo    ${context.suggest(`resend ${shortKey(decided.key)} --deny --reason "…"`)} (until that call)`);
  return EXIT.ok;
}
