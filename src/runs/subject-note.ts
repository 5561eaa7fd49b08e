/**
 * What the ledger keeps of a subject beside the records of its steps: which steps were queued for it, and whether it was
 * stopped. It has no end while a step of the subject waits, and outlives the records of those that do not: a step that it
 * names and that has no record was settled and is past its keep.
 */
import { configError } from "../core/errors.ts";
import { deriveKey } from "../core/key/key.ts";
import { type NoteName, readNote, writeNote } from "../core/note.ts";
import type { Signature } from "../engine/operate.ts";
import type { Swaps } from "../engine/order-place.ts";

const ACTION = "nevertwice.sequence";
const MAX_SWAPS = 64;

export interface SubjectNote {
  /** Null: none was written, or an earlier release wrote it. */
  readonly enrolled: readonly string[] | null;
  readonly stopped: Signature | null;
  /** It has no end. */
  readonly lasts: boolean;
}

export interface NoteOf {
  readonly sequence: string;
  readonly subject: string;
  readonly tenant: string;
  readonly secret: string | Uint8Array | undefined;
}

const NO_NOTE: SubjectNote = { enrolled: null, stopped: null, lasts: false };

export function noteKey({ sequence, subject, tenant, secret }: NoteOf): string {
  return deriveKey({ tenant, action: ACTION, version: 1, scope: null, parts: [sequence, subject], secret });
}

interface Written {
  readonly by?: string;
  readonly reason?: string;
  readonly stopped?: boolean;
  readonly steps?: readonly string[];
}

type Found = Awaited<ReturnType<Swaps["read"]>>[number];

export function subjectNote(stored: Found, at: ReturnType<Swaps["now"]>): SubjectNote {
  const text = readNote(stored?.record ?? null, at);
  if (text === null) return NO_NOTE;
  const { by = "", reason = "", stopped = false, steps } = JSON.parse(text) as Written;
  return {
    enrolled: steps ?? null,
    stopped: stopped ? { by, reason } : null,
    lasts: stored?.record.expiresAt === null,
  };
}

export interface NoteChange {
  readonly enrolled: readonly string[] | null;
  /** Who stopped or restarted it. */
  readonly signature: Signature | null;
  readonly stopped: boolean;
  /** Null: no end. */
  readonly keepMs: number | null;
}

/** `change` is asked again where somebody else has written the note meanwhile; null: it is right as it is. */
export async function writeSubjectNote(
  swaps: Swaps,
  of: NoteOf,
  change: (note: SubjectNote) => NoteChange | null,
): Promise<void> {
  const name = { key: noteKey(of), tenant: of.tenant, action: ACTION };
  let [stored = null] = await swaps.read([name.key]);
  for (let swap = 0; swap < MAX_SWAPS; swap += 1) {
    const next = change(subjectNote(stored, swaps.now()));
    if (next === null) return;
    const { enrolled, signature, stopped, keepMs } = next;
    const written: Written = { ...signature, stopped, ...(enrolled !== null && { steps: enrolled }) };
    const full: NoteName = { ...name, keepMs };
    const record = writeNote(stored?.record ?? null, full, JSON.stringify(written), swaps.now());
    const [result] = await swaps.write([{ record, expected: stored?.version ?? null }]);
    if (result?.ok) return;
    stored = result?.current ?? null;
  }
  throw configError(
    `sequence ${JSON.stringify(of.sequence)}: the subject's record changed ${MAX_SWAPS} times under this call. Call again.`,
  );
}
