/**
 * Which answers have arrived. An identical call is a repeat only while the first one's answer may not have arrived at everybody
 * who asked for it: at the caller that ran it, at callers that joined it, and at those that were put off while it was under way.
 * A transport says of each answer that it has arrived or was lost; this adds it up.
 */
import type { Receipt } from "../tool/answer.ts";

/** One answer on its way to one client. */
export interface Delivery {
  arrived(): void;
  /** The client may not have it. May come after `arrived`: a cancellation that crossed the answer. */
  lost(): void;
}

export const NO_DELIVERY: Delivery = { arrived: () => {}, lost: () => {} };

interface Owed {
  /** Whose answer it is; null: not known yet. */
  fence: number | null;
  /** Answers that are on their way. */
  under: number;
  /** Clients that asked, and may not have an answer. */
  readonly lost: Set<string>;
}

// Beyond this the oldest are forgotten: their first repeat that arrives then counts for all.
const MOST_OWED = 10_000;

export class Deliveries {
  readonly #owed = new Map<string, Owed>();

  /** `client`: a connection or a session. Repeats of one client are one client's. */
  expect(receipt: Receipt, client: string): Delivery {
    const owed = this.#of(receipt);
    if (receipt.fence === null) {
      owed.lost.add(client);
      return NO_DELIVERY;
    }
    // A repeat stands for a call that had no answer: this client's own, or that of one that has come back as another.
    if (receipt.isRepeat && !owed.lost.delete(client)) owed.lost.delete(first(owed.lost));
    owed.under += 1;
    return this.#delivery(receipt, client, owed);
  }

  #of({ key, fence }: Receipt): Owed {
    const known = this.#owed.get(key);
    // Another attempt's answer: what was owed of the one before is past its time.
    const isOther = known !== undefined && fence !== null && known.fence !== null && known.fence !== fence;
    const owed = known === undefined || isOther ? { fence, under: 0, lost: new Set<string>() } : known;
    owed.fence ??= fence;
    this.#owed.delete(key);
    this.#owed.set(key, owed);
    if (this.#owed.size > MOST_OWED) this.#owed.delete(first(this.#owed.keys()));
    return owed;
  }

  #delivery(receipt: Receipt, client: string, owed: Owed): Delivery {
    let state: "under" | "arrived" | "lost" = "under";
    const arrived = () => {
      if (state === "arrived") return;
      if (state === "under") owed.under -= 1;
      else owed.lost.delete(client);
      state = "arrived";
      if (owed.under > 0 || owed.lost.size > 0) return;
      if (this.#owed.get(receipt.key) === owed) this.#owed.delete(receipt.key);
      receipt.arrived();
    };
    const lost = () => {
      if (state === "lost") return;
      if (state === "under") owed.under -= 1;
      // The ledger may know already; then the next call is a new one.
      else if (owed.under === 0 && owed.lost.size === 0 && !receipt.takeBack()) return;
      state = "lost";
      owed.lost.add(client);
      if (!this.#owed.has(receipt.key)) this.#owed.set(receipt.key, owed);
    };
    return { arrived, lost };
  }
}

function first<T>(all: Iterable<T>): T {
  const [one] = all;
  return one as T;
}
