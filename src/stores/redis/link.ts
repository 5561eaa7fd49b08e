/**
 * One way to the server for everything the store asks: a script by its digest (its text where the server does not know it
 * yet), a bound on the waiting, another try where the trouble passes by itself, errors that say what to do, and the
 * server's clock read off every answer.
 *
 * A command that a client sends again after a lost reply, or that runs after we gave up on it, does no harm: a swap names
 * the version it replaces, and who meets its own holder in a conflict knows that the first one arrived.
 */
import { performance } from "node:perf_hooks";
import type { NevertwiceError } from "../../core/errors.ts";
import { clearTimeout, setTimeout } from "../../engine/real-timers.ts";
import type { ServerClock } from "../shared/server-clock.ts";
import type { Argument, Wire } from "./client.ts";
import { isNoScript, isPassing, redisError, timedOut } from "./errors.ts";
import type { Script } from "./scripts.ts";

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

export class RedisLink {
  readonly wire: Wire;
  readonly where: string;
  readonly #clock: ServerClock;
  readonly #timeoutMs: number;

  constructor(options: { wire: Wire; where: string; clock: ServerClock; timeoutMs: number }) {
    this.wire = options.wire;
    this.where = options.where;
    this.#clock = options.clock;
    this.#timeoutMs = options.timeoutMs;
  }

  /** The script's answer without the server's time, which stands first in it. `keys` are in one slot. */
  run(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown[]> {
    return this.#bounded(() => this.#patiently(script, keys, args));
  }

  /** Once, and told as it is: for those who have a better answer to a moving slot than waiting. */
  runOnce(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown[]> {
    return this.#bounded(() => this.#once(script, keys, args), false);
  }

  ask(command: string, ...args: string[]): Promise<unknown> {
    return this.#bounded(() => this.wire.ask(command, args));
  }

  async #patiently(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown[]> {
    const giveUpAt = performance.now() + this.#timeoutMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return await this.#once(script, keys, args);
      } catch (error) {
        if (!isPassing(error) || performance.now() + pauseMs > giveUpAt) throw error;
        // If the bound comes first, this is why there was no answer.
        this.wire.trouble = error;
        await new Promise((done) => setTimeout(done, pauseMs * (0.5 + Math.random())));
      }
    }
  }

  async #once(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown[]> {
    const first = keys[0] as string;
    // concat, not spread: a batch has a thousand arguments, and this copies them once.
    const all = ([script.sha, String(keys.length)] as Argument[]).concat(keys, args);
    let askedAt = performance.now();
    let answer: unknown;
    try {
      answer = await this.wire.send(first, "evalsha", all);
    } catch (error) {
      if (!isNoScript(error)) throw error;
      all[0] = script.text;
      askedAt = performance.now();
      answer = await this.wire.send(first, "eval", all);
    }
    const [seconds, micros] = answer as [unknown, unknown];
    const serverMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
    this.#clock.observe({ serverMs, askedAt, answeredAt: performance.now() });
    return (answer as unknown[]).slice(2);
  }

  #silence(): NevertwiceError {
    const { trouble } = this.wire;
    return trouble === undefined ? timedOut(this.where, this.#timeoutMs) : redisError(trouble, this.where);
  }

  /** A server that swallows everything must not hold a call for ever. A reply that comes after the bound is nobody's. */
  #bounded<T>(work: () => Promise<T>, named = true): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(this.#silence()), this.#timeoutMs);
      const failed = (error: unknown) => {
        clearTimeout(timer);
        reject(named ? redisError(error, this.where) : error);
      };
      const done = (value: T) => {
        clearTimeout(timer);
        this.wire.trouble = undefined;
        resolve(value);
      };
      try {
        work().then(done, failed);
      } catch (error) {
        failed(error);
      }
    });
  }
}

/** Clients may be set up to answer with buffers. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : String(value);
}
