/** What the store needs of a client, whichever it is. */
import type { Row, SqlText } from "../sql/row.ts";

/** One session, or one transaction. */
export interface Connection {
  query(text: string, values?: readonly SqlText[]): Promise<Row[]>;
  /** How many rows a statement changed, where the client can tell: reading a row back costs a lone caller 50 µs. */
  count?(text: string, values: readonly SqlText[]): Promise<number>;
  /** One of a few statements that come again and again, and whose plan stays right however the table grows. */
  queryAgain?(text: string, values: readonly SqlText[]): Promise<Row[]>;
  /** True where values reach the server as the texts they are, whatever the types of parameters. */
  readonly sendsTexts?: boolean;
  /** True where only statements with a text known before can be run. */
  readonly uniform?: boolean;
}

export interface Listening {
  /** True where the session that listens is known not to be a pooler's. */
  readonly direct: boolean;
  stop(): Promise<void>;
}

export interface ListenOptions {
  readonly channel: string;
  readonly heard: (payload: string) => void;
  readonly lost: () => void;
}

/** What the store needs of a client. Every method gives up after the query timeout and rejects. */
export interface Driver extends Connection {
  /** One transaction on one session, begun with `setup`; rolled back when the work throws. */
  transaction<T>(work: (connection: Connection) => Promise<T>, setup?: string): Promise<T>;
  /** Null: this client cannot listen. */
  listen(options: ListenOptions): Promise<Listening | null>;
  close(): Promise<void>;
}

/** One round trip, and nothing that outlives the transaction. */
export function beginning(setup: string | undefined): string {
  return setup === undefined ? "BEGIN" : `BEGIN; ${setup}`;
}
