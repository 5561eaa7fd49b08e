/** The sessions of a pool: each statement, or transaction, has one to itself. */
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
  /** Sends statements without waiting for the answers to those before; since pg 8.23, where it was asked for. */
  readonly pipeline?: boolean;
  readonly connection?: { readonly stream?: { destroy?(): unknown } };
}

export async function onSession<T>(pool: PgPool, timeoutMs: number, work: (client: Session) => Promise<T>): Promise<T> {
  const client = await checkOut(pool, timeoutMs);
  let isBroken = false;
  const onError = () => {
    isBroken = true;
  };
  client.on("error", onError);
  try {
    return await work(client);
  } catch (error) {
    // An error the server itself reported leaves the session sound; anything else (a timeout, a lost connection, a
    // failed rollback) does not, and closing it also ends what may still run on it.
    if (!isServerError(error)) isBroken = true;
    // A client of a pool that pipelines would wait for its answers before it ends.
    if (isBroken && client.pipeline === true) client.connection?.stream?.destroy?.();
    throw error;
  } finally {
    client.removeListener("error", onError);
    client.release(isBroken);
  }
}

async function checkOut(pool: PgPool, timeoutMs: number): Promise<PooledClient> {
  const coming = pool.connect() as Promise<PooledClient>;
  // A client that comes after we gave up goes straight back.
  const giveUp = () => void coming.then((late) => late.release()).catch(() => {});
  const client = await answerWithin(timeoutMs, coming, giveUp);
  if ((client.getTransactionStatus?.() ?? "I") === "I") return client;
  // Given back to the pool by somebody who did not end a transaction: what we write would be part of it. Closed, which
  // rolls it back.
  client.release(true);
  return checkOut(pool, timeoutMs);
}
