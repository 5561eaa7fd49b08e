/** One session of node-postgres, and how it is asked. */
import { createHash } from "node:crypto";
import { clearTimeout, setTimeout } from "../../../engine/real-timers.ts";
import type { Row, SqlText } from "../sql/row.ts";
import { QueryTimeout } from "./timeout.ts";

export type Listener = (message: { readonly channel: string; readonly payload?: string }) => void;

interface Answer {
  readonly rows: unknown[];
  readonly rowCount: number | null;
}

type Told = (error: unknown, answer?: Answer) => void;
type Read<T> = (answer: Answer) => T;

interface Question {
  readonly text: string;
  readonly values: readonly SqlText[];
  readonly name: string | null;
}

/** By shape: `pg.Query`. */
interface PgQuery {
  name?: string;
}

/** A statement as an object of pg's own, which carries its callback. */
type QueryClass = new (text: string, values: readonly SqlText[], told: Told) => PgQuery;

export interface Session {
  query(
    query: string | PgQuery | { text: string; name: string; values: readonly SqlText[] },
    values?: readonly SqlText[],
  ): unknown;
  on(event: "notification", listener: Listener): unknown;
  on(event: "error" | "end", listener: () => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
  readonly processID?: number | null;
}

// Texts differ by the columns that are set. A session keeps what it prepared, so only the first so many are.
const MOST_PREPARED = 100;

export class Asker {
  readonly #timeoutMs: number;
  readonly #names = new Map<string, string>();
  #direct: boolean | null = null;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  rows(client: Session, text: string, values: readonly SqlText[] = []): Promise<Row[]> {
    return this.#ask(client, { text, values, name: null }, rowsOf);
  }

  rowsAgain(client: Session, text: string, values: readonly SqlText[]): Promise<Row[]> {
    return this.#prepared(client, text, values, rowsOf);
  }

  count(client: Session, text: string, values: readonly SqlText[]): Promise<number> {
    return this.#prepared(client, text, values, countOf);
  }

  /** A pooler hands out process ids of its own: a session whose id is not the backend's is not ours to keep. */
  async isDirect(client: Session): Promise<boolean> {
    const [row] = await this.rows(client, "SELECT pg_backend_pid()::text AS c0");
    return client.processID === Number(row?.c0);
  }

  /**
   * A statement that the server parses and plans once, on sessions that are surely our own: 85 of 190 µs for a lone
   * caller's claim, 0.8 of 3 ms for a batch of 128. Behind a pooler it goes without a name. The name is a digest of the
   * text, so that even a pooler that was taken for a server could only ever run the statement that was meant.
   */
  #prepared<T>(client: Session, text: string, values: readonly SqlText[], read: Read<T>): Promise<T> {
    if (this.#direct === null) return this.#preparedLater(client, text, values, read);
    return this.#ask(client, { text, values, name: this.#direct ? this.#nameOf(text) : null }, read);
  }

  async #preparedLater<T>(client: Session, text: string, values: readonly SqlText[], read: Read<T>): Promise<T> {
    this.#direct = await this.isDirect(client);
    return this.#prepared(client, text, values, read);
  }

  #ask<T>(client: Session, question: Question, read: Read<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new QueryTimeout(this.#timeoutMs)), this.#timeoutMs);
      const told: Told = (error, answer) => {
        clearTimeout(timer);
        if (error === null || error === undefined) resolve(read(answer as Answer));
        else if (question.name !== null && isUnprepared(error)) {
          // Not run at all: a pooler after all, or tables that were altered under a plan.
          this.#direct = false;
          resolve(this.#ask(client, { ...question, name: null }, read));
        } else reject(error);
      };
      try {
        put(client, question, told);
      } catch (error) {
        told(error);
      }
    });
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

function rowsOf({ rows }: Answer): Row[] {
  return rows as Row[];
}

function countOf({ rowCount }: Answer): number {
  return rowCount ?? 0;
}

/**
 * With a callback, in a query object where the client has such: a plain one is copied by pg property by property (some
 * 4 µs), and two promises are made for it.
 */
function put(client: Session, { text, values, name }: Question, told: Told): void {
  const { Query } = client.constructor as { Query?: QueryClass };
  if (typeof Query !== "function") {
    const answer = name === null ? client.query(text, values) : client.query({ text, name, values });
    (answer as Promise<Answer>).then((known) => told(null, known), told);
    return;
  }
  const query = new Query(text, values, told);
  if (name !== null) query.name = name;
  client.query(query);
}

/** No such statement, one of that name already, or a plan whose result changed. */
function isUnprepared(error: unknown): boolean {
  return ["26000", "42P05", "0A000"].includes(String((error as { code?: unknown } | null)?.code));
}

/** A five-character SQLSTATE: the server answered. 57P0x: it answered that it is going away. */
export function isServerError(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return (
    typeof code === "string" && typeof severity === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("57P")
  );
}
