/**
 * A ledger in a bucket: one object per record, compared and swapped by conditional PUT. Many hosts, no server of your
 * own, the latency of an object store. An endpoint that ignores the conditions is found out before the first record is
 * written, and refused.
 */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { isDeepStrictEqual } from "node:util";
import { type DamagedRecord, describeDamage, isDamagedRecord, requireDamaged } from "../../core/damaged-record.ts";
import { configError, NevertwiceError } from "../../core/errors.ts";
import { refuseUnknownOptions } from "../../core/options.ts";
import type { Instant, LedgerRecord } from "../../core/record.ts";
import type {
  Finding,
  LeaseQuery,
  LedgerStats,
  ListQuery,
  Page,
  Put,
  PutResult,
  Quarantined,
  StatsQuery,
  Store,
  Stored,
  StoreTraits,
  SweepQuery,
} from "../../core/store.ts";
import { setTimeout } from "../../engine/real-timers.ts";
import { SweepPlaces } from "../shared/bounded-map.ts";
import { refuseClosed } from "../shared/closed.ts";
import { Opening } from "../shared/opening.ts";
import { firstRevision } from "../shared/revision.ts";
import { inRounds } from "../shared/rounds.ts";
import { checkLimit, claimed, dueRows, PageScan, StatsScan, sweepableRows } from "../shared/scan.ts";
import { type Condition, type FetchLike, S3Client } from "./client.ts";
import { S3Clock, SET_THE_CLOCK } from "./clock.ts";
import { S3Identity } from "./identity.ts";
import { credentialsFrom, S3_TRAITS, type S3Place, type S3PlaceOptions, s3Name, s3Place } from "./location.ts";
import { decodeBody, encodeBody, leaseHere, leaseLeft, type S3Body } from "./object.ts";
import { selfTest } from "./self-test.ts";
import type { S3Credentials } from "./signature.ts";

export type { S3Credentials } from "./signature.ts";

export interface S3StoreOptions extends S3PlaceOptions {
  /** From AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY unless given. */
  readonly credentials?: S3Credentials | (() => Promise<S3Credentials> | S3Credentials);
  /** A fetch that signs by itself, such as that of aws4fetch's client. */
  readonly fetch?: FetchLike;
  /** How long one request may take. */
  readonly timeoutMs?: number;
  readonly clock?: { instant(): Instant };
}

// An object store takes many requests at once; a Node process need not open more sockets than this for its ledger.
const AT_ONCE = 16;
const DEFAULT_TIMEOUT_MS = 10_000;
// Listing reads every object that changed: beyond this many a database is the better ledger.
const MOST_LISTED = 50_000;
const KNOWN_OBJECTS = 50_000;
// Pages of a thousand names that one background pass looks at.
const PAGES_A_SWEEP = 5;

interface ListedKey {
  readonly key: string;
  readonly etag: string;
}

const OPTIONS = ["url", "region", "endpoint", "credentials", "fetch", "timeoutMs", "clock"];

export function s3Store(options: S3StoreOptions): Store;
/** @internal With a clock that was read before the store was loaded. */
export function s3Store(options: S3StoreOptions, clock: S3Clock): Store;
export function s3Store(options: S3StoreOptions, clock = new S3Clock()): Store {
  if (typeof options !== "object" || options === null)
    throw configError('s3Store: give it options: s3Store({ url: "s3://bucket/prefix" }).');
  refuseUnknownOptions("s3Store", options, OPTIONS);
  return new S3Store(options, s3Place(options, process.env), clock);
}

/** An object as it was last seen. */
interface Seen {
  readonly etag: string;
  readonly body: S3Body;
  /** As it is for us: the lease on our clock. */
  readonly stored: Stored | null;
}

class S3Store implements Store {
  readonly name: string;
  readonly traits: StoreTraits = S3_TRAITS;
  readonly #place: S3Place;
  readonly #client: S3Client;
  readonly #clock: { instant(): Instant } | undefined;
  readonly #serverClock: S3Clock;
  readonly #identity: S3Identity;
  readonly #sweptTo = new SweepPlaces<string>();
  readonly #seen = new Map<string, Seen>();
  readonly #opening = new Opening(() => this.#begin());
  #closed = false;

