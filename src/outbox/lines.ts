/** Strict order: a record begins once everything before it in its order is settled, here or in another process. */
import type { Stored } from "../core/store.ts";
import type { Definition } from "../engine/definition.ts";
import { isUnderWay, lookAgainAt } from "../engine/turn.ts";
import { type Ending, giveBack, type LeasedServices, leasedTurn, runLeased } from "./leased.ts";

// Of one line no more than these wait in a worker; the rest is handed back, so that other keys get their turn.
const WAITING_A_LINE = 4;
const APART_MS = 20;
const FURTHEST_MS = 2_000;
const MOST_REMEMBERED = 10_000;

export class Lines {
  readonly #services: LeasedServices;
  /** Slots that may be taken by those who only wait. */
  readonly #mostWaiting: number;
  readonly #underWay = new Map<string, Promise<unknown>>();
  readonly #waiting = new Map<string, number>();
  /** Until when those of a line were put off last: the next goes behind them. */
  readonly #putOff = new Map<string, number>();
  #waitingInAll = 0;

  /** Whether this worker put the record off and waits for it. */
  readonly #isPutOff: (key: string) => boolean;

  constructor(services: LeasedServices, concurrency: number, isPutOff: (key: string) => boolean) {
    this.#services = services;
    this.#isPutOff = isPutOff;
    this.#mostWaiting = Math.floor(concurrency / 2);
  }

  run(definition: Definition, stored: Stored): Promise<Ending> {
    const { key } = stored.record;
    const work = this.#run(definition, stored);
    this.#underWay.set(key, work);
    const gone = () => {
      if (this.#underWay.get(key) === work) this.#underWay.delete(key);
    };
    work.then(gone, gone);
    return work;
  }

  async #run(definition: Definition, stored: Stored): Promise<Ending> {
    const { engine } = this.#services;
    let turn = await leasedTurn(engine, stored);
    if (turn.as === "wait" && (await this.#waitHere(turn.stored, turn.before.key, definition.policy.leaseMs)))
      turn = await leasedTurn(engine, turn.stored);
    if (turn.as === "moved") return turn;
    if (turn.as === "begin") return runLeased(this.#services, definition, turn.stored);
    const at = engine.services.ledger.instant();
    const putOffTo = this.#putOffTo(turn.stored.record.terms?.line as string, lookAgainAt(turn.before, at));
    const soon = isUnderWay(turn.before, at) || this.#isPutOff(turn.before.key);
    return giveBack(this.#services, turn.stored, putOffTo, soon);
  }

  /** The one before it is in this worker's hands too: worth waiting for, if few do. */
  async #waitHere({ record }: Stored, beforeKey: string, leaseMs: number): Promise<boolean> {
    const before = this.#underWay.get(beforeKey);
    const line = record.terms?.line as string;
    const here = this.#waiting.get(line) ?? 0;
    if (before === undefined || record.state !== "claimed") return false;
    if (here >= WAITING_A_LINE || this.#waitingInAll >= this.#mostWaiting) return false;
    this.#waiting.set(line, here + 1);
    this.#waitingInAll += 1;
    // Never so long that its own lease runs out over it.
    await this.#noLongerThan(before, leaseMs / 3);
    this.#waitingInAll -= 1;
    const left = (this.#waiting.get(line) ?? 1) - 1;
    if (left === 0) this.#waiting.delete(line);
    else this.#waiting.set(line, left);
    return true;
  }

  #noLongerThan(work: Promise<unknown>, ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = this.#services.engine.services.clock.after(ms, done);
      const over = () => {
        timer.cancel();
        done();
      };
      work.then(over, over);
    });
  }

  #putOffTo(line: string, notBefore: number): number {
    const { now } = this.#services.engine.services.ledger.instant();
    if (this.#putOff.size > MOST_REMEMBERED) this.#putOff.clear();
    const behind = Math.min((this.#putOff.get(line) ?? 0) + APART_MS, now + FURTHEST_MS);
    const at = Math.ceil(Math.max(notBefore, behind));
    this.#putOff.set(line, at);
    return at;
  }
}
