/** node-postgres: a Pool, or a Client of the ledger's own. */
import { createHash } from "node:crypto";
import { configError } from "../core/errors.ts";
import { beginning, type Connection, type Driver, type Listening, type ListenOptions } from "./postgres-connection.ts";
import type { Row, SqlText } from "./postgres-row.ts";
import { answerWithin } from "./postgres-timeout.ts";
import { Turns } from "./turns.ts";

type Listener = (message: { readonly channel: string; readonly payload?: string }) => void;

/** By shape, as all of this file: `new pg.Client()`, connected. */
export interface PgClient {
  query(text: string, values?: never[]): Promise<{ readonly rows: unknown[] }>;
  on(...args: never[]): unknown;
  /** "I" idle, "T" in a transaction, "E" in a failed one; since pg 8.17. */
  getTransactionStatus?(): string | null;
}

interface Answer {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

interface Session {
  query(
    query: string | { text: string; name: string; values: readonly SqlText[] },
    values?: readonly SqlText[],
  ): Promise<Answer>;
  on(event: "notification", listener: Listener): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
}

interface Connecting {
  on?(event: "connect", listener: (client: Session) => void): unknown;
}

interface PooledClient extends Session {
  release(destroy?: boolean): void;
}

interface OwnClient extends Session {
  readonly processID?: number | null;
  connect(): Promise<unknown>;
  end(): Promise<void>;
  unref?(): void;
}

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

export function isPgPool(value: unknown): value is PgPool {
  const pool = value as Partial<PgPool> | null;
  return (
    typeof pool === "object" &&
    pool !== null &&
    typeof pool.connect === "function" &&
    typeof pool.query === "function" &&
    typeof pool.totalCount === "number"
  );
}

export function isPgClient(value: unknown): value is PgClient {
  const client = value as Partial<PgClient & PgPool> | null;
  return (
    typeof client === "object" &&
    client !== null &&
    typeof client.query === "function" &&
    typeof client.on === "function" &&
    client.totalCount === undefined &&
    "processID" in client
  );
}

export function pgPoolDriver(pool: PgPool, { timeoutMs, owned }: { timeoutMs: number; owned: boolean }): Driver {
  // Without a listener, a server that restarts while a connection idles would end the process.
  if (owned) pool.on?.("error", () => {});
  // A server that ends a session right after it began says so in the same packet that makes the client ready: between
  // the pool's own listener and ours there would be none, and that too would end the process.
  (pool as unknown as Connecting).on?.("connect", (client) => client.on("error", () => {}));
  const prepared = new Prepared(timeoutMs);

  const onClient = async <T>(work: (client: Session) => Promise<T>): Promise<T> => {
    const client = await checkOut(pool, timeoutMs);
    let destroy = true;
    const onError = () => {
      destroy = true;
    };
    client.on("error", onError);
    try {
      const answer = await work(client);
      destroy = false;
      return answer;
    } catch (error) {
      // An error the server itself reported leaves the session sound; anything else (a timeout, a lost connection, a
      // failed rollback) does not, and closing it also ends what may still run on it.
      destroy = !isServerError(error);
      throw error;
    } finally {
      client.removeListener("error", onError);
      client.release(destroy);
    }
  };
  return {
    query: (text, values = []) => onClient((client) => run(client, text, values, timeoutMs)),
    count: (text, values) => onClient((client) => prepared.count(client, text, values)),
    queryAgain: (text, values) => onClient((client) => prepared.rows(client, text, values)),
    transaction: (work, setup) => onClient((client) => transactionOn(client, { work, setup, timeoutMs })),
    listen: (options) => listenApart(pool, options, timeoutMs),
    close: async () => {
      if (owned) await pool.end();
    },
  };
}

/** A client that comes after we gave up goes straight back. */
async function checkOut(pool: PgPool, timeoutMs: number): Promise<PooledClient> {
  const coming = pool.connect() as Promise<PooledClient>;
  return answerWithin(timeoutMs, coming, () => void coming.then((late) => late.release()).catch(() => {}));
}

export function pgClientDriver(given: PgClient, timeoutMs: number): Driver {
  const client = given as Session;
  const prepared = new Prepared(timeoutMs);
  // A client runs one query at a time, and a transaction has it to itself.
  const turns = new Turns();
  const checkIdle = () => {
    const status = given.getTransactionStatus?.() ?? "I";
    if (status === "I") return;
    throw configError(
      "a transaction is open on the client that carries the ledger: its rollback would take the ledger's writes with it. Pass that client to the call as tx, and give the ledger a Pool or a client of its own.",
    );
  };
  const alone = <T>(work: () => Promise<T>): Promise<T> =>
    turns.take(async () => {
      checkIdle();
      return work();
    });
  return {
    query: (text, values = []) => alone(() => run(client, text, values, timeoutMs)),
    count: (text, values) => alone(() => prepared.count(client, text, values)),
    queryAgain: (text, values) => alone(() => prepared.rows(client, text, values)),
    transaction: (work, setup) => alone(() => transactionOn(client, { work, setup, timeoutMs })),
    listen: async (options) => {
      const { direct, stop } = await turns.take(() => listenOn(client, options, timeoutMs));
      return { direct, stop: () => turns.take(stop) };
    },
    close: async () => {},
  };
}

async function run(client: Session, text: string, values: readonly SqlText[], timeoutMs: number): Promise<Row[]> {
  const { rows } = await answerWithin(timeoutMs, client.query(text, values), () => {});
  return rows as Row[];
}

// Texts differ by the columns that are set. A session keeps what it prepared, so only the first so many are.
const MOST_PREPARED = 100;

/**
 * Statements that the server parses and plans once, on sessions that are surely our own: 85 of 190 µs for a lone
 * caller's claim, 0.8 of 3 ms for a batch of 128. Behind a pooler they go without a name. The name is a digest of the text, so that even a pooler that
 * was taken for a server could only ever run the statement that was meant.
 */
class Prepared {
  readonly #timeoutMs: number;
  readonly #names = new Map<string, string>();
  #direct: boolean | null = null;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  async count(client: Session, text: string, values: readonly SqlText[]): Promise<number> {
    return (await this.#run(client, text, values)).rowCount ?? 0;
  }

