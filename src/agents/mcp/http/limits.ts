/** How much the HTTP proxy holds in memory at a time, and for how long it waits for what is still to come. */
import type { IncomingMessage } from "node:http";
import { clearTimeout, setTimeout } from "../../../engine/real-timers.ts";

export interface HttpLimits {
  /** Of one request or one held answer. */
  readonly bodyBytes: number;
  /** Of all requests together that are being read or are under way. */
  readonly requestBytes: number;
  /** Of all answers together that are held until the ledger knows them. */
  readonly answerBytes: number;
  /** A request's body has to be there by then. */
  readonly bodyMs: number;
  /** And may not stop for longer than this. */
  readonly idleMs: number;
  /** An answer's body may not stop for longer than this once its head is there; event streams may. */
  readonly answerIdleMs: number;
  /** A client that does not read its answer is cut off after this. */
  readonly readerMs: number;
}

const MiB = 1024 * 1024;

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  bodyBytes: 64 * MiB,
  requestBytes: 256 * MiB,
  answerBytes: 256 * MiB,
  bodyMs: 60_000,
  idleMs: 10_000,
  answerIdleMs: 600_000,
  readerMs: 60_000,
};

/** Bytes that are held by all exchanges together. */
export class ByteBudget {
  readonly #most: number;
  #used = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get used(): number {
    return this.#used;
  }

  account(): Account {
    let held = 0;
    const set = (bytes: number): boolean => {
      const used = this.#used - held + bytes;
      if (bytes > held && used > this.#most) return false;
      this.#used = used;
      held = bytes;
      return true;
    };
    return { set, free: () => void set(0) };
  }
}

/** What one exchange holds. */
export interface Account {
  /** How much it is now; false: there is no room for that. */
  set(bytes: number): boolean;
  free(): void;
}

/** A body that is not read to its end; `status` is what its sender is told. */
export class BodyRefused extends Error {
  override readonly name = "BodyRefused";
  readonly status: 408 | 413 | 503;

  constructor(status: 408 | 413 | 503, message: string) {
    super(message);
    this.status = status;
  }
}

export interface BodyLimits {
  readonly bytes: number;
  readonly idleMs: number;
  readonly totalMs?: number;
}

export function readBody(message: IncomingMessage, limits: BodyLimits, account?: Account): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const tooSlow = () => end(new BodyRefused(408, "the body did not arrive in time"));
    const timers = [setTimeout(tooSlow, limits.idleMs)];
    if (limits.totalMs !== undefined) timers.push(setTimeout(tooSlow, limits.totalMs));
    const end = (error: Error | null) => {
      for (const timer of timers) clearTimeout(timer);
      message.off("data", onData).off("end", onEnd).off("error", end).off("close", onClose);
      if (error === null) return resolve(Buffer.concat(chunks));
      chunks.length = 0;
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      timers[0]?.refresh();
      chunks.push(chunk);
      length += chunk.length;
      if (length > limits.bytes) end(new BodyRefused(413, `the body is longer than ${limits.bytes} bytes`));
      else if (account?.set(length) === false) end(new BodyRefused(503, "too many bytes are held at the moment"));
    };
    const onEnd = () => end(null);
    const onClose = () => end(new Error("the connection was closed before the body was complete"));
    message.on("data", onData).on("end", onEnd).on("error", end).on("close", onClose);
  });
}
