/** What changes a record: the inputs of the state machine, and what it answers. */
import type { Intent } from "./begun-record.ts";
import type { LedgerRecord, Payload, StoredError, WorkTerms } from "./record.ts";
import type { Refusal } from "./refusal.ts";

/** Who holds an attempt: the fence it was claimed with and the random id of the claimer. */
export interface Hold {
  readonly fence: number;
  readonly holder: string;
}

export type Change =
  | { readonly ok: true; readonly record: LedgerRecord }
  | { readonly ok: false; readonly refusal: Refusal };

/** Why an attempt in doubt may be run again. */
export type ResendPermit =
  | { readonly because: "asked-for" }
  /** The action holds its doubts for this long. */
  | { readonly because: "held"; readonly forMs: number }
  | { readonly because: "provider-key"; readonly windowMs: number };

export type LedgerEvent =
  | {
      readonly type: "enqueue";
      readonly intent: Intent;
      readonly dueAt: number;
      readonly terms?: WorkTerms | null;
      /** Guarded fields of the intent's input differ from those of the record. */
      readonly otherInput?: boolean;
      /** Tells the enqueuer its own write when the reply was lost, and two enqueuers of one moment apart. */
      readonly holder?: string;
      readonly by?: string;
      readonly reason?: string;
    }
  | {
      readonly type: "claim";
      /** Absent when a worker takes what the ledger already holds. */
      readonly intent?: Intent;
      readonly to: "claimed" | "sent";
      readonly holder: string;
      readonly leaseMs: number;
      /** The first claim of a call begins a new round of tries. */
      readonly newRound: boolean;
      /** Guarded fields of the intent's input differ from those of the record. */
      readonly otherInput?: boolean;
      /** A call that claims a record of an order: the place at which the caller saw that its turn had come. */
      readonly place?: number;
      readonly by?: string;
      readonly reason?: string;
    }
  | {
      readonly type: "resend";
      readonly permit: ResendPermit;
      readonly holder: string;
      readonly leaseMs: number;
      readonly newRound: boolean;
      /** Who sends it again; null: somebody without a name. Not given: whoever did before. */
      readonly agent?: string | null;
    }
  | {
      readonly type: "mark";
      readonly hold: Hold;
      readonly leaseMs: number;
      /** How much of the lease the effect needs when it begins: its timeout, or less where heartbeats keep the lease. */
      readonly timeoutMs: number;
      readonly draft: Payload | null;
    }
  | { readonly type: "heartbeat"; readonly hold: Hold; readonly leaseMs: number }
  | {
      readonly type: "confirm";
      readonly hold: Hold;
      /** What the attempt ran with, where its holder still knows it; the record has the digests alone. */
      readonly of?: Pick<LedgerRecord, "fingerprint" | "input">;
      readonly result: Payload | null;
      /** The provider's own id of the effect. */
      readonly providerId?: string | null;
      /** Who did it, where that need not be the record's agent: a task is done by whoever took it. */
      readonly agent?: string | null;
    }
  | {
      readonly type: "not-sent";
      readonly hold: Hold;
      readonly error: StoredError;
      /** When to try next; null: no tries left, or refused. */
      readonly retryAt: number | null;
      /** Refused for good. */
      readonly final: boolean;
      /** Queued work: when its tries end. */
      readonly givesUpAt?: number;
      readonly agent?: string | null;
    }
  /** Handed back without having been begun: the attempt does not count. `yieldsPlace`: it goes to the end of its order. */
  | { readonly type: "give-back"; readonly hold: Hold; readonly dueAt: number; readonly yieldsPlace?: boolean }
  /** What it was put off for is over: it is due now. */
  | { readonly type: "bring-forward" }
  | { readonly type: "doubt"; readonly hold: Hold; readonly why: string; readonly error: StoredError | null }
  /** `gone`: the holder's process is known to have ended, so its lease need not run out. Before the send mark it is given back. */
  | { readonly type: "lapse"; readonly gone?: true }
  | {
      readonly type: "probed";
      readonly fence: number;
      readonly quietForMs: number;
      readonly answer:
        | { readonly as: "done"; readonly result: Payload | null; readonly providerId?: string | null }
        /** `noneLeft`: all tries are used up, so it is a dead letter. `error`: how it ended. */
        | { readonly as: "not-done"; readonly noneLeft?: boolean; readonly error?: StoredError }
        /** How the attempt ended is known now, and a person has to decide all the same. */
        | { readonly as: "unknown"; readonly why: string; readonly error: StoredError };
    }
  | {
      readonly type: "resolve";
      readonly as: "done" | "not-done" | "failed";
      readonly result: Payload | null;
      readonly providerId?: string | null;
      readonly by: string;
      readonly reason: string;
    }
  | { readonly type: "retry"; readonly by: string; readonly reason: string }
  /** The answer of this attempt has arrived at whoever called. */
  | { readonly type: "delivered"; readonly fence: number }
  /** From now on it is kept for this long; null: forever. */
  | { readonly type: "retain"; readonly keepMs: number | null }
  /** Emptied, and free: by a person's or a program's decision. `evenInDoubt`: it may have happened, and may then happen twice. */
  | { readonly type: "forget"; readonly evenInDoubt: boolean }
  /** It was run while the store was down. `holder`: of the claim that got no answer then. */
  | {
      readonly type: "ran-unguarded";
      readonly intent: Intent;
      readonly holder: string;
      readonly end:
        | { readonly as: "done"; readonly result: Payload | null; readonly providerId?: string | null }
        | { readonly as: "unknown"; readonly why: string; readonly error: StoredError | null }
        | { readonly as: "failed"; readonly error: StoredError; readonly final: boolean };
    };