  async rows(client: Session, text: string, values: readonly SqlText[]): Promise<Row[]> {
    return (await this.#run(client, text, values)).rows as Row[];
  }

  async #run(client: Session, text: string, values: readonly SqlText[]): Promise<Answer> {
    this.#direct ??= await isDirect(client, this.#timeoutMs);
    const name = this.#direct ? this.#nameOf(text) : null;
    if (name === null) return this.#answer(client.query(text, values));
    try {
      return await this.#answer(client.query({ text, values, name }));
    } catch (error) {
      if (!isUnprepared(error)) throw error;
      // Not run at all: a pooler after all, or tables that were altered under a plan.
      this.#direct = false;
      return this.#answer(client.query(text, values));
    }
  }

  #answer(answer: Promise<Answer>): Promise<Answer> {
    return answerWithin(this.#timeoutMs, answer, () => {});
  }

  #nameOf(text: string): string | null {
    let name = this.#names.get(text);
    if (name === undefined) {
      if (this.#names.size >= MOST_PREPARED) return null;
      name = `nevertwice_${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
      this.#names.set(text, name);
    }
    return name;
  }
}

/** A pooler hands out process ids of its own: a session whose id is not the backend's is not ours to keep. */
async function isDirect(client: Session, timeoutMs: number): Promise<boolean> {
  const [row] = await run(client, "SELECT pg_backend_pid()::text AS c0", [], timeoutMs);
  return (client as OwnClient).processID === Number(row?.c0);
}

/** No such statement, one of that name already, or a plan whose result changed. */
function isUnprepared(error: unknown): boolean {
  return ["26000", "42P05", "0A000"].includes(String((error as { code?: unknown } | null)?.code));
}

interface Transaction<T> {
  readonly work: (connection: Connection) => Promise<T>;
  readonly setup: string | undefined;
  readonly timeoutMs: number;
}

async function transactionOn<T>(client: Session, { work, setup, timeoutMs }: Transaction<T>): Promise<T> {
  const query: Connection["query"] = (text, values = []) => run(client, text, values, timeoutMs);
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

/** A five-character SQLSTATE: the server answered. 57P0x: it answered that it is going away. */
function isServerError(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return (
    typeof code === "string" && typeof severity === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("57P")
  );
}

/** A connection beside the pool: one that listens must not be one of the pool's few. */
async function listenApart(pool: PgPool, options: ListenOptions, timeoutMs: number): Promise<Listening | null> {
  const Client = pool.Client as (new (options: unknown) => OwnClient) | undefined;
  if (typeof Client !== "function" || pool.options === undefined) return null;
  const client = new Client(pool.options);
  const end = () => client.end().catch(() => {});
  client.on("error", options.lost);
  client.on("end", options.lost);
  try {
    await answerWithin(timeoutMs, client.connect(), () => void end());
    client.unref?.();
    const listening = await listenOn(client, options, timeoutMs);
    return { direct: listening.direct, stop: end };
  } catch (error) {
    await end();
    throw error;
  }
}

async function listenOn(client: Session, options: ListenOptions, timeoutMs: number): Promise<Listening> {
  const direct = await isDirect(client, timeoutMs);
  const onNotification: Listener = ({ channel, payload }) => {
    if (channel === options.channel) options.heard(payload ?? "");
  };
  client.on("notification", onNotification);
  if (direct) await run(client, `LISTEN "${options.channel}"`, [], timeoutMs);
  return {
    direct,
    stop: async () => {
      client.removeListener("notification", onNotification);
      if (direct) await run(client, `UNLISTEN "${options.channel}"`, [], timeoutMs).catch(() => {});
    },
  };
}
