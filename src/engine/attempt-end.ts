/** An attempt that begins, and how it may end. */
import type { Outcome } from "../core/outcome.ts";
import type { Stored } from "../core/store.ts";
import type { Call } from "./call.ts";

export type End =
  | { readonly kind: "done"; readonly outcome: Outcome<unknown>; readonly stored: Stored | null }
  | {
      readonly kind: "failed";
      readonly stored: Stored;
      readonly error: unknown;
      readonly final: boolean;
      readonly retryAt: number | null;
    }
  | { readonly kind: "unknown"; readonly stored: Stored; readonly error: unknown }
  /** The lease was lost before anything was sent: look at the record again. */
  | { readonly kind: "moved"; readonly stored: Stored | null };

/** Whoever waits for an attempt's end. One of these is called, once. */
export interface Ending {
  ended(end: End): void;
  crashed(error: unknown): void;
}

export interface Claimed {
  readonly call: Call;
  readonly stored: Stored;
  readonly input: unknown;
}
