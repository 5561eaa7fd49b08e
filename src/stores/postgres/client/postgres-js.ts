/** postgres.js: the `sql` function, which is a pool. */
import { configError } from "../../../core/errors.ts";
import type { Row, SqlText } from "../sql/row.ts";
import { beginning, type Connection, type Driver } from "./connection.ts";
import { answerWithin } from "./timeout.ts";

interface PendingQuery extends PromiseLike<unknown> {
  cancel?(): void;
}

/** By shape: what `postgres(url)` returns. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { prepare?: boolean }): PendingQuery;
  reserve?(): Promise<unknown>;
  listen?(channel: string, heard: (payload: string) => void): PromiseLike<{ unlisten(): Promise<void> }>;
  savepoint?: unknown;
  end?(options?: { timeout?: number }): Promise<void>;
}

export async function queryJs(sql: PostgresJs, text: string, values: readonly SqlText[]): Promise<Row[]> {
  return [...((await sql.unsafe(text, values as never[], { prepare: false })) as Iterable<Row>)];
}

interface Reserved extends PostgresJs {
  release(): void;
}

async function reserve(sql: PostgresJs, timeoutMs: number): Promise<Reserved> {
  if (sql.reserve === undefined)
    throw configError("this postgres.js has no sql.reserve(). Run: npm install postgres@^3.4");
  const coming = sql.reserve() as Promise<Reserved>;
  return answerWithin(timeoutMs, coming, () => void coming.then((late) => late.release()).catch(() => {}));
}

export function postgresJsDriver(sql: PostgresJs, { timeoutMs, owned }: { timeoutMs: number; owned: boolean }): Driver {
  const run = async (on: PostgresJs, text: string, values: readonly SqlText[]): Promise<Row[]> => {
    const pending = on.unsafe(text, values as never[], { prepare: false });
    // The library has no way to drop one connection: the server is asked to cancel, and the answer is not waited for.
    const rows = await answerWithin(timeoutMs, pending, () => pending.cancel?.());
    return rows as Row[];
  };
  return {
    query: (text, values = []) => run(sql, text, values),
    count: async (text, values) => ((await run(sql, text, values)) as unknown as { count: number }).count,
    transaction: async <T>(work: (connection: Connection) => Promise<T>, setup?: string) => {
      const session = await reserve(sql, timeoutMs);
      const query: Connection["query"] = (text, values = []) => run(session, text, values);
      // Not sql.begin(): its COMMIT is a named statement, which behind a pooler may be another session's. It then fails,
      // is sent again to the transaction it has just aborted, and what was a commit is a rollback that says nothing.
      try {
        await query(beginning(setup));
        const answer = await work({ query });
        await query("COMMIT");
        return answer;
      } catch (error) {
        await query("ROLLBACK").catch(() => {});
        throw error;
      } finally {
        session.release();
      }
    },
    listen: async ({ channel, heard }) => {
      if (sql.listen === undefined) return null;
      const listening = sql.listen(channel, heard);
      // Its connections do not tell a pooler from a server: the self-probe decides.
      const { unlisten } = await answerWithin(timeoutMs, listening, () => {});
      return { direct: true, stop: () => unlisten().catch(() => {}) };
    },
    close: async () => {
      if (owned) await sql.end?.({ timeout: 5 });
    },
  };
}
