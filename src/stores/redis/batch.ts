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
import { encodeRow, VERSION_DIGITS, versionText } from "./row.ts";

export interface Swap {
  readonly put: Put;
  readonly version: number;
}

export interface BatchOptions {
  readonly names: Names;
  /** What the channels are called after where who waits is told; empty: each bucket has its own. */
  readonly channels: string;
  /** The ledger's id. */
  readonly ledger: string;
}

// As the script reads them: the bytes of key and row, which index; then which arguments: about, three scores, the expiry.
const BYTES_A_LINE = 2 + 4 + 2 + 5 * 2;
const NO_VERSION = " ".repeat(VERSION_DIGITS);

/** Numbers values as they come, from 1. */
class Numbered<T> {
  readonly values: T[] = [];
  readonly #places = new Map<T, number>();

  /** 0: there is nothing to refer to. */
  place(value: T | null): number {
    if (value === null) return 0;
    let place = this.#places.get(value);
    if (place === undefined) {
      place = this.values.push(value);
      this.#places.set(value, place);
    }
    return place;
  }
}

/** No key comes twice. `keys`: the indexes concerned, in the order the lines count them. */
export function batchOf(swaps: readonly Swap[], { names, channels, ledger }: BatchOptions) {
  const indexes = new Numbered<string>();
  const said = new Numbered<string | number>();
  const bells = new Set<string>();
  const lines = Buffer.alloc(swaps.length * BYTES_A_LINE);
  let [rows, end] = ["", 0];
  for (const { put, version } of swaps) {
    const { record, expected } = put;
    if (record.queued && ringsBell(record)) for (const bell of bellsOf(record)) bells.add(bell);
    const row = encodeRow(record, version);
    rows += (expected === null ? NO_VERSION : versionText(expected)) + record.key + row;
    end = lines.writeUInt16BE(Buffer.byteLength(record.key), end);
    end = lines.writeUInt32BE(Buffer.byteLength(row), end);
    // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
    const isCreated = expected === null || record.createdAt === record.updatedAt;
    const numbers = [
      indexes.place(names.index(bucketOf(record.key))),
      said.place(aboutOf(record)),
      said.place(isCreated ? scoreOf("a", record.createdAt) : null),
      said.place(stateScore(record)),
      said.place(queueScore(record)),
      said.place(expiryOf(record)),
    ];
    for (const number of numbers) end = lines.writeUInt16BE(number, end);
  }
  const args = [channels, lines, Buffer.from(rows), [...bells].join("\n"), ledger];
  return { keys: indexes.values, args: args.concat(said.values.map(String)) };
}

/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }: Put["record"]): number | null {
  if ((state !== "confirmed" && state !== "failed") || expiresAt === null) return null;
  return Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER);
}
