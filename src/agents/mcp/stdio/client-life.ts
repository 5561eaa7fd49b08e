/**
 * Whether answers have arrived at a client on stdio. That a line was written says little: it may lie in a pipe that nobody reads
 * any more. The client's next message shows that it lives on, unless it cancels that very call: then it had given up before.
 *
 * | after the answer was written | it |
 * |---|---|
 * | any message that is no cancellation of that call | has arrived |
 * | a cancellation of that call | was lost |
 * | the client ends its input, and still reads its output | has arrived |
 * | the client ends its input, and its output is closed; a write fails | was lost |
 * | nothing, and the proxy is killed | was lost: nobody told the ledger |
 */
import type { Delivery } from "../delivery.ts";
import { cancelledId, idText, isRequest, type RpcMessage } from "../rpc.ts";

interface Writing {
  readonly delivery: Delivery;
  /** Handed to the client's end of the pipe, not only to ours. */
  written: boolean;
}

/** To be called when a line has left, or could not. */
export type Written = (error?: Error | null) => void;

// Cancellations that cross an answer come soon after it.
const MOST_RECENT = 100;

export class ClientLife {
  /** By the id of the call. */
  readonly #writing = new Map<string, Writing>();
  readonly #recent = new Map<string, Delivery>();
  #ended = false;

  /** An answer is written. What is written after the client's last message is waited for by nobody. */
  writing(id: string, delivery: Delivery): Written {
    if (this.#ended) delivery.lost();
    const writing: Writing = { delivery, written: false };
    if (!this.#ended) this.#writing.set(id, writing);
    return (error) => {
      writing.written = true;
      if (!error) return;
      delivery.lost();
      if (this.#writing.get(id) === writing) this.#writing.delete(id);
    };
  }

  /** Before the message is looked at otherwise: it may be the same call again. Null: it could not be read. */
  heard(message: RpcMessage | null): void {
    const cancelled = cancelledId(message);
    if (cancelled !== undefined) this.#recent.get(cancelled)?.lost();
    for (const [id, { delivery, written }] of this.#writing) {
      if (id === cancelled) delivery.lost();
      else if (written) this.#arrived(id, delivery);
      else continue;
      this.#writing.delete(id);
    }
    // Another request with that id: its cancellation is none of the answered one.
    if (message !== null && isRequest(message)) this.#recent.delete(idText(message.id));
  }

  /** The client sends nothing more. `reads` finds out whether what is written still arrives. */
  async ends(reads: () => Promise<boolean>): Promise<void> {
    this.#ended = true;
    if (this.#writing.size === 0) return;
    const lives = await reads();
    for (const { delivery, written } of this.#writing.values()) {
      if (lives && written) delivery.arrived();
      else delivery.lost();
    }
    this.#writing.clear();
  }

  #arrived(id: string, delivery: Delivery): void {
    delivery.arrived();
    this.#recent.delete(id);
    this.#recent.set(id, delivery);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MOST_RECENT && oldest !== undefined) this.#recent.delete(oldest);
  }
}
