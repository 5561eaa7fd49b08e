/**
 * A statement that the session has prepared already, in one write. pg makes four messages of it (values, description,
 * execution, end) and gathers them in a stream's queue, and a lone caller waits for that (`npm run bench -- postgres`, one caller).
 */
import type { SqlText } from "../sql/row.ts";

interface PgConnection {
  /** Texts by their names, once the server has parsed them. */
  readonly parsedStatements?: Readonly<Record<string, string>>;
  readonly stream?: { readonly writable?: boolean; write(packet: Buffer): unknown };
}

/** By shape: `pg.Query`. */
export interface PgQuery {
  readonly text?: string;
  readonly values?: readonly SqlText[];
  name?: string;
  submit(connection: PgConnection): unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: TypeScript asks it of whatever a class of unknown make is extended by.
type QueryClass = new (...args: any[]) => PgQuery;

const known = new WeakMap<QueryClass, QueryClass>();

/** The same kind of query, sent in one write where it can be: on a client by itself, or in line (which takes no other kind). */
export function inOnePacket<Class extends QueryClass>(Query: Class): Class {
  let made = known.get(Query);
  if (made === undefined) {
    made = class extends Query {
      override submit(connection: PgConnection): unknown {
        const { name, text, values } = this;
        const { stream, parsedStatements } = connection;
        // A client of another make, one that is closing, a statement that the server has yet to see: as pg has it.
        const isKnown = name !== undefined && text !== undefined && parsedStatements?.[name] === text;
        if (!isKnown || values === undefined || stream?.writable !== true) return super.submit(connection);
        stream.write(packet(name, values));
        return null;
      }
    };
    known.set(Query, made);
  }
  return made as Class;
}

const BIND = 0x42;
// Its code and length, a portal without a name, the end of the statement's name, two counts.
const AROUND_NAME = 1 + 4 + 1 + 1 + 2 + 2;
const NULL_LENGTH = -1;
// Results as texts, which ends the bind; then Describe and Execute for that portal, and Sync.
const RESULTS = [0, 0];
const REST = Buffer.from([...RESULTS, 0x44, 0, 0, 0, 6, 0x50, 0, 0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0x53, 0, 0, 0, 4]);

function packet(name: string, values: readonly SqlText[]): Buffer {
  let size = AROUND_NAME + Buffer.byteLength(name) + REST.length;
  for (const value of values) size += 4 + (value === null ? 0 : Buffer.byteLength(value));
  const bytes = Buffer.allocUnsafe(size);
  bytes[0] = BIND;
  bytes[5] = 0;
  let at = 6 + bytes.write(name, 6);
  bytes[at] = 0;
  // No formats: all parameters are texts.
  at = putInt16(bytes, at + 1, 0);
  at = putInt16(bytes, at, values.length);
  for (const value of values) at = putValue(bytes, at, value);
  bytes.set(REST, at);
  putInt32(bytes, 1, at + RESULTS.length - 1);
  return bytes;
}

function putValue(bytes: Buffer, at: number, value: SqlText): number {
  if (value === null) return putInt32(bytes, at, NULL_LENGTH);
  const length = bytes.write(value, at + 4);
  return putInt32(bytes, at, length) + length;
}

// Byte by byte: Buffer's own check what they are given, each time.
function putInt16(bytes: Buffer, at: number, number: number): number {
  bytes[at] = number >>> 8;
  bytes[at + 1] = number;
  return at + 2;
}

function putInt32(bytes: Buffer, at: number, number: number): number {
  bytes[at] = number >>> 24;
  bytes[at + 1] = number >>> 16;
  bytes[at + 2] = number >>> 8;
  bytes[at + 3] = number;
  return at + 4;
}
