/**
 * Whose the questions are that a server asks the user while calls run (elicitation). A stream of HTTP, or the task that a question
 * names, says it. On stdio nothing does: where one call is under way it is that one's, otherwise it may be any one's.
 */
import { asksUser, type Elicitations } from "./elicitation.ts";
import { idText, isRequest, type RpcMessage } from "./rpc.ts";

// Questions that nobody answers must not fill the memory.
const MOST_ASKED = 1_000;

export class Questions {
  /** Calls under way, by connection. */
  readonly #running = new Map<string, Set<Elicitations>>();
  readonly #asked = new Map<string, readonly Elicitations[]>();

  /** A call is under way, until the function that is returned is called. */
  begins(connection: string, call: Elicitations): () => void {
    const running = this.#running.get(connection) ?? new Set();
    this.#running.set(connection, running.add(call));
    return () => {
      running.delete(call);
      if (running.size === 0) this.#running.delete(connection);
    };
  }

  /** The server asks. `whose`: of this very call. */
  asks(connection: string, message: RpcMessage, whose?: Elicitations): void {
    if (!isRequest(message) || !asksUser(message)) return;
    const calls = whose === undefined ? [...(this.#running.get(connection) ?? [])] : [whose];
    this.#asked.set(connection + idText(message.id), calls);
    if (this.#asked.size > MOST_ASKED) this.#asked.delete(this.#asked.keys().next().value as string);
  }

  /** The client answers. */
  answers(connection: string, { id, result }: RpcMessage): void {
    const key = connection + idText(id);
    const calls = this.#asked.get(key) ?? [];
    this.#asked.delete(key);
    for (const call of calls) call.heard(result, calls.length === 1);
  }
}
