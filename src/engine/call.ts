import type { Duration } from "../core/duration.ts";
import type { Keep } from "../core/keep.ts";
import type { DigestKey, InputPrint } from "../core/key/fingerprint.ts";
import type { NamedKey } from "../core/key/formerly.ts";
import type { NormalField } from "../core/key/normal.ts";
import type { PreventedCause } from "../core/prevented.ts";
import type { Stored } from "../core/store.ts";

import type { Definition } from "./definition.ts";
import type { Payloads } from "./payloads.ts";

export interface CallOptions<Tx = unknown> {
  /** A run, session or thread id: the same intent in another scope is another intent. */
  readonly scope?: string;
  /** 1 unless a deliberate resend raised it. */
  readonly version?: number;
  readonly tenant?: string;
  /** Who acts: kept on the record and told with events. Not part of the key. nevertwice({ agent }) unless given. */
  readonly agent?: string;
  readonly wait?: Duration;
  /** The caller's own open transaction: claim, effect and confirm commit with it. `run` has it as ctx.tx. */
  readonly tx?: Tx;
}

/**
 * A call that goes on with the round of tries that earlier calls, of any process, began: it counts as one more try, and
 * keeps to the pause after the last one. Without it every call begins a new round.
 */
export const PACED = Symbol("paced");

export interface PacedOptions extends CallOptions {
  readonly [PACED]?: true;
}

/** A call whose caller decides about the next try: after one that surely sent nothing it answers, and does not pause and try again. */
export const AT_ONCE = Symbol("at once");

export interface AtOnceOptions extends CallOptions {
  readonly [AT_ONCE]?: true;
}

/** What a call of a guarded tool has beside the options of any other. By registered symbol: the guard may be of another copy. */
export const OF_TOOL = Symbol.for("nevertwice.of-tool");

export interface OfTool {
  /** It runs whatever it is answered: counted as observed, and not as prevented. */
  readonly observed?: boolean;
  /** Its place under the tool's limit: given back by whoever made the call. */
  readonly slot?: Slot;
  /** What it was answered is counted by whoever made the attempt, who may make another. */
  readonly tally?: Tally;
  /** Which of the identical calls of one turn it is; 1 unless given. In the key from 2 on. */
  readonly ordinal?: number;
  /** Who granted this version. */
  readonly resend?: { readonly by: string; readonly reason: string } | undefined;
}

export interface ToolCallOptions extends CallOptions {
  readonly [OF_TOOL]?: OfTool;
}

export interface Call {
  readonly definition: Definition;
  readonly key: string;
  readonly tenant: string;
  readonly version: number;
  readonly scope: string | null;
  /** Who acts; null: nobody was named. */
  readonly agent: string | null;
  /** Parsed. */
  readonly input: unknown;
  /** As given, before parsing: what the ledger keeps. */
  readonly given: unknown;
  readonly print: InputPrint;
  /** How long its record is kept, with what the windows in its key need. */
  readonly keep: Keep;
  readonly waitMs: number;
  /** The text that the key is a digest of. */
  readonly keyed?: string;
  /** What the key takes in another form than the input has it. */
  readonly normal?: readonly NormalField[] | null;
  /** The keys that the intent had under earlier definitions, the latest first. */
  readonly former?: readonly FormerKey[] | undefined;
  /** The key that the input has, where the record is under a former one, and the action's name that the record has. */
  readonly calledAs?: string;
  readonly recordedFor?: string;
  readonly defaults?: CallDefaults;
  readonly paced?: boolean;
  readonly atOnce?: boolean;
  readonly ofTool?: OfTool;
  /** Absent: the action has no check. */
  readonly checking?: Checking;
  /** A deliberate resend says who and why. */
  readonly resend?: { readonly by: string; readonly reason: string };
  /** The attempt is made outside of this process. */
  readonly outside?: Outside;
}

/** Who makes an attempt outside of this process, and gets the claim instead of its being run here. */
export interface Outside {
  readonly holder: string;
  /** The same holder may have asked before without hearing the answer: its own claim is handed to it again. */
  readonly mayAskAgain: boolean;
  /** Nobody waits for the answer any more: nothing is claimed from then on. */
  gone(): boolean;
  claimed(attempt: { readonly stored: Stored; readonly input: unknown; readonly again: boolean }): void;
}

export interface FormerKey extends NamedKey {
  readonly normal: readonly NormalField[] | null;
}

export interface CallDefaults {
  /** Of calls that name none. */
  readonly tenant: string;
  /** The tenant whose records alone may be touched; undefined: everybody's. */
  readonly confinedTo: string | undefined;
  readonly secret: string | Uint8Array | undefined;
  /** Of calls that name none. */
  readonly agent?: string | null;
  /** With `encrypt`: what the digests of inputs are made with. */
  readonly digestKeys?: readonly DigestKey[];
  /** What reads the input that a record was made with. */
  readonly payloads?: Pick<Payloads, "load">;
}

/** The first claim of a call is checked, by the action's check and by the limit of a tool, and no other. Shared by the copies of a call. */
export interface Checking {
  passed: boolean;
}

/** A call's place under its limit: whoever made the call gives it back. */
export interface Slot {
  leave?: () => void;
}

/** Why the last attempt was not run. */
export interface Tally {
  cause: PreventedCause | null;
}

/** Whether the intent may have a record under an earlier key. */
export function hasFormer({ former }: Call): boolean {
  return former !== undefined && former.length > 0;
}
