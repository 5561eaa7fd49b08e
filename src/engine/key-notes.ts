/**
 * Notices a changed key definition (K10). The ledger has a note for each action with what its key is made of. The first call of
 * an action in a process reads it, beside its own claim; what is new is written by the background sweep, or when the program
 * closes, so that no call pays for it. A change is warned about and not refused: what a key function is made of can only be
 * guessed at, and an old process that is started again during a deploy, or a rollback, must not be stopped by it.
 */

import {
  changedKeyWarning,
  judgeKey,
  type KeyNote,
  keyShape,
  nextKeyNote,
  readKeyNote,
} from "../core/key/definition.ts";
import { deriveKey } from "../core/key/key.ts";
import { keyParts } from "../core/key/parts.ts";
import { readNote, writeNote } from "../core/note.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Call, CallDefaults } from "./call.ts";
import type { Definition } from "./definition.ts";
import type { Warnings } from "./events.ts";
import type { Ledger } from "./ledger.ts";

export const KEY_NOTE_ACTION = "nevertwice.key";
const DAY_MS = 86_400_000;
/** When the last record of an action is gone, a change of its key harms nothing: the note may go some time after. */
const LEAST_KEEP_MS = 90 * DAY_MS;
const MOST_SWAPS = 8;

export class KeyNotes {
  readonly #ledger: Ledger;
  readonly #warnings: Warnings;
  readonly #defaults: CallDefaults;
  readonly #checked = new WeakSet<Definition>();
  /** What is to be written; by name, since an action is defined once. */
  readonly #pending = new Map<string, { readonly definition: Definition; readonly now: KeyNote }>();

  constructor(ledger: Ledger, warnings: Warnings, defaults: CallDefaults) {
    this.#ledger = ledger;
    this.#warnings = warnings;
    this.#defaults = defaults;
  }

  isChecked(definition: Definition): boolean {
    return this.#checked.has(definition);
  }

  /** Never rejects: whether the store answers is for the call itself to say. */
  async check({ definition, input }: Call): Promise<void> {
    this.#checked.add(definition);
    try {
      const now = noteOf(definition, input);
      const stored = await this.#ledger.read(this.#nameOf(definition).key);
      if (this.#next(definition, now, stored) !== null) this.#pending.set(definition.name, { definition, now });
    } catch {
      // Nothing was compared: the next call does.
      this.#checked.delete(definition);
    }
  }

  /** Inside of a caller's transaction nothing is read beside it: the note is looked at when it is written. */
  later({ definition, input }: Call): void {
    this.#checked.add(definition);
    this.#pending.set(definition.name, { definition, now: noteOf(definition, input) });
  }

  /** Writes what is new. What cannot be written now is tried again with the next sweep. */
  async flush(): Promise<void> {
    for (const [name, { definition, now }] of [...this.#pending]) {
      try {
        await this.#write(definition, now);
        this.#pending.delete(name);
      } catch {
        return;
      }
    }
  }

  async #write(definition: Definition, now: KeyNote): Promise<void> {
    let stored = await this.#ledger.read(this.#nameOf(definition).key);
    for (let swap = 0; swap < MOST_SWAPS; swap += 1) {
      const record = this.#next(definition, now, stored);
      if (record === null) return;
      const result = await this.#ledger.put({ record, expected: stored?.version ?? null });
      if (result.ok) return;
      stored = result.current;
    }
  }

  /** The note to write; null: what is there may stay. Warns of a change on the way, once. */
  #next(definition: Definition, now: KeyNote, stored: Stored | null): LedgerRecord | null {
    const at = this.#ledger.instant();
    const known = readKeyNote(readNote(stored?.record ?? null, at));
    const verdict = judgeKey(known, now);
    if (verdict === "changed" && known !== null)
      this.#warnings.warn("KEY_CHANGED", definition.name, changedKeyWarning(definition.name, known, now));
    // A process with the former definition leaves the note to those with the present one.
    if (verdict === "former") return null;
    const next = nextKeyNote(known, now);
    const name = this.#nameOf(definition);
    const leftMs = (stored?.record.expiresAt ?? Number.POSITIVE_INFINITY) - at.now;
    if (next === null && leftMs > (name.keepMs ?? 0) / 2) return null;
    return writeNote(stored?.record ?? null, name, JSON.stringify(next ?? known), at);
  }

  /** Of the instance, not of the call: a program has one definition for all its tenants. */
  #nameOf({ name, policy }: Definition) {
    const { tenant, secret } = this.#defaults;
    const key = deriveKey({ tenant, action: KEY_NOTE_ACTION, version: 1, scope: null, parts: [name], secret });
    const keepMs = policy.keepMs === null ? null : Math.max(2 * policy.keepMs, LEAST_KEEP_MS);
    return { key, tenant, action: KEY_NOTE_ACTION, keepMs };
  }
}

function noteOf({ key, free, name, formerly, writtenAs }: Definition, input: unknown): KeyNote {
  const shapeOf = (option: Definition["key"]) =>
    keyShape({
      key: option as never,
      free,
      input,
      parts: typeof option === "function" ? keyParts(option, input, free, name) : [],
    });
  return {
    key: shapeOf(key),
    // Under another name there is a note of its own.
    formerly: formerly.filter((one) => one.name === name).flatMap((one) => unlessThrown(() => shapeOf(one.key))),
    ...(writtenAs === "tool" && { tool: name }),
  };
}

/** A former key function may have nothing to say about this input. */
function unlessThrown<T>(derive: () => T): readonly T[] {
  try {
    return [derive()];
  } catch {
    return [];
  }
}
