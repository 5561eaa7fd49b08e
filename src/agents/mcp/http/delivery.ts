/**
 * Whether answers have arrived at a client over HTTP. A response that was handed to the network in full, on a connection that did
 * not break, counts as arrived. What lies in buffers between here and the client cannot be seen.
 *
 * | the answer | it |
 * |---|---|
 * | its response was finished | has arrived |
 * | its connection was closed, by either side, before that | was lost |
 * | its connection broke after that (reset), before another request came by it | was lost |
 * | its call was cancelled, before or after | was lost |
 * | it was written to a stream that the client has resumed | has arrived |
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Delivery } from "../delivery.ts";

/** A call that has no answer yet. */
interface Asked {
  readonly tool: string;
  cancelled: boolean;
  /** The server is told: it is not to be begun. */
  stopped: boolean;
}

const MOST_RECENT = 1_000;

export class HttpDeliveries {
  /** By caller, session and request id. */
  readonly #asked = new Map<string, Asked>();
  readonly #recent = new Map<string, Delivery>();
  /** Sent on a connection that may still break. */
  readonly #sent = new WeakMap<Socket, Set<Delivery>>();

  /** Null: the call cannot be told from another, so that no cancellation can be about it. */
  asks(key: string | null, tool: string): void {
    if (key !== null) this.#asked.set(key, { tool, cancelled: false, stopped: false });
  }

  /** The client waits for no answer any more. The tool of a call that has none yet. */
  cancelled(key: string): string | undefined {
    const asked = this.#asked.get(key);
    if (asked === undefined) this.#recent.get(key)?.lost();
    else asked.cancelled = true;
    return asked?.tool;
  }

  isCancelled(key: string | null): boolean {
    return key !== null && this.#asked.get(key)?.cancelled === true;
  }

  stopped(key: string): void {
    const asked = this.#asked.get(key);
    if (asked !== undefined) asked.stopped = true;
  }

  isStopped(key: string | null): boolean {
    return key !== null && this.#asked.get(key)?.stopped === true;
  }

  /** No answer, or one that is not waited for here. */
  left(key: string | null): void {
    if (key !== null) this.#asked.delete(key);
  }

  /** Right before the response that carries the answer is ended. */
  answers(key: string | null, response: ServerResponse, delivery: Delivery): void {
    this.#remember(key, delivery);
    const { socket } = response;
    if (this.isCancelled(key) || socket === null || isOver(response)) return void delivery.lost();
    response.once("finish", () => this.#arrived(socket, delivery));
    response.once("close", () => {
      if (!response.writableFinished) delivery.lost();
    });
  }

  /** An answer that comes once more, on a stream that the client has resumed. */
  again(key: string): Delivery | undefined {
    return this.#recent.get(key);
  }

  /** The answer was written to a stream that goes on. */
  streamed(key: string, response: ServerResponse, delivery: Delivery): void {
    this.#remember(key, delivery);
    const { socket } = response;
    if (this.isCancelled(key) || socket === null || isOver(response)) delivery.lost();
    else this.#arrived(socket, delivery);
  }

  /** Another request by the same connection: what was sent on it before is there. */
  came(socket: Socket): void {
    this.#sent.get(socket)?.clear();
  }

  #remember(key: string | null, delivery: Delivery): void {
    if (key === null) return;
    this.#recent.delete(key);
    this.#recent.set(key, delivery);
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MOST_RECENT && oldest !== undefined) this.#recent.delete(oldest);
  }

  #arrived(socket: Socket, delivery: Delivery): void {
    delivery.arrived();
    const known = this.#sent.get(socket);
    if (known !== undefined) return void known.add(delivery);
    const sent = new Set([delivery]);
    this.#sent.set(socket, sent);
    socket.once("close", (broke: boolean) => {
      if (broke) for (const one of sent) one.lost();
      sent.clear();
    });
  }
}

/** A client that has closed its side waits for nothing. */
export function isOver({ destroyed, socket }: ServerResponse): boolean {
  return destroyed || socket === null || socket.destroyed || socket.readableEnded;
}
