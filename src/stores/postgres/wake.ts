/**
 * Waiting without polling, at no cost to who does not wait. A NOTIFY in the transaction of a claim or settle would make
 * commits queue up behind one lock (3× slower measured), and one after every settle would double a lone caller's round
 * trips. So it goes the other way round: who waits says so, and who settles a record that somebody waits for says that.
 * Both in transactions of their own, which have nothing to flush and hold the lock for microseconds; gathered while
 * the last one is under way. Everything here is a hint: the engine polls as a backstop.
 */
import { createHash, randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { messageOf } from "../../core/errors.ts";
import {
  clearInterval,
  clearTimeout,
  type RealTimer,
  setImmediate,
  setInterval,
  setTimeout,
} from "../../engine/real-timers.ts";
import { BoundedMap } from "../shared/bounded-map.ts";
import { Watchers } from "../shared/watchers.ts";
import type { Driver, Listening } from "./client/connection.ts";

// A notification holds 8000 bytes: 400 ids of 16 characters and a comma.
const IDS_A_PAYLOAD = 400;
// How long a waiter counts as waiting after it said so, and how often it says so again.
const WANTED_MS = 30_000;
const REPEAT_MS = 2_000;
// More waiters than this are served by polling.
const MOST_WANTED = 10_000;
const PROBE_MS = 3_000;
const [FIRST_RETRY_MS, LAST_RETRY_MS] = [1_000, 60_000];

const POOLED = "this connection goes through a pooler, which delivers no notifications";
const CANNOT_LISTEN = "this client cannot open a connection that listens";
const NOTHING_ARRIVED = `a notification to itself did not arrive within ${PROBE_MS / 1_000} s, as through a pooler in transaction mode`;

type Kind = "wanted" | "moved";

export class Wakes {
  readonly #driver: Driver;
  readonly #channel: string;
  readonly #watchers = new Watchers();
  readonly #announced = new BoundedMap<string, number>(MOST_WANTED);
  readonly #wanted = new Map<string, number>();
  readonly #outgoing: Record<Kind, Set<string>> = { wanted: new Set(), moved: new Set() };
  #listening: Listening | null = null;
  #probe: { readonly token: string; readonly seen: () => void } | null = null;
  #sending = false;
  #retryMs = FIRST_RETRY_MS;
  #retry: RealTimer | null = null;
  #repeat: RealTimer | null = null;
  #stopped = false;
  #started: Promise<void> | null = null;
  /** Why notifications do not arrive. */
  #whyNot = "";

  constructor(driver: Driver, ledgerId: string) {
    this.#driver = driver;
    this.#channel = `nevertwice_${createHash("sha256").update(ledgerId).digest("hex").slice(0, 24)}`;
  }

  /** Whether notifications arrive: known after the probe. */
  get active(): boolean {
    return this.#listening !== null;
  }

  /** Whether anybody said lately that it waits. */
  get waitedFor(): boolean {
    return this.#wanted.size > 0;
  }

  start(): Promise<void> {
    this.#started = this.#start();
    return this.#started;
  }

  /** How waiters are woken, as soon as it is known. */
  async described(): Promise<string> {
    // The listening connection keeps no program alive, and nothing else may be open while this is waited for.
    const awake = setInterval(() => {}, PROBE_MS);
    try {
      await this.#started;
    } finally {
      clearInterval(awake);
    }
    return this.active ? "LISTEN/NOTIFY" : `polling: ${this.#whyNot}`;
  }

  async #start(): Promise<void> {
    try {
      const heard = (payload: string) => this.#heard(payload);
      const listening = await this.#driver.listen({ channel: this.#channel, heard, lost: () => this.#lost() });
      this.#whyNot = listening === null ? CANNOT_LISTEN : listening.direct ? NOTHING_ARRIVED : POOLED;
      if (listening === null) return;
      if (!this.#stopped && listening.direct && (await this.#probed()) && !this.#stopped) {
        this.#listening = listening;
        this.#retryMs = FIRST_RETRY_MS;
        this.#announceAll();
        this.#repeat ??= setInterval(() => this.#announceAll(), WANTED_MS / 2).unref();
      } else await listening.stop();
    } catch (error) {
      this.#whyNot = `this connection could not listen (${messageOf(error)}), and tries again`;
      this.#lost();
    }
  }

  /** A pooler takes LISTEN and delivers nothing: only a notification to oneself shows whether they arrive. */
  async #probed(): Promise<boolean> {
    const token = randomBytes(8).toString("hex");
    let timer: RealTimer | undefined;
    const seen = new Promise<boolean>((done) => {
      this.#probe = { token, seen: () => done(true) };
      timer = setTimeout(() => done(false), PROBE_MS);
      timer.unref();
    });
    await this.#driver.query("SELECT pg_notify($1::text, $2::text)::text AS c0", [this.#channel, `probe ${token}`]);
    const answer = await seen;
    clearTimeout(timer);
    this.#probe = null;
    return answer;
  }

  #lost(): void {
    if (this.#listening !== null) this.#whyNot = "the listening connection was lost, and is opened again";
    this.#listening = null;
    if (this.#stopped || this.#retry !== null) return;
    this.#retry = setTimeout(() => {
      this.#retry = null;
      void this.start();
    }, this.#retryMs);
    this.#retry.unref();
    this.#retryMs = Math.min(LAST_RETRY_MS, this.#retryMs * 2);
  }

  watch(hex: string, wake: () => void): () => void {
    if (this.#stopped || this.#watchers.size >= MOST_WANTED) return () => {};
    const id = idOf(hex);
    const now = performance.now();
    if (this.#listening !== null && now - (this.#announced.get(id) ?? -REPEAT_MS) >= REPEAT_MS) {
      this.#announced.set(id, now);
      this.#send("wanted", id);
    }
    return this.#watchers.add(id, wake);
  }

  /** Who waits long (an idle worker that seldom looks) says so again: to those who came since, and before it is forgotten. */
  #announceAll(): void {
    const now = performance.now();
    for (const id of this.#listening === null ? [] : this.#watchers.keys()) {
      this.#announced.set(id, now);
      this.#send("wanted", id);
    }
  }

  /** The record's holder let go of it, and that is committed. */
  moved(hex: string): void {
    const id = idOf(hex);
    if (this.#wanted.delete(id)) this.#send("moved", id);
  }

  /** The same, to be said in a transaction of the caller's when that commits; null: nobody waits for any of these. */
  movedWithin(hexes: readonly string[]): { readonly text: string; readonly values: readonly string[] } | null {
    const ids = [...new Set(hexes.map(idOf))].filter((id) => this.#wanted.delete(id)).slice(0, IDS_A_PAYLOAD);
    if (ids.length === 0) return null;
    const text = "SELECT pg_notify($1::text, $2::text)::text AS c0";
    return { text, values: [this.#channel, `moved ${ids.join(",")}`] };
  }

  #heard(payload: string): void {
    const [kind, list = ""] = payload.split(" ");
    // Somebody begins to listen: it may be us.
    if (kind === "probe" && list === this.#probe?.token) this.#probe.seen();
    else if (kind === "probe") this.#announceAll();
    const ids = list.split(",");
    if (kind === "wanted") this.#note(ids);
    if (kind !== "moved") return;
    for (const id of ids) {
      this.#announced.delete(id);
      this.#watchers.wake(id);
    }
  }

  #note(ids: readonly string[]): void {
    const now = performance.now();
    // In the order they came: the oldest stand first.
    for (const [id, at] of this.#wanted) {
      if (now - at < WANTED_MS && this.#wanted.size < MOST_WANTED) break;
      this.#wanted.delete(id);
    }
    for (const id of ids) {
      this.#wanted.delete(id);
      this.#wanted.set(id, now);
    }
  }

  #send(kind: Kind, id: string): void {
    this.#outgoing[kind].add(id);
    if (this.#sending) return;
    this.#sending = true;
    setImmediate(() => void this.#flush());
  }

  async #flush(): Promise<void> {
    for (let payloads = this.#gather(); payloads.length > 0 && !this.#stopped; payloads = this.#gather()) {
      const calls = payloads.map((_, i) => `pg_notify($1::text, $${i + 2}::text)::text AS c${i}`);
      // A hint that is lost is made up for by polling.
      await this.#driver.query(`SELECT ${calls.join(", ")}`, [this.#channel, ...payloads]).catch(() => {});
    }
    this.#sending = false;
  }

  #gather(): string[] {
    return (["moved", "wanted"] as const).flatMap((kind) => {
      const ids = [...this.#outgoing[kind]].slice(0, IDS_A_PAYLOAD);
      for (const id of ids) this.#outgoing[kind].delete(id);
      return ids.length === 0 ? [] : [`${kind} ${ids.join(",")}`];
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    if (this.#repeat !== null) clearInterval(this.#repeat);
    const listening = this.#listening;
    this.#listening = null;
    await listening?.stop();
  }
}

/** The first 64 bits: a wrong guess wakes somebody for nothing. */
function idOf(hex: string): string {
  return hex.slice(0, 16);
}
