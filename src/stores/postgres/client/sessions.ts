/** The sessions of a pool: who has one, and which one is kept for the next statement. */
import { clearTimeout, type RealTimer, setImmediate, setTimeout } from "../../../engine/real-timers.ts";
import { isServerError, type Session } from "./session.ts";
import { answerWithin } from "./timeout.ts";

/** By shape: `new pg.Pool()`. */
export interface PgPool {
  connect(): Promise<unknown>;
  query(text: string, values?: never[]): Promise<{ readonly rows: unknown[] }>;
  end(): Promise<void>;
  on?(event: "error", listener: () => void): unknown;
  readonly totalCount?: number;
  readonly Client?: unknown;
  readonly options?: unknown;
}

interface PooledClient extends Session {
  release(destroy?: boolean): void;
  /** "I" idle, "T" in a transaction, "E" in a failed one; since pg 8.17. */
  getTransactionStatus?(): string | null;
  ref?(): void;
  unref?(): void;
  /** Sends statements without waiting for the answers to those before; since pg 8.23, where it was asked for. */
  readonly pipeline?: boolean;
  readonly connection?: { readonly stream?: { destroy?(): unknown } };
}

interface CheckedOut {
  readonly client: PooledClient;
  readonly onError: () => void;
  broken: boolean;
}

// Then the pool has it, which closes what stays idle.
const IDLE_MS = 1_000;

export interface SessionOptions {
  readonly timeoutMs: number;
  /** The ledger's own pool: nobody else asks it. */
  readonly owned: boolean;
}

export class Sessions {
  readonly #pool: PgPool;
  readonly #timeoutMs: number;
  readonly #owned: boolean;
  #kept: CheckedOut | null = null;
  #handingBack = false;
  #keeps = 0;
  #idleTimer: RealTimer | null = null;
  #closed = false;

  constructor(pool: PgPool, { timeoutMs, owned }: SessionOptions) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
    this.#owned = owned;
  }

  /** Gives back what is kept: a pool ends when it has all of its sessions. */
  close(): void {
    this.#closed = true;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#handBack();
  }

  /** A session to itself. */
  use<T>(work: (client: Session) => Promise<T>): Promise<T> {
    const kept = this.#takeKept();
    return kept === null ? this.#checkOut().then((session) => this.#on(session, work)) : this.#on(kept, work);
  }

  #on<T>(session: CheckedOut, work: (client: Session) => Promise<T>): Promise<T> {
    return work(session.client).then(
      (answer) => {
        if (session.broken) this.#release(session);
        else this.#keep(session);
        return answer;
      },
      (error) => {
        // An error the server itself reported leaves the session sound; anything else (a timeout, a lost connection, a
        // failed rollback) does not, and closing it also ends what may still run on it.
        if (!isServerError(error)) breakOff(session);
        this.#release(session);
        throw error;
      },
    );
  }

  async #checkOut(): Promise<CheckedOut> {
    const coming = this.#pool.connect() as Promise<PooledClient>;
    // A client that comes after we gave up goes straight back.
    const giveUp = () => void coming.then((late) => late.release()).catch(() => {});
    const client = await answerWithin(this.#timeoutMs, coming, giveUp);
    // Given back to the pool by somebody who did not end a transaction: what we write would be part of it. Closed, which
    // rolls it back.
    if ((client.getTransactionStatus?.() ?? "I") !== "I") {
      client.release(true);
      return this.#checkOut();
    }
    const onError = () => {
      session.broken = true;
    };
    const session: CheckedOut = { client, onError, broken: false };
    client.on("error", onError);
    return session;
  }

  /**
   * A lone caller's next statement follows on the answer to the last, and to give a session back and take it again costs
   * it some 8 µs each time. Nobody else waits for a session of the ledger's own pool, so it is kept until nothing was
   * asked for a second; it keeps no program alive meanwhile. One of somebody else's pool is kept until the event loop turns.
   */
  #keep(session: CheckedOut): void {
    if (this.#kept !== null || this.#closed) {
      this.#release(session);
      return;
    }
    this.#kept = session;
    if (this.#owned) {
      session.client.unref?.();
      this.#keeps += 1;
      if (this.#idleTimer === null) this.#lookForIdle();
      return;
    }
    if (this.#handingBack) return;
    this.#handingBack = true;
    setImmediate(this.#handBack);
  }

  /** One timer for as long as there is something to do: none is set and cleared for each statement. */
  #lookForIdle(): void {
    const keeps = this.#keeps;
    this.#idleTimer = setTimeout(() => {
      this.#idleTimer = null;
      if (this.#keeps === keeps) this.#handBack();
      else this.#lookForIdle();
    }, IDLE_MS).unref();
  }

  readonly #handBack = (): void => {
    this.#handingBack = false;
    const kept = this.#kept;
    this.#kept = null;
    if (kept !== null) this.#release(kept);
  };

  #takeKept(): CheckedOut | null {
    const kept = this.#kept;
    if (kept === null) return null;
    this.#kept = null;
    if (!kept.broken) {
      if (this.#owned) kept.client.ref?.();
      return kept;
    }
    this.#release(kept);
    return null;
  }

  #release({ client, onError, broken }: CheckedOut): void {
    client.removeListener("error", onError);
    client.release(broken);
  }
}

/** A client of a pool that pipelines would wait for its answers before it ends. */
function breakOff(session: CheckedOut): void {
  session.broken = true;
  if (session.client.pipeline === true) session.client.connection?.stream?.destroy?.();
}
