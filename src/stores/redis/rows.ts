/** Reading and swapping rows: on a cluster a batch is cut by slot, sent side by side, and put together in the order asked. */
import { decodedOrError, requireDamaged } from "../../core/damaged-record.ts";
import { isNevertwiceError, type NevertwiceError } from "../../core/errors.ts";
import type { Put, PutResult, Stored } from "../../core/store.ts";
import { nextRevision } from "../shared/revision.ts";
import { inRounds } from "../shared/rounds.ts";
import { batchOf, type Swap } from "./batch.ts";
import { bucketOf, type Names } from "./buckets.ts";
import { isPassing, redisError } from "./errors.ts";
import type { RedisIdentity } from "./identity.ts";
import { type RedisLink, textOf } from "./link.ts";
import { decodeRow } from "./row.ts";
import { READ, WRITE } from "./scripts.ts";

// A script hands its finds on through Lua's stack, which ends at 8000: three pairs of index members a row.
const ROWS_A_SCRIPT = 500;

export class RedisRows {
  readonly #link: RedisLink;
  readonly #names: Names;
  readonly #now: () => number;
  readonly #identity: RedisIdentity;

  constructor(parts: { link: RedisLink; names: Names; identity: RedisIdentity; now: () => number }) {
    this.#link = parts.link;
    this.#names = parts.names;
    this.#identity = parts.identity;
    this.#now = parts.now;
  }

  read(keys: readonly string[]): Promise<(Stored | null)[]> {
    return this.#inGroups(keys, keyItself, async (group) => {
      const [rows] = (await this.#readGroup(group)) as [unknown[]];
      const absent = rows.indexOf(null);
      if (absent >= 0) await this.#identity.confirmAbsence(group[absent] as string);
      return group.map((key, index) => this.#decode(key, rows[index]));
    });
  }

  /** The same for loops: the error of a damaged record stands in its place. */
  readEach(keys: readonly string[]): Promise<(Stored | NevertwiceError | null)[]> {
    return this.#inGroups(keys, keyItself, async (group) => {
      const [rows] = (await this.#readGroup(group)) as [unknown[]];
      return group.map((key, index) => decodedOrError(() => this.#decode(key, rows[index])));
    });
  }

  /** Under a name beside its own, in the same slot. Its entry in the index is tidied up like that of an expired record. */
  async quarantine(key: string): Promise<string | null> {
    const [row] = (await this.#readGroup([key])) as [unknown[]];
    if (row[0] === null) return null;
    requireDamaged(key, () => this.#decode(key, row[0]));
    const name = this.#names.record(key);
    const aside = `${name}:quarantine:${this.#now()}`;
    await this.#link.ask("RENAME", name, aside);
    // It may have been given an expiry: what is kept for a person stays until that person removes it.
    await this.#link.ask("PERSIST", aside);
    return aside;
  }

  write(puts: readonly Put[]): Promise<PutResult[]> {
    const swaps = puts.map((put) => ({ put, version: nextRevision(put.expected, this.#now()) }));
    return inRounds(swaps, keyOfSwap, (round) =>
      this.#inGroups(round, keyOfSwap, async (group) => {
        const answers = await this.#writeGroup(group);
        return group.map((swap, index) => this.#result(swap, answers[index]));
      }),
    );
  }

  /** A single server takes all buckets in one script; a cluster one bucket a script. */
  async #inGroups<T, R>(
    items: readonly T[],
    keyOf: (item: T) => string,
    work: (group: readonly T[]) => Promise<R[]>,
  ): Promise<R[]> {
    if (items.length === 0) return [];
    if (!this.#link.wire.cluster && items.length <= ROWS_A_SCRIPT) return work(items);
    const groups = this.#groups(items, keyOf);
    const answers = await Promise.all(groups.map((group) => work(group.map((at) => items[at] as T))));
    const results = new Array<R>(items.length);
    for (const [n, group] of groups.entries()) {
      for (const [index, at] of group.entries()) results[at] = (answers[n] as R[])[index] as R;
    }
    return results;
  }

  /** Places in the batch, cut by bucket on a cluster, and to what a script can take. */
  #groups<T>(items: readonly T[], keyOf: (item: T) => string): number[][] {
    const buckets: number[][] = [];
    for (const [at, item] of items.entries()) {
      const bucket = this.#link.wire.cluster ? bucketOf(keyOf(item)) : 0;
      const places = buckets[bucket];
      if (places === undefined) buckets[bucket] = [at];
      else places.push(at);
    }
    return buckets.filter((places) => places !== undefined).flatMap((places) => chunks(places, ROWS_A_SCRIPT));
  }

  async #readGroup(group: readonly string[]): Promise<unknown[]> {
    const keys = group.map((key) => this.#names.record(key));
    if (!this.#link.wire.cluster || keys.length === 1) return this.#link.run(READ, keys, []);
    return this.#unlessMoving(
      () => this.#link.runOnce(READ, keys, []),
      // One key at a time can always be found, on the one node or on the other.
      async () => [
        (await Promise.all(keys.map((key) => this.#link.run(READ, [key], [])))).map(([row]) => (row as unknown[])[0]),
      ],
    );
  }

  #writeGroup(group: readonly Swap[]): Promise<unknown[]> {
    const { cluster } = this.#link.wire;
    // The empty name stands for the bucket's own: a cluster must not publish every settle to all of its nodes.
    const channels = cluster ? "" : this.#names.channels;
    const batch = batchOf(group, { names: this.#names, channels, ledger: this.#identity.mark });
    const { args } = batch;
    if (!cluster) return this.#link.run(WRITE, batch.keys, args);
    const keys = batch.keys.concat(group.map(({ put }) => this.#names.record(put.record.key)));
    if (group.length === 1) return this.#link.run(WRITE, keys, args);
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

  #result({ put, version }: Swap, answer: unknown): PutResult {
    if (answer === 1) return { ok: true, version };
    return { ok: false, current: this.#decode(put.record.key, answer) };
  }

  #decode(key: string, row: unknown): Stored | null {
    return row === null || row === undefined ? null : decodeRow(key, textOf(row));
  }
}

function keyItself(key: string): string {
  return key;
}

function keyOfSwap({ put }: Swap): string {
  return put.record.key;
}

function chunks<T>(items: T[], size: number): T[][] {
  if (items.length <= size) return [items];
  return Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size));
}
