/** `nevertwice resend` of a tool's record: the tool lives in its agent, so that its next identical call is granted one more run. */

import { readKeyNote } from "../core/key/definition.ts";
import { deriveKey } from "../core/key/key.ts";
import { readNote } from "../core/note.ts";
import { ONCE_MORE_ACTION, onceMoreKey, readOnceMore } from "../core/once-more.ts";
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

/** What the ledger knows of a record's action, by a request for it, or by the note of its key; null: nothing. */
export async function writtenAs(
  context: Context,
  { key, action, tenant }: LedgerRecord,
): Promise<"tool" | "action" | null> {
  const store = requireStore(context);
  const noteOf = (of: string) =>
    deriveKey({ tenant: of, action: KEY_NOTE_ACTION, version: 1, scope: null, parts: [action], secret: undefined });
  const [asked, ...notes] = await store.read([onceMoreKey(key), noteOf(""), noteOf(tenant)]);
  for (const note of notes) {
    const own = readKeyNote(readNote(note?.record ?? null, instantOf(store)));
    if (own !== null) return own.tool === undefined ? "action" : "tool";
  }
  if (asked !== null) return "tool";
  // With a secret the note's key is another; an earlier version may have been asked for.
  const at = instantOf(store);
  const isTool = (note: LedgerRecord) =>
    readKeyNote(readNote(note, at))?.tool === action || readOnceMore(note, at)?.action === action;
  for (const kind of [KEY_NOTE_ACTION, ONCE_MORE_ACTION]) {
    let cursor: string | null = null;
    do {
      const from: { readonly cursor?: string } = cursor === null ? {} : { cursor };
      const page: Page = await store.list({ action: kind, limit: PAGE, ...from });
      if (page.items.some(({ record }) => isTool(record))) return "tool";
      cursor = page.cursor;
    } while (cursor !== null);
  }
  return null;
}

export async function decide(
  context: Context,
  { key, action, terms }: LedgerRecord,
  signature: Signature,
  state: "granted" | "denied",
  known: "tool" | null,
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
  if (known === null)
    context.note(
      `the ledger does not know yet whether ${name} is a guarded tool. If it is an action, its calls look for no grant: send it again with --actions.`,
    );
  context.line(`key     ${decided.key}`);
  context.line(`undo    ${context.suggest(`resend ${shortKey(decided.key)} --deny --reason "…"`)} (until that call)`);
  return EXIT.ok;
}
