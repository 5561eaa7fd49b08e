/** node-postgres: a Pool, or a Client of the ledger's own. */
import { configError } from "../../../core/errors.ts";
import { Turns } from "../../shared/savepoint.ts";
import { beginning, type Connection, type Driver, type Listening, type ListenOptions } from "./connection.ts";
import { Asker, type Listener, type Session } from "./session.ts";
import { onSession, type PgPool } from "./sessions.ts";
import { answerWithin } from "./timeout.ts";

export type { PgPool };

/** By shape, as all of this file: `new pg.Client()`, connected. */
export interface PgClient {
  query(text: string, values?: never[]): Promise<{ readonly rows: unknown[] }>;
  on(...args: never[]): unknown;
  /** "I" idle, "T" in a transaction, "E" in a failed one; since pg 8.17. */
  getTransactionStatus?(): string | null;
}

interface Connecting {
  on?(event: "connect", listener: (client: Session) => void): unknown;
}

interface OwnClient extends Session {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  unref?(): void;
}

export function pgPoolDriver(pool: PgPool, { timeoutMs, owned }: { timeoutMs: number; owned: boolean }): Driver {
  // Without a listener, a server that restarts while a connection idles would end the process.
  if (owned) pool.on?.("error", () => {});
  listenFromTheStart(pool);
  const asker = new Asker(timeoutMs);
  return {
    ...statements(asker, (work) => onSession(pool, timeoutMs, work)),
    listen: (options) => listenApart(pool, options, { asker, timeoutMs }),
    close: async () => {
      if (owned) await pool.end();
    },
  };
}

const listenedTo = new WeakSet<PgPool>();

/**
 * A server that ends a session right after it began says so in the same packet that makes the client ready: between the
 * pool's own listener and ours there would be none, and that would end the process. Once a pool: there may be a store for
 * each of a thousand tenants on it.
 */
function listenFromTheStart(pool: PgPool): void {
  if (listenedTo.has(pool)) return;
  listenedTo.add(pool);
  (pool as unknown as Connecting).on?.("connect", (client) => client.on("error", () => {}));
}

type OnSession = <T>(work: (client: Session) => Promise<T>) => Promise<T>;

function statements(
  asker: Asker,
  use: OnSession,
): Pick<Driver, "query" | "count" | "queryAgain" | "sendsTexts" | "transaction"> {
  const queryAgain: Driver["query"] = (text, values = []) => use((client) => asker.rowsAgain(client, text, values));
  return {
    query: (text, values) => use((client) => asker.rows(client, text, values)),
    count: (text, values) => use((client) => asker.count(client, text, values)),
    sendsTexts: true,
    queryAgain,
    transaction: (work, setup) => use((client) => transactionOn(client, { work, setup, asker })),
  };
}

// A client that still has queries of its owner under way after so many waits is never idle.
const MOST_WAITS = 10;

/** pg's own name for what is asked and not answered; another client has none, and is taken for idle. */
function isAsked(client: PgClient): boolean {
  const { _queryQueue, _activeQuery } = client as { _queryQueue?: unknown[]; _activeQuery?: unknown };
  return (_queryQueue?.length ?? 0) > 0 || (_activeQuery ?? null) !== null;
}

/** Whether a pg client has a transaction open; null: it cannot say. A statement on its way may change that. */
export function isTransactionOpen(tx: unknown): boolean | null {
  const client = tx as PgClient;
  if (typeof client.getTransactionStatus !== "function" || isAsked(client)) return null;
  const status = client.getTransactionStatus();
  // "E": a failed one, in which the next statement is refused with the server's own words.
  return status === null ? null : status !== "I";
}

/** As the server said last: "I" idle, "T" in a transaction, "E" in a failed one. */
function transactionStatus(client: PgClient): () => string {
  if (client.getTransactionStatus !== undefined) return () => client.getTransactionStatus?.() ?? "I";
  // Before pg 8.17 only the connection itself was told.
  let status = "I";
  const { connection } = client as { connection?: { on?(event: string, told: (message: unknown) => void): unknown } };
  connection?.on?.("readyForQuery", (message) => {
    status = (message as { status?: string } | undefined)?.status ?? "I";
  });
  return () => status;
}

export function pgClientDriver(given: PgClient, timeoutMs: number): Driver {
  const client = given as Session;
  const asker = new Asker(timeoutMs);
  // A client runs one query at a time, and a transaction has it to itself.
  const turns = new Turns();
  const status = transactionStatus(given);
  const checkIdle = () => {
    if (status() === "I") return;
    throw configError(
      "a transaction is open on the client that carries the ledger: its rollback would take the ledger's writes with it. Pass that client to the call as tx, and give the ledger a Pool or a client of its own.",
    );
  };
  const alone: OnSession = (work) =>
    turns.take(async () => {
      // A BEGIN that is on its way has not changed the status yet, and our statement would follow it.
      for (let waits = 0; waits < MOST_WAITS && isAsked(given); waits += 1) await asker.rows(client, "SELECT 1");
      checkIdle();
      const answer = await work(client);
      // A client that was busy all the time may have begun one in front of us: what was read or written is not committed.
      checkIdle();
      return answer;
    });
  return {
    ...statements(asker, alone),
    listen: async (options) => {
      const { direct, stop } = await turns.take(() => listenOn(client, options, asker));
      return { direct, stop: () => turns.take(stop) };
    },
    close: async () => {},
  };
}

interface Transaction<T> {
  readonly work: (connection: Connection) => Promise<T>;
  readonly setup: string | undefined;
  readonly asker: Asker;
}

async function transactionOn<T>(client: Session, { work, setup, asker }: Transaction<T>): Promise<T> {
  const query: Connection["query"] = (text, values) => asker.rows(client, text, values);
  await query(beginning(setup));
  try {
    const answer = await work({ query });
    await query("COMMIT");
    return answer;
  } catch (error) {
    // On a session that is gone this fails too, and the first error is the one to tell.
    await query("ROLLBACK").catch(() => {});
    throw error;
  }
}

/** A connection beside the pool: one that listens must not be one of the pool's few. */
async function listenApart(
  pool: PgPool,
  options: ListenOptions,
  { asker, timeoutMs }: { asker: Asker; timeoutMs: number },
): Promise<Listening | null> {
  const Client = pool.Client as (new (options: unknown) => OwnClient) | undefined;
  if (typeof Client !== "function" || pool.options === undefined) return null;
  const client = new Client(pool.options);
  const end = () => client.end().catch(() => {});
  client.on("error", options.lost);
  client.on("end", options.lost);
  try {
    await answerWithin(timeoutMs, client.connect(), () => void end());
    client.unref?.();
    const listening = await listenOn(client, options, asker);
    return { direct: listening.direct, stop: end };
  } catch (error) {
    await end();
    throw error;
  }
}

async function listenOn(client: Session, options: ListenOptions, asker: Asker): Promise<Listening> {
  const direct = await asker.isDirect(client);
  const onNotification: Listener = ({ channel, payload }) => {
    if (channel === options.channel) options.heard(payload ?? "");
  };
  client.on("notification", onNotification);
  if (direct) await asker.rows(client, `LISTEN "${options.channel}"`);
  return {
    direct,
    stop: async () => {
      client.removeListener("notification", onNotification);
      if (direct) await asker.rows(client, `UNLISTEN "${options.channel}"`).catch(() => {});
    },
  };
}