  constructor(options: S3StoreOptions, place: S3Place, clock: S3Clock) {
    this.#place = place;
    this.#serverClock = clock;
    this.name = s3Name(place);
    this.#clock = options.clock;
    this.#client = new S3Client({
      place,
      credentials: options.fetch === undefined ? credentialsOf(options.credentials) : null,
      fetch: options.fetch ?? ((url, init) => fetch(url, init)),
      timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      random: Math.random,
      pause: (ms) => new Promise((done) => setTimeout(done, ms)),
      clock: this.#serverClock,
    });
    this.#identity = new S3Identity({
      client: this.#client,
      name: `${place.prefix}ledger-id`,
      where: this.name,
      monotonic: () => performance.now(),
    });
  }

  now(): number {
    return this.instant().now;
  }

  instant(): Instant {
    return (this.#clock ?? this.#serverClock).instant();
  }

  /** Any policy may be guarded; but the first record must not be stamped before the server's time is known. */
  async refuses(): Promise<null> {
    await this.#open();
    return null;
  }

  async read(keys: readonly string[]): Promise<(Stored | null)[]> {
    await this.#openChecked();
    return pooled(keys, async (key) => (await this.#look(key))?.stored ?? null);
  }

  async write(puts: readonly Put[]): Promise<PutResult[]> {
    if (puts.length === 0) return [];
    await this.#openChecked();
    return inRounds(
      puts,
      ({ record }) => record.key,
      (round) => pooled(round, (put) => this.#swap(put)),
    );
  }

  async lease(query: LeaseQuery): Promise<Stored[]> {
    await this.#openChecked();
    const at = this.instant();
    const due = dueRows(await this.#all({ damaged: (found) => query.damaged?.(found) }), query, at);
    const leased = await pooled(due, async ({ record, version }): Promise<Stored | null> => {
      const claim = claimed(record, query, at);
      const result = claim === null ? null : await this.#swap({ record: claim, expected: version });
      return claim !== null && result?.ok ? { record: claim, version: result.version } : null;
    });
    return leased.filter((one) => one !== null);
  }

  async list(query: ListQuery): Promise<Page> {
    await this.#openChecked();
    const damaged: DamagedRecord[] = [];
    const rows = await this.#all({ keyPrefix: query.keyPrefix ?? "", damaged: (found) => damaged.push(found) });
    const scan = new PageScan<Stored>(query, this.instant());
    for (const row of rows) scan.add(row);
    const page = scan.page();
    // Where a damaged one would stand is not known: they come with the first page.
    return damaged.length === 0 || query.cursor !== undefined ? page : { ...page, damaged };
  }

  async stats(query: StatsQuery = {}): Promise<LedgerStats> {
    await this.#openChecked();
    const scan = new StatsScan(query, this.instant());
    for (const row of await this.#all()) scan.add(row);
    return scan.stats();
  }

  /** Page by page, so that a bucket with more records than can be listed at once is swept too. */
  async sweep(query: SweepQuery): Promise<number> {
    const { conditionalDelete } = await this.#openChecked();
    checkLimit(query.limit, "sweep");
    const { tenant, limit, thorough = false } = query;
    let after = thorough ? null : (this.#sweptTo.get(tenant) ?? null);
    // Kept only where the pass ends well: a bucket that no longer knows the position is swept from its beginning.
    this.#sweptTo.delete(tenant);
    let removed = 0;
    for (let pages = 1; ; pages += 1) {
      const { keys, next } = await this.#names("", after);
      const over = sweepableRows(await this.#fetch(keys), { ...query, limit: limit - removed }, this.now());
      const gone = await pooled(over, ({ record, version }) => this.#remove(record.key, version, conditionalDelete));
      removed += gone.filter(Boolean).length;
      // A page that the limit cut short is looked at again.
      if (removed < limit) after = next;
      if (removed < limit && next === null) return removed;
      if (removed < limit && (thorough || pages < PAGES_A_SWEEP)) continue;
      if (after !== null) this.#sweptTo.set(tenant, after);
      query.unfinished?.();
      return removed;
    }
  }

  async inspect(): Promise<readonly Finding[]> {
    const { conditionalDelete } = await this.#openChecked();
    return [
      { name: "bucket", value: this.name, ok: true },
      { name: "endpoint", value: this.#place.base, ok: true },
      { name: "conditional writes", value: "honoured: If-None-Match and If-Match", ok: true },
      {
        name: "conditional deletes",
        value: conditionalDelete
          ? "honoured: swept records are removed"
          : "not known: a swept record leaves a small marker",
        ok: true,
      },
      this.#clockFinding(),
    ];
  }

  #clockFinding(): Finding {
    const skew = this.#serverClock.describeSkew();
    if (skew === null) return { name: "clock", value: "agrees with the object store's", ok: true };
    return {
      name: "clock",
      value: `${skew}; requests and records carry the object store's time`,
      ok: false,
      advice: `${SET_THE_CLOCK}: what the program itself derives from the host's clock is off`,
    };
  }

  async quarantine(key: string): Promise<Quarantined | null> {
    const { conditionalDelete } = await this.#openChecked();
    const name = this.#nameOf(key);
    const object = await this.#client.get(name);
    if (object === null) return null;
    requireDamaged(key, () => decodeBody(object.text, key, this.name));
    const version = firstRevision(this.#serverClock.now());
    const aside = `${this.#place.prefix}quarantine/${encodeURIComponent(key)}-${version}`;
    await this.#client.put(aside, object.text, { ifNoneMatch: "*" });
    const body: S3Body = { kind: "gone", version };
    const answer = await this.#client.put(name, encodeBody(body), { ifMatch: object.etag });
    if (answer.kind === "refused")
      throw new NevertwiceError("STORE_UNAVAILABLE", `the object of ${key} changed meanwhile. Look again.`, { key });
    this.#remember(key, answer.etag, body, 0);
    if (conditionalDelete && (await this.#client.remove(name, answer.etag))) this.#seen.delete(key);
    return { key, keptIn: `the object ${aside}` };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#seen.clear();
  }

  // ---- one object ----

  async #look(key: string): Promise<Seen | null> {
    const name = this.#nameOf(key);
    const object = await this.#client.get(name);
    if (object === null) {
      this.#seen.delete(key);
      return null;
    }
    const known = this.#seen.get(key);
    // Unchanged since we last saw it: its lease goes on running on our clock from then.
    if (known !== undefined && known.etag === object.etag) return known;
    const body = decodeBody(object.text, key, this.name);
    return this.#remember(key, object.etag, body, object.ageMs);
  }

  #remember(key: string, etag: string, body: S3Body, ageMs: number): Seen {
    const stored =
      body.kind === "gone"
        ? null
        : Object.freeze({
            record: Object.freeze({ ...leaseHere(body, ageMs, this.instant()) }),
            version: body.version,
          });
    const seen: Seen = { etag, body, stored };
    this.#seen.delete(key);
    this.#seen.set(key, seen);
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > KNOWN_OBJECTS && oldest !== undefined) this.#seen.delete(oldest);
    return seen;
  }

  async #swap({ record, expected }: Put): Promise<PutResult> {
    const known = this.#seen.get(record.key);
    const blind = expected === null && known === undefined;
    const current = blind
      ? null
      : known?.body.version === expected || expected === null
        ? known
        : await this.#look(record.key);
    if ((current?.stored?.version ?? null) !== expected) return this.#conflict(record.key);
    const version = current ? current.body.version + 1 : firstRevision(this.#serverClock.now());
    const condition: Condition = current ? { ifMatch: current.etag } : { ifNoneMatch: "*" };
    return this.#put(record, version, condition);
  }

  async #put(record: LedgerRecord, version: number, condition: Condition): Promise<PutResult> {
    const leaseMs = leaseLeft(record, this.instant());
    // A copy: whoever handed the record in can't change what we take the object to hold.
    const body: S3Body = { kind: "record", version, record: { ...record }, leaseMs };
    const answer = await this.#client.put(this.#nameOf(record.key), encodeBody(body), condition);
    if (answer.kind === "written") {
      this.#remember(record.key, answer.etag, body, 0);
      return { ok: true, version };
    }
    // F33: refused after a try whose reply was lost: the object that is in the way may be ours.
    const found = await this.#look(record.key);
    if (answer.retried && found !== null && isDeepStrictEqual(found.body, body)) return { ok: true, version };
    // What was in the way is gone, or is a marker of a swept record: then the name is free after all.
    if ("ifNoneMatch" in condition && found !== null && found.stored === null)
      return this.#put(record, found.body.version + 1, { ifMatch: found.etag });
    return { ok: false, current: found?.stored ?? null };
  }

  async #conflict(key: string): Promise<PutResult> {
    return { ok: false, current: (await this.#look(key))?.stored ?? null };
  }

  /** First a marker in its place, by compare-and-swap: a claim that comes at the same moment wins or is seen. */
  async #remove(key: string, version: number, conditionalDelete: boolean): Promise<boolean> {
    const known = this.#seen.get(key);
    if (known?.stored?.version !== version) return false;
    const name = this.#nameOf(key);
    const body: S3Body = { kind: "gone", version: version + 1 };
    const answer = await this.#client.put(name, encodeBody(body), { ifMatch: known.etag });
    if (answer.kind === "refused") return false;
    this.#remember(key, answer.etag, body, 0);
    if (conditionalDelete && (await this.#client.remove(name, answer.etag))) this.#seen.delete(key);
    return true;
  }

  // ---- all of them ----

  /** Every record. */
  async #all({ keyPrefix = "", damaged = (_: DamagedRecord) => {} } = {}): Promise<Stored[]> {
    const keys: ListedKey[] = [];
    let after: string | null = null;
    do {
      const page: { keys: ListedKey[]; next: string | null } = await this.#names(keyPrefix, after);
      for (const key of page.keys) keys.push(key);
      after = page.next;
      if (keys.length > MOST_LISTED)
        throw configError(
          `${this.name} holds more than ${MOST_LISTED} records, and an object store can only be listed by reading them. Read and write by key and sweeps still work; for lists and workers of this size keep the ledger in Postgres.`,
        );
    } while (after !== null);
    return this.#fetch(keys, damaged);
  }

  async #names(keyPrefix: string, after: string | null): Promise<{ keys: ListedKey[]; next: string | null }> {
    const records = `${this.#place.prefix}records/`;
    const { items, next } = await this.#client.list(records + encodeURIComponent(keyPrefix), after);
    return {
      keys: items.map(({ name, etag }) => ({ key: decodeURIComponent(name.slice(records.length)), etag })),
      next,
    };
  }

  /** Only objects that changed since they were last seen are fetched. */
  async #fetch(keys: readonly ListedKey[], damaged = (_: DamagedRecord) => {}): Promise<Stored[]> {
    const seen = await pooled(keys, async ({ key, etag }) => {
      const known = this.#seen.get(key);
      if (known?.etag === etag) return known;
      return this.#look(key).catch((error: unknown) => {
        if (!isDamagedRecord(error)) throw error;
        damaged(describeDamage(error));
        return null;
      });
    });
    return seen.flatMap((one) => one?.stored ?? []);
  }

  #nameOf(key: string): string {
    // A URL takes "." and ".." for steps in its path, and callers may ask for any key.
    const name = encodeURIComponent(key).replace(/^\.{1,2}$/, (dots) => "%2E".repeat(dots.length));
    return `${this.#place.prefix}records/${name}`;
  }

  // ---- opening ----

  #open(): Promise<{ conditionalDelete: boolean }> {
    refuseClosed(this.#closed, this.name, "Open it again with s3Store({ url }).");
    return this.#opening.get();
  }

  /** In the ledger that this program began with: see stores/s3/identity.ts. */
  async #openChecked(): Promise<{ conditionalDelete: boolean }> {
    const opened = await this.#open();
    await this.#identity.check();
    return opened;
  }

  async #begin(): Promise<{ conditionalDelete: boolean }> {
    const passed = await selfTest(this.#client, `${this.#place.prefix}self-test/${randomUUID()}`, this.name);
    await this.#identity.establish();
    return passed;
  }
}

function credentialsOf(given: S3StoreOptions["credentials"]): () => Promise<S3Credentials> {
  if (typeof given === "function") return async () => whole(await given());
  const fixed = whole(given ?? credentialsFrom(process.env));
  return async () => fixed;
}

/** Signed with half of them, a request is refused as if the other half were wrong. */
function whole(given: S3Credentials): S3Credentials {
  const missing = (["accessKeyId", "secretAccessKey"] as const).find((name) => !given?.[name]);
  if (missing === undefined) return given;
  throw configError(
    `s3Store: the credentials have no ${missing}. Give { accessKeyId, secretAccessKey, sessionToken? }.`,
  );
}

/** A bounded number at once, results in order. All of them are carried out; then the first error is thrown. */
async function pooled<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const errors: unknown[] = [];
  let next = 0;
  const lane = async () => {
    while (next < items.length) {
      const mine = next;
      next += 1;
      try {
        results[mine] = await work(items[mine] as T);
      } catch (error) {
        // A damaged object is no reason not to write the others; a server that is down is.
        errors.push(error);
        if (!isDamagedRecord(error)) next = items.length;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, lane));
  if (errors.length > 0) throw errors.find((error) => !isDamagedRecord(error)) ?? errors[0];
  return results;
}
