/** Reading and swapping rows: batches cut by slot, sent side by side, put together again in the order asked. */
import { isNevertwiceError } from "../core/errors.ts";
import type { Put, PutResult, Stored } from "../core/store.ts";
import { bucketOf, type Names } from "./redis-buckets.ts";
import { isPassing, redisError } from "./redis-errors.ts";
import { entryOf, queueScore, scoreOf, stateScore } from "./redis-index.ts";
import { type RedisLink, textOf } from "./redis-link.ts";
import { decodeRow, encodeRow, versionText } from "./redis-row.ts";
import { READ, WRITE } from "./redis-scripts.ts";

// A script's arguments go through Lua's stack, which ends at 8000: three pairs of index members a row.
const ROWS_A_SCRIPT = 500;

interface Placed<T> {
  readonly item: T;
  readonly bucket: number;
  /** Its place in the batch it came with. */
  readonly at: number;
}

interface Write {
  readonly put: Put;
  readonly version: number;
}

export class RedisRows {
  readonly #link: RedisLink;
  readonly #names: Names;
  readonly #now: () => number;

  constructor(link: RedisLink, names: Names, now: () => number) {
    this.#link = link;
    this.#names = names;
    this.#now = now;
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    const found = new Array<Stored | null>(keys.length).fill(null);
    const read = async (group: readonly Placed<string>[]) => {
      const [rows] = (await this.#readGroup(group)) as [unknown[]];
      for (const [index, { item, at }] of group.entries()) found[at] = this.#decode(item, rows[index]);
    };
    await Promise.all(this.#groups(keys, (key) => key).map(read));
    return found;
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    const results = new Array<PutResult>(puts.length);
    const writes = puts.map((put) => ({ put, version: this.#nextVersion(put) }));
    const write = async (group: readonly Placed<Write>[]) => {
      const answers = await this.#writeGroup(group);
      for (const [index, { item, at }] of group.entries()) results[at] = this.#result(item, answers[index]);
    };
    await Promise.all(this.#groups(writes, ({ put }) => put.record.key).map(write));
    return results;
  }

  /** A first version that no earlier row of this key can have had, also after it expired: time in ms, times 4096, plus chance. */
  #nextVersion({ expected }: Put): number {
    return expected === null ? this.#now() * 4_096 + Math.floor(Math.random() * 4_096) : expected + 1;
  }

  /** A single server takes all buckets in one script; a cluster one bucket a script. Rows of a bucket stand together. */
  #groups<T>(items: readonly T[], keyOf: (item: T) => string): Placed<T>[][] {
    const buckets: Placed<T>[][] = [];
    for (const [at, item] of items.entries()) {
      const bucket = bucketOf(keyOf(item));
      const placed = buckets[bucket];
      if (placed === undefined) buckets[bucket] = [{ item, bucket, at }];
      else placed.push({ item, bucket, at });
    }
    const filled = buckets.filter((bucket) => bucket !== undefined);
    const groups = this.#link.wire.cluster || filled.length === 0 ? filled : [filled.flat()];
    return groups.flatMap((group) => chunks(group, ROWS_A_SCRIPT));
  }

  async #readGroup(group: readonly Placed<string>[]): Promise<unknown[]> {
    const keys = group.map(({ item }) => this.#names.record(item));
    if (!this.#link.wire.cluster || keys.length === 1) return this.#link.run(READ, keys, []);
    return this.#unlessMoving(
      () => this.#link.runOnce(READ, keys, []),
      // One key at a time can always be found, on the one node or on the other.
      async () => [
        (await Promise.all(keys.map((key) => this.#link.run(READ, [key], [])))).map(([row]) => (row as unknown[])[0]),
      ],
    );
  }

  async #writeGroup(group: readonly Placed<Write>[]): Promise<unknown[]> {
    const { keys, args } = this.#arguments(group);
    if (!this.#link.wire.cluster || group.length === 1) return this.#link.run(WRITE, keys, args);
    return this.#unlessMoving(
      () => this.#link.runOnce(WRITE, keys, args),
      // A row waits for its slot alone, not for its neighbours' sake.
      async () => (await Promise.all(group.map((one) => this.#writeGroup([one])))).map(([answer]) => answer),
    );
  }

  async #unlessMoving<T>(work: () => Promise<T>, apart: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isNevertwiceError(error) && isPassing(error)) return apart();
      throw redisError(error, this.#link.where);
    }
  }

  #arguments(group: readonly Placed<Write>[]): { keys: string[]; args: string[] } {
    const keys: string[] = [];
    const counts: string[] = [];
    const rows: string[] = [];
    const records: string[] = [];
    for (let start = 0; start < group.length; ) {
      const { bucket } = group[start] as Placed<Write>;
      let end = start;
      for (; group[end]?.bucket === bucket; end += 1) {
        const { put, version } = (group[end] as Placed<Write>).item;
        records.push(`${this.#names.index(bucket)}:${put.record.key}`);
        rowArguments(rows, put, version);
      }
      keys.push(this.#names.index(bucket));
      counts.push(String(end - start));
      start = end;
    }
    // The empty channel stands for the bucket's own: a cluster must not shout every settle to all of its nodes.
    const channel = this.#link.wire.cluster ? "" : this.#names.channel;
    return { keys: keys.concat(records), args: [String(counts.length), channel].concat(counts, rows) };
  }

  #result({ put, version }: Write, answer: unknown): PutResult {
    if (answer === 1) return { ok: true, version };
    return { ok: false, current: this.#decode(put.record.key, answer) };
  }

  #decode(key: string, row: unknown): Stored | null {
    return row === null || row === undefined ? null : decodeRow(key, textOf(row));
  }
}

function rowArguments(into: string[], { record, expected }: Put, version: number): void {
  const state = stateScore(record);
  const queue = queueScore(record);
  // `createdAt` changes only when an expired record begins anew, and then it is the time of this very write.
  const created = expected === null || record.createdAt === record.updatedAt;
  into.push(
    expected === null ? "" : versionText(expected),
    encodeRow(record, version),
    entryOf(record),
    created ? String(scoreOf("a", record.createdAt)) : "",
    state === null ? "" : String(state),
    queue === null ? "" : String(queue),
    expiryOf(record),
  );
}

/** Only what is settled may go by itself; Redis takes no time before the epoch. */
function expiryOf({ state, expiresAt }: Put["record"]): string {
  if ((state !== "confirmed" && state !== "failed") || expiresAt === null) return "";
  return String(Math.min(Math.max(1, Math.ceil(expiresAt)), Number.MAX_SAFE_INTEGER));
}

function chunks<T>(items: T[], size: number): T[][] {
  if (items.length <= size) return [items];
  return Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size));
}
