/** The sessions of a pool: who has one, and whose statements follow on each other's. */
import { performance } from "node:perf_hooks";
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
  /** Statements under way: more than one only in line. */
  users: number;
  /** In line: when the last of them was answered, or the first one sent. */
  movedAt: number;
}

// Then the pool has it, which closes what stays idle.
const IDLE_MS = 1_000;
// One is carried out, one lies ready: more would only wait for longer.
const MOST_IN_LINE = 2;
// A statement that has not been answered by then waits for a lock, perhaps: nothing more is put behind it.
const STUCK_AFTER_MS = 5;

export interface SessionOptions {
  readonly timeoutMs: number;
  /** The ledger's own pool: nobody else asks it. */
  readonly owned: boolean;
  readonly stuckAfterMs?: number;
}

export class Sessions {
  readonly #pool: PgPool;
  readonly #timeoutMs: number;
  readonly #owned: boolean;
  readonly #stuckAfterMs: number;
  #kept: CheckedOut | null = null;
  /** Where the next statement may go behind another. */
  #line: CheckedOut | null = null;
  #handingBack = false;
  #keeps = 0;
  #idleTimer: RealTimer | null = null;
  #closed = false;

  constructor(pool: PgPool, { timeoutMs, owned, stuckAfterMs = STUCK_AFTER_MS }: SessionOptions) {
    this.#stuckAfterMs = stuckAfterMs;
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

  /**
   * For a single statement, each its own transaction: where a session pipelines, it may go behind one that is under way.
   * The server has it at hand when it is done with that one, and does so in one process: where server and program share
   * two processors, a second one would take the program's.
   */
  useInLine<T>(work: (client: Session) => Promise<T>): Promise<T> {
    const line = this.#line;
    if (line !== null && isMoving(line, this.#stuckAfterMs)) return this.#on(line, work);
    const kept = this.#takeKept();
    return kept === null ? this.#checkOut().then((session) => this.#lineUp(session, work)) : this.#lineUp(kept, work);
  }

  #lineUp<T>(session: CheckedOut, work: (client: Session) => Promise<T>): Promise<T> {
    if (session.client.pipeline === true) {
      this.#line = session;
      session.movedAt = performance.now();
    }
    return this.#on(session, work);
  }

  #on<T>(session: CheckedOut, work: (client: Session) => Promise<T>): Promise<T> {
    session.users += 1;
    return work(session.client).then(
      (answer) => {
        if (this.#isLast(session)) {
          if (session.broken) this.#release(session);
          else this.#keep(session);
        }
        return answer;
      },
      (error) => {
        // An error the server itself reported leaves the session sound; anything else (a timeout, a lost connection, a
        // failed rollback) does not, and closing it also ends what may still run on it.
        if (!isServerError(error)) breakOff(session);
        if (this.#isLast(session)) this.#release(session);
        throw error;
      },
    );
  }

  #isLast(session: CheckedOut): boolean {
    session.users -= 1;
    if (session.users > 0) {
      session.movedAt = performance.now();
      return false;
    }
    if (this.#line === session) this.#line = null;
    return true;
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
    const session: CheckedOut = { client, onError, broken: false, users: 0, movedAt: 0 };
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

function isMoving({ broken, users, movedAt }: CheckedOut, stuckAfterMs: number): boolean {
  return !broken && users < MOST_IN_LINE && performance.now() - movedAt < stuckAfterMs;
}

/** A client that pipelines would wait for the answers before it ends, and those behind this one with it. */
function breakOff(session: CheckedOut): void {
  session.broken = true;
  if (session.client.pipeline === true) session.client.connection?.stream?.destroy?.();
}
