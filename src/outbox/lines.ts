/** Strict order: a record begins once everything before it in its order is settled, here or in another process. */
import type { LedgerRecord } from "../core/record.ts";
import type { Stored } from "../core/store.ts";
import type { Definition } from "../engine/definition.ts";
import { giveBack, leasedTurn } from "../engine/leased-record.ts";
import { isUnderWay, lookAgainAt } from "../engine/turn.ts";
import { type Ending, type LeasedServices, runLeased } from "./leased.ts";

// Of one line no more than these wait in a worker; the rest is handed back, so that other keys get their turn.
const WAITING_A_LINE = 4;
const APART_MS = 20;
const FURTHEST_MS = 2_000;
const MOST_REMEMBERED = 10_000;
const MOST_SETTLED = 1_000;

export class Lines {
  readonly #services: LeasedServices;
  /** Slots that may be taken by those who only wait. */
  readonly #mostWaiting: number;
  readonly #underWay = new Map<string, Promise<unknown>>();
  readonly #waiting = new Map<string, number>();
  /** Until when those of a line were put off last: the next goes behind them. */
  readonly #putOff = new Map<string, number>();
  /** The record that was put off until another one is settled, by that one's key. */
  readonly #next = new Map<string, Stored>();
  readonly #settledHere = new Set<string>();
  #waitingInAll = 0;

  /** Called when something is due again. */
  readonly #due: () => void;
  /** Whether this worker put the record off and waits for it. */
  readonly #isPutOff: (key: string) => boolean;

  constructor(
    services: LeasedServices,
    concurrency: number,
    { isPutOff, due }: { readonly isPutOff: (key: string) => boolean; readonly due: () => void },
  ) {
    this.#services = services;
    this.#due = due;
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
    work.then(
      ({ as }) => {
        if (as === "done" || as === "failed") this.#settled(key);
      },
      () => {},
    );
    return work;
  }

  #settled(key: string): void {
    this.#settledHere.add(key);
    const [oldest] = this.#settledHere;
    if (this.#settledHere.size > MOST_SETTLED && oldest !== undefined) this.#settledHere.delete(oldest);
    void this.#bringForward(key);
  }

  /** The next of the order need not wait until it is looked at again. */
  async #bringForward(settled: string): Promise<void> {
    const next = this.#next.get(settled);
    if (next === undefined) return;
    this.#next.delete(settled);
    const { ledger } = this.#services.engine.services;
    // Only as this worker put it off: whoever changed it since had a reason of its own. If it fails, it is due in time.
    const own = (current: LedgerRecord | null) =>
      current === next.record ? ({ type: "bring-forward" } as const) : null;
    const applied = await ledger.apply(next, own).catch(() => null);
    if (applied?.ok) this.#due();
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
    const ending = await giveBack(this.#services, turn.stored, putOffTo, soon);
    if (ending.as === "given-back") this.#remember(turn.before.key, ending.stored);
    return ending;
  }

  #remember(before: string, putOff: Stored): void {
    if (this.#next.size >= MOST_REMEMBERED) this.#next.clear();
    this.#next.set(before, putOff);
    // It was settled while this one was given back.
    if (this.#settledHere.has(before)) void this.#bringForward(before);
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
