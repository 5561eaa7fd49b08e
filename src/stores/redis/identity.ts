/**
 * Which ledger this is. A Redis that was flushed, swapped, evicted or replaced by an empty one answers like a ledger in which
 * nothing was done yet, and every effect could happen again. So each bucket's index has a member that names the ledger, and the
 * script that writes looks for it first: a bucket that lost its data refuses every write, with no moment in between. The mark is
 * part of the index and not a key of its own, because it must go wherever the index goes: with its slot to another node, and
 * away with it when the server evicts it.
 *
 * Lists, counts and sweeps read the marks of all buckets with each request: a ledger that was lost is not counted as an empty one.
 *
 * One key of the whole ledger keeps the name as well. A program that starts compares it with the marks, and so notices that a
 * part was lost while it was not running: one node of a cluster, one evicted index.
 */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { bucketOf, type Names } from "./buckets.ts";
import { ledgerLost } from "./errors.ts";
import { type RedisLink, textOf } from "./link.ts";
import { MARK_SCORE } from "./members.ts";
import { LEDGER_NAME, MARK, MARKS, NAME_LEDGER } from "./scripts.ts";

/** What a person sets the name to, to go on with what is there. */
export const ADOPT = "adopt";
const MAKING = "making:";
const ADOPTING = "adopting:";
const TRIES = 10;
// An absent record is what a lost ledger looks like: then the mark is read, at most this often.
const READ_EVERY_MS = 1_000;

/** What a program that starts has to do, by the ledger's name ('': none) and the marks of its buckets ('': none). */
export type Beginning =
  | { readonly kind: "known"; readonly id: string }
  /** Set the name to `name`, where it is still the one that was read; then read again. */
  | { readonly kind: "name"; readonly name: string }
  /** Mark these buckets with the id; then the name is the id. */
  | { readonly kind: "mark"; readonly id: string; readonly buckets: readonly number[] }
  | { readonly kind: "lost"; readonly buckets: readonly number[] };

export function beginningOf(name: string, marks: readonly string[], fresh: () => string): Beginning {
  const without = (id: string) => marks.flatMap((mark, bucket) => (mark === id ? [] : [bucket]));
  if (name === ADOPT) return { kind: "name", name: `${ADOPTING}${fresh()}` };
  if (name.startsWith(ADOPTING)) {
    const id = name.slice(ADOPTING.length);
    return { kind: "mark", id, buckets: without(id) };
  }
  if (name.startsWith(MAKING)) {
    const id = name.slice(MAKING.length);
    const unmarked = without(id);
    const others = unmarked.filter((bucket) => marks[bucket] !== "");
    return others.length > 0 ? { kind: "lost", buckets: unmarked } : { kind: "mark", id, buckets: unmarked };
  }
  const [first = ""] = marks;
  if (name === "") {
    // A new ledger, or one of a release without marks; or nothing but the name is missing.
    if (without(first).length === 0) return { kind: "name", name: first === "" ? `${MAKING}${fresh()}` : first };
    return { kind: "lost", buckets: without(marks.find((mark) => mark !== "") ?? "") };
  }
  const lost = without(name);
  return lost.length === 0 ? { kind: "known", id: name } : { kind: "lost", buckets: lost };
}

export class RedisIdentity {
  readonly #link: RedisLink;
  readonly #names: Names;
  /** The member that each index has. */
  readonly mark: string;
  #readAt = performance.now();

  private constructor(link: RedisLink, names: Names, mark: string) {
    this.#link = link;
    this.#names = names;
    this.mark = mark;
  }

  /** Reads the ledger's name, or gives it one; rejects where a part of the ledger was lost. */
  static async establish(link: RedisLink, names: Names): Promise<RedisIdentity> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const name = await nameOf(link, names);
      const marks = await marksOf(link, names.indexes);
      // Another program may be at it: only a name that stays the same around the marks says what they should be.
      if (name !== (await nameOf(link, names))) continue;
      const next = beginningOf(name, marks, () => randomUUID().replaceAll("-", ""));
      if (next.kind === "known") return new RedisIdentity(link, names, next.id);
      if (next.kind === "lost")
        throw ledgerLost(link.where, next.buckets.map((b) => names.index(b)).join(", "), names.identity);
      if (next.kind === "mark")
        await marking(
          link,
          next.buckets.map((bucket) => names.index(bucket)),
          next.id,
        );
      await link.run(NAME_LEDGER, [names.identity], [name, next.kind === "mark" ? next.id : next.name]);
    }
    throw ledgerLost(link.where, names.identity, names.identity);
  }

  /** These records are absent, as all would be in a ledger that was lost. */
  async confirmAbsence(key: string): Promise<void> {
    const now = performance.now();
    if (now - this.#readAt < READ_EVERY_MS) return;
    this.#readAt = now;
    const index = this.#names.index(bucketOf(key));
    const [mark] = await marksOf(this.#link, [index]);
    if (mark === this.mark) return;
    this.#readAt = 0;
    throw ledgerLost(this.#link.where, index, this.#names.identity);
  }

  /** All buckets: for what says something about the ledger as a whole, which a lost one would answer as empty. */
  async checkAll(): Promise<void> {
    const marks = await marksOf(this.#link, this.#names.indexes);
    const lost = this.#names.indexes.filter((_, bucket) => marks[bucket] !== this.mark);
    if (lost.length > 0) throw ledgerLost(this.#link.where, lost.join(", "), this.#names.identity);
  }
}

async function nameOf(link: RedisLink, names: Names): Promise<string> {
  const [name] = await link.run(LEDGER_NAME, [names.identity], []);
  return textOf(name);
}

async function marksOf(link: RedisLink, indexes: readonly string[]): Promise<string[]> {
  const args = [String(MARK_SCORE)];
  if (!link.wire.cluster) return (await link.run(MARKS, indexes, args)).map(textOf);
  return Promise.all(indexes.map(async (index) => textOf((await link.run(MARKS, [index], args))[0])));
}

async function marking(link: RedisLink, indexes: readonly string[], id: string): Promise<void> {
  if (indexes.length === 0) return;
  const args = [String(MARK_SCORE), id];
  if (!link.wire.cluster) await link.run(MARK, indexes, args);
  else await Promise.all(indexes.map((index) => link.run(MARK, [index], args)));
}
