/** The body of a request: bounded in bytes and time, and JSON that has one meaning. */
import type { IncomingMessage } from "node:http";
import { readJsonBytes } from "../core/strict-json.ts";
import { clearTimeout, setTimeout } from "../engine/real-timers.ts";
import { type Refused, tooLarge } from "./door.ts";

export interface BodyLimits {
  /** Of one body. */
  readonly bytes: number;
  /** Of all bodies together that are held. */
  readonly allBytes: number;
  /** A body has to be there by then. */
  readonly ms: number;
}

/** A request that is answered with an error. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly refused: Refused;

  constructor(refused: Refused) {
    super(refused.message);
    this.refused = refused;
  }
}

/** The bytes that all requests hold together. */
export class HeldBytes {
  #held = 0;

  get held(): number {
    return this.#held;
  }

  add(bytes: number): void {
    this.#held += bytes;
  }
}

export interface Body {
  readonly value: unknown;
  /** A number in it that JavaScript cannot hold exactly; null: there is none. */
  readonly inexact: string | null;
  /** When the request has been answered. */
  free(): void;
}

export async function readBody(request: IncomingMessage, limits: BodyLimits, all: HeldBytes): Promise<Body> {
  let length = 0;
  const free = () => {
    all.add(-length);
    length = 0;
  };
  try {
    const bytes = await bytesOf(request, limits, (more) => {
      length += more;
      all.add(more);
      if (length > limits.bytes) return tooLarge(limits.bytes);
      return all.held > limits.allBytes ? BUSY : null;
    });
    const read = readJsonBytes(bytes);
    if (read.ok) return { value: read.value, inexact: read.inexact, free };
    throw new Refusal({
      status: 400,
      code: "INVALID_INPUT",
      message: `the body cannot be read: ${read.problem}. Send one JSON object. Nothing was changed.`,
    });
  } catch (error) {
    free();
    throw error;
  }
}

export const BUSY: Refused = {
  status: 503,
  code: "BUSY",
  message: "too many requests are under way. Nothing was changed: ask again in a moment.",
};

const SLOW: Refused = {
  status: 408,
  code: "TIMEOUT",
  message: "the body did not arrive in time. Nothing was changed.",
};

function bytesOf(
  request: IncomingMessage,
  { ms }: BodyLimits,
  arrived: (bytes: number) => Refused | null,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const end = (refused: Refused | null) => {
      clearTimeout(timer);
      request.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose);
      if (refused === null) resolve(Buffer.concat(chunks));
      else reject(new Refusal(refused));
    };
    const timer = setTimeout(() => end(SLOW), ms);
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      const refused = arrived(chunk.length);
      if (refused !== null) end(refused);
    };
    const onEnd = () => end(null);
    const onClose = () => end(SLOW);
    request.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose);
  });
}
