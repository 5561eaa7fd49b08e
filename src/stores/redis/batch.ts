/**
 * Swaps as the script takes them: a line of small numbers for each, and all keys and rows in one buffer. One buffer and not a
 * thousand arguments, because drivers copy and measure every argument: it halved what a batch costs the program. What a line
 * would have to say at length (a time, a score, what an index says about a record) is mostly the same in all of them: it is
 * an argument, once, and the line has its number.
 */
import { bellsOf, ringsBell } from "../../core/doorbell.ts";
import type { Put } from "../../core/store.ts";
import { bucketOf, type Names } from "./buckets.ts";
import { aboutOf, queueScore, scoreOf, stateScore } from "./members.ts";
import { sumOf, VERSION_DIGITS, writeRow } from "./row.ts";
import { ByteWriter } from "./writer.ts";

export interface Swap {
  readonly put: Put;
  readonly version: number;
}

// As the script reads them: the bytes of key and row, which index; then which arguments: about, three scores, the expiry.
const BYTES_A_LINE = 2 + 4 + 2 + 5 * 2;
const NO_VERSION = " ".repeat(VERSION_DIGITS);
const NOT_SAID = 0;

export class Batch {
  readonly #names: Names;
  /** The indexes concerned, in the order the lines count them. */
  readonly keys: string[] = [];
  /** What lines refer to, counted from 1. */
  readonly #said: string[] = [];
  readonly #saidAt = new Map<string | number, number>();
  /** Of the actions whose idle workers this batch is news for. */
  readonly #bells: string[] = [];
  readonly #places: number[] = [];
  readonly #lines: ByteWriter;
  readonly #rows: ByteWriter;
  /** Each key behind the last: then none comes twice. */
  #ascending = true;
  #lastKey = "";

  /** `expectedBytes`: about how long the rows will be, so that the buffer need not grow. */
  constructor(names: Names, rows: number, expectedBytes: number) {
    this.#names = names;
    this.#lines = new ByteWriter(rows * BYTES_A_LINE);
    this.#rows = new ByteWriter(expectedBytes);
  }

  get size(): number {
    return this.#rows.end;
  }

  add({ put: { record, expected }, version }: Swap): void {
    const { key } = record;
    this.#ascending &&= key > this.#lastKey;
    this.#lastKey = key;
    if (record.queued && ringsBell(record)) for (const bell of bellsOf(record)) this.#rings(bell);
    const rows = this.#rows;
    if (expected === null) rows.text(NO_VERSION);
    else rows.padded(expected, VERSION_DIGITS);
    const start = rows.end;
    rows.text(key);
    const rowAt = rows.end;
    writeRow(rows, record, version);
    rows.hex(sumOf(rows.slice(start, rows.end)));
    const lines = this.#lines;
    lines.integer(rowAt - start, 2);
    lines.integer(rows.end - rowAt, 4);
    lines.integer(this.#index(key), 2);
    lines.integer(this.#say(aboutOf(record)), 2);
    // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
    const created = expected === null || record.createdAt === record.updatedAt;
    lines.integer(created ? this.#say(scoreOf("a", record.createdAt)) : NOT_SAID, 2);
    lines.integer(this.#say(stateScore(record)), 2);
    lines.integer(this.#say(queueScore(record)), 2);
    lines.integer(this.#say(expiryOf(record)), 2);
  }

  /** `channels`: what those are called after where who waits is told; empty: each bucket has its own. `ledger`: its id. */
  args(channels: string, ledger: string): (string | Buffer)[] {
    const lines = this.#lines.slice(0, this.#lines.end);
    const rows = this.#rows.slice(0, this.#rows.end);
    return [channels, lines, rows, this.#bells.join("\n"), this.#ascending ? "1" : "", ledger, ...this.#said];
  }

  #rings(bell: string): void {
    if (!this.#bells.includes(bell)) this.#bells.push(bell);
  }

  #index(key: string): number {
    const bucket = bucketOf(key);
    this.#places[bucket] ??= this.keys.push(this.#names.index(bucket));
    return this.#places[bucket];
  }

  #say(what: string | number | null): number {
    if (what === null) return NOT_SAID;
    let at = this.#saidAt.get(what);
    if (at === undefined) {
      at = this.#said.push(String(what));
      this.#saidAt.set(what, at);
    }
    return at;
  }
}

/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }: Put["record"]): number | null {
  if ((state !== "confirmed" && state !== "failed") || expiresAt === null) return null;
  return Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER);
}
