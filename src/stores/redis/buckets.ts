/**
 * Where a record lies. The ledger is cut into 16 buckets, each in one hash slot: a record and the index that lists it
 * share a slot, so one script changes both or neither, on one server and on a cluster alike.
 *
 * Why 16: their slots stand evenly over the 16384, so a cluster of up to 16 primaries shares the work, and a batch of 128
 * rows is still 8 rows a script. More buckets mean smaller scripts; fewer mean that a slot under way to another node
 * takes more of the ledger with it. The number is part of the layout: changing it would hide every record.
 */
import { codeAt } from "../../core/key/code-at.ts";
export const BUCKETS = 16;

/** Of keys, indexes and rows together. A release that changes any of them counts on. */
export const LAYOUT_NUMBER = "1";

const SLOTS = 16_384;

/** As Redis Cluster does it: CRC-16/XMODEM. */
export function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}

/** For each sixteenth of the slots the first of "0", "1", … "z", "10", … that falls into it. */
export const TAGS: readonly string[] = evenTags();

function evenTags(): string[] {
  const tags: string[] = [];
  for (let left = BUCKETS, candidate = 0; left > 0; candidate += 1) {
    const tag = candidate.toString(36);
    const bucket = Math.floor(slotOf(tag) / (SLOTS / BUCKETS));
    if (tags[bucket] !== undefined) continue;
    tags[bucket] = tag;
    left -= 1;
  }
  return tags;
}

/** FNV-1a. A key is a digest already; keys of tests and imports are not, and must spread as well. */
export function bucketOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i += 1) hash = Math.imul(hash ^ codeAt(key, i), 0x01000193);
  return (hash ^ (hash >>> 16)) & (BUCKETS - 1);
}

/** The names of a ledger's keys: per bucket a sorted set, the index, and a string per record. */
export class Names {
  readonly indexes: readonly string[];
  /** What the channels of a whole server are called after; on a cluster each bucket has its own, called after its index. */
  readonly channels: string;
  /** Says how the ledger is laid out, for releases that lay it out otherwise. */
  readonly layout: string;
  /** Names the ledger, beside the marks of its indexes. */
  readonly identity: string;

  constructor(prefix: string) {
    this.layout = `${prefix}:layout`;
    this.identity = `${prefix}:ledger-id`;
    this.indexes = TAGS.map((tag) => `${prefix}:{${tag}}`);
    this.channels = prefix;
  }

  index(bucket: number): string {
    return this.indexes[bucket] as string;
  }

  record(key: string): string {
    return `${this.index(bucketOf(key))}:${key}`;
  }
}
