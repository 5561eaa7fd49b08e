/**
 * The object store's time. Requests must be signed with it (Amazon refuses a difference of 15 minutes), and what is stored
 * as wall time must mean the same on all hosts. Every answer carries the server's `Date`, in whole seconds, set between our
 * sending and our receiving: two bounds for its distance from this process's monotonic clock. The estimate starts at this
 * host's wall clock and moves only when a bound pushes it. From the first answer on, a host clock that is wrong, or is set
 * while the program runs, changes nothing; after a suspend the next answer corrects it.
 */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import type { Instant } from "../../core/record.ts";
import { wallNow } from "../../engine/real-timers.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** Below this a difference is not worth a sentence: HTTP dates are whole seconds, and answers may be slow. */
const NAMED_FROM_MS = MINUTE_MS;

export interface HostClock {
  /** Epoch ms. */
  wall(): number;
  monotonic(): number;
}

// One steady clock per process, and a name for it that no other process has.
const EPOCH = `s3-${randomUUID().slice(0, 8)}`;
const THIS_HOST: HostClock = { wall: () => wallNow(), monotonic: () => performance.now() };

export class S3Clock {
  readonly #host: HostClock;
  /** Server time minus monotonic time; null until the first answer. */
  #offset: number | null = null;

  constructor(host: HostClock = THIS_HOST) {
    this.#host = host;
  }

  /** Epoch ms by the server's clock; by this host's until the server has answered. */
  now(): number {
    return this.#offset === null ? this.#host.wall() : Math.floor(this.#host.monotonic() + this.#offset);
  }

  monotonic(): number {
    return this.#host.monotonic();
  }

  instant(): Instant {
    return { now: this.now(), steady: this.monotonic(), epoch: EPOCH };
  }

  /** `dateMs`: the `Date` of an answer. `sentAt` and `receivedAt` by `monotonic()`. */
  observe(dateMs: number, sentAt: number, receivedAt: number): void {
    const [least, most] = [dateMs - receivedAt, dateMs + SECOND_MS - sentAt];
    const before = this.#offset ?? this.#host.wall() - this.#host.monotonic();
    this.#offset = Math.min(Math.max(before, least), most);
  }

  /** How far this host's clock is ahead of the server's; negative: behind. 0 until the server has answered. */
  aheadMs(): number {
    return this.#offset === null ? 0 : this.#host.wall() - this.now();
  }

  /** Null: the clocks agree, or the server's is not known. */
  describeSkew(): string | null {
    const ahead = this.aheadMs();
    if (Math.abs(ahead) < NAMED_FROM_MS) return null;
    return `this host's clock is ${minutes(Math.abs(ahead))} ${ahead > 0 ? "ahead of" : "behind"} the object store's`;
  }
}

function minutes(ms: number): string {
  const all = Math.round(ms / MINUTE_MS);
  const [hours, rest] = [Math.floor(all / 60), all % 60];
  if (hours === 0) return `${rest} min`;
  return rest === 0 ? `${hours} h` : `${hours} h ${rest} min`;
}

export const SET_THE_CLOCK = "Set the host's clock by NTP (chronyd, or timedatectl set-ntp true)";
