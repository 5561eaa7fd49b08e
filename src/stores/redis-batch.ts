/**
 * Swaps as the script takes them: a line of numbers for each, and all keys and rows in one buffer. One buffer and not a
 * thousand arguments, because drivers copy and measure every argument: it halved what a batch costs the program.
 */
import { doorbellOf, ringsBell } from "../core/doorbell.ts";
import type { Put } from "../core/store.ts";
import { bucketOf, type Names } from "./redis-buckets.ts";
import { aboutOf, queueScore, scoreOf, stateScore } from "./redis-index.ts";
import { sumOf, VERSION_DIGITS, writeRow } from "./redis-row.ts";
import { ByteWriter } from "./redis-writer.ts";

export interface Swap {
  readonly put: Put;
  readonly version: number;
}

const BYTES_A_LINE = 96;

export class Batch {
  readonly #names: Names;
  /** The indexes concerned, in the order the lines count them. */
  readonly keys: string[] = [];
  /** What indexes say about the records of this batch; mostly the same of all. */
  readonly #abouts: string[] = [];
  /** Of the actions whose idle workers this batch is news for. */
  readonly #bells: string[] = [];
  readonly #places: number[] = [];
  readonly #lines: ByteWriter;
  readonly #rows: ByteWriter;
  /** Each key behind the last: then none comes twice. */
  #ascending = true;
  #lastKey = "";
  #lastAbout = "";
  #lastAboutAt = 0;

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
    if (record.queued && ringsBell(record)) this.#rings(doorbellOf(record.action));
    const rows = this.#rows;
    const start = rows.end;
    rows.text(key);
    const rowAt = rows.end;
    writeRow(rows, record, version);
    rows.hex(sumOf(rows.slice(start, rows.end)));
    const lines = this.#lines;
    lines.number(rowAt - start);
    field(lines, rows.end - rowAt);
    field(lines, this.#index(key));
    field(lines, this.#about(aboutOf(record)));
    lines.text(" ");
    if (expected !== null) lines.padded(expected, VERSION_DIGITS);
    // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
    const created = expected === null || record.createdAt === record.updatedAt;
    field(lines, created ? scoreOf("a", record.createdAt) : null);
    field(lines, stateScore(record));
    field(lines, queueScore(record));
    field(lines, expiryOf(record));
    lines.text("\n");
  }

  /** `channels`: what those are called after where who waits is told; empty: each bucket has its own. */
  args(channels: string): (string | Buffer)[] {
    const lines = this.#lines.slice(0, this.#lines.end);
    const rows = this.#rows.slice(0, this.#rows.end);
    return [channels, lines, rows, this.#bells.join("\n"), this.#ascending ? "1" : "", ...this.#abouts];
  }

  #rings(bell: string): void {
    if (!this.#bells.includes(bell)) this.#bells.push(bell);
  }

  #index(key: string): number {
    const bucket = bucketOf(key);
    this.#places[bucket] ??= this.keys.push(this.#names.index(bucket));
    return this.#places[bucket];
  }

  #about(text: string): number {
    if (this.#lastAboutAt > 0 && text === this.#lastAbout) return this.#lastAboutAt;
    const at = this.#abouts.indexOf(text);
    this.#lastAbout = text;
    this.#lastAboutAt = at >= 0 ? at + 1 : this.#abouts.push(text);
    return this.#lastAboutAt;
  }
}

/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }: Put["record"]): number | null {
  if ((state !== "confirmed" && state !== "failed") || expiresAt === null) return null;
  return Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER);
}

function field(lines: ByteWriter, value: number | null): void {
  lines.text(" ");
  if (value !== null) lines.number(value);
}
