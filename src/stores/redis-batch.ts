/**
 * Swaps as the script takes them: a line of numbers for each, and all keys and rows in one buffer. One buffer and not a
 * thousand arguments, because drivers copy and measure every argument: it halved what a batch costs the program.
 */
import type { Put } from "../core/store.ts";
import { bucketOf, type Names } from "./redis-buckets.ts";
import { aboutOf, queueScore, scoreOf, stateScore } from "./redis-index.ts";
import { rowText, SUM_DIGITS, sumText, versionText } from "./redis-row.ts";

export interface Swap {
  readonly put: Put;
  readonly version: number;
}

const SMALLEST = 4_096;
// UTF-8 takes at most three bytes for a unit of a JavaScript string.
const WIDEST = 3;

export class Batch {
  readonly #names: Names;
  /** The indexes concerned, in the order the lines count them. */
  readonly keys: string[] = [];
  /** What indexes say about the records of this batch; mostly the same of all. */
  readonly #abouts: string[] = [];
  readonly #places: number[] = [];
  #lines = "";
  #bytes: Buffer;
  #end = 0;
  #lastAbout = "";
  #lastAboutAt = 0;

  /** `expectedBytes`: about how long it will be, so that it need not grow. */
  constructor(names: Names, expectedBytes: number) {
    this.#names = names;
    this.#bytes = Buffer.allocUnsafe(Math.max(SMALLEST, expectedBytes));
  }

  get size(): number {
    return this.#end;
  }

  add({ put: { record, expected }, version }: Swap): void {
    const { key } = record;
    const start = this.#end;
    const row = rowText(record, version);
    this.#reserve(key.length + row.length);
    const rowAt = start + this.#bytes.write(key, start);
    const sumAt = rowAt + this.#bytes.write(row, rowAt);
    this.#end = sumAt + this.#bytes.write(sumText(this.#bytes.subarray(start, sumAt)), sumAt, "latin1");
    const state = stateScore(record);
    const queue = queueScore(record);
    // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
    const created = expected === null || record.createdAt === record.updatedAt;
    const wanted = expected === null ? "" : versionText(expected);
    this.#lines += `${rowAt - start} ${this.#end - rowAt} ${this.#index(key)} ${this.#about(aboutOf(record))} ${wanted} ${created ? scoreOf("a", record.createdAt) : ""} ${state ?? ""} ${queue ?? ""} ${expiryOf(record)}\n`;
  }

  /** `channel`: where to tell who waits; empty: each bucket has its own. */
  args(channel: string): (string | Buffer)[] {
    return [channel, this.#lines, this.#bytes.subarray(0, this.#end), ...this.#abouts];
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

  #reserve(units: number): void {
    const wanted = this.#end + units * WIDEST + SUM_DIGITS;
    if (wanted <= this.#bytes.length) return;
    const wider = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(wider, 0, 0, this.#end);
    this.#bytes = wider;
  }
}

/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }: Put["record"]): number | "" {
  if ((state !== "confirmed" && state !== "failed") || expiresAt === null) return "";
  return Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER);
}
