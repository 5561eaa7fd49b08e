/** What a row says about one intent. */
import type { End } from "./status.ts";

export interface Reading {
  readonly action: string;
  readonly parts: readonly unknown[];
  readonly as: End;
  /** The word that said so; "": none did. */
  readonly word: string;
  readonly at: number | null;
  readonly why?: string;
  readonly result?: unknown;
  /** What was done returns nothing. */
  readonly isVoid?: boolean;
  readonly error?: string;
  /** What a worker is given, where the row is of an outbox. */
  readonly input?: Readonly<Record<string, unknown>>;
  readonly dueAt?: number | null;
  /** Who did it. */
  readonly agent?: string;
  /** How long its record is kept; undefined: as --keep says. */
  readonly keepMs?: number | null;
  /** What the report has to say about such rows, once for all of them; "{count}" is how many they are. */
  readonly note?: string;
}
