/**
 * Chance that is the same in every run of a slot. An agent that plans from scratch after a crash would choose another
 * topic; one that draws from the slot's seed chooses the same.
 */
import { createHash } from "node:crypto";
import { configError } from "../core/errors.ts";
import { slotNumber } from "./slot-number.ts";
import type { Timetable } from "./timetable.ts";

export interface Seed {
  /** 64 hexadecimal digits: for programs in other languages, and for prompts. */
  readonly hex: string;
  /** A whole number from `least` to `most`, both included. */
  int(least: number, most: number): number;
  /** At least 0 and below 1. */
  fraction(): number;
  pick<T>(list: readonly T[]): T;
  /** A shuffled copy. */
  shuffle<T>(list: readonly T[]): T[];
  /**
   * The list's items in turn, one for each slot: two slots in a row never get the same one, unless the list has only one.
   * The slot is that of the seed unless given. `not` is what must not come, such as the last one before the list was changed.
   */
  rotate<T>(list: readonly T[], slot?: string, options?: { readonly not?: T }): T;
  /** A seed of its own for one purpose: what is drawn from it does not depend on what else is drawn. */
  of(purpose: string): Seed;
}

/**
 * The same job and slot give the same seed, in every process and on every host. `times` is the job's schedule, which
 * rotate() needs for scheduled instants: their names do not say which one was before.
 */
export function seed(job: string, slot: string, times?: Timetable): Seed {
  for (const [name, value] of Object.entries({ job, slot })) {
    if (typeof value !== "string" || value.trim() === "")
      throw configError(`seed: ${name} is ${JSON.stringify(value)}; give a text that is not blank.`);
  }
  return new HashedSeed(digest(JSON.stringify(["nevertwice-seed", job, slot])), slot, times);
}

/** Like `rotate` of a seed, where there is no job: what is drawn depends on the slot and the list alone. */
seed.rotate = <T>(list: readonly T[], slot: string, options?: RotateOptions<T>): T => rotate(list, slot, options);

interface RotateOptions<T> {
  readonly not?: T;
  readonly times?: Timetable | undefined;
}

function rotate<T>(list: readonly T[], slot: string, { not, times }: RotateOptions<T> = {}): T {
  if (!Array.isArray(list) || list.length === 0)
    throw configError("seed.rotate: the list is empty, so there is nothing to take in turn.");
  const twice = list.find((item, at) => list.indexOf(item) !== at);
  if (twice !== undefined)
    throw configError(
      `seed.rotate: the list has ${JSON.stringify(twice)} more than once, so that two slots in a row could get it. Name each item once.`,
    );
  if (typeof slot !== "string" || slot.trim() === "")
    throw configError(`seed.rotate: slot is ${JSON.stringify(slot)}; give the slot's text, such as "2026-06-19".`);
  const turn = slotNumber(slot, times) ?? drawnFrom(slot);
  const at = ((turn % list.length) + list.length) % list.length;
  const next = list[at] as T;
  return not !== undefined && next === not ? (list[(at + 1) % list.length] as T) : next;
}

/** A text without an order, such as a commit: no slot comes before it. */
function drawnFrom(slot: string): number {
  return digest(JSON.stringify(["nevertwice-rotate", slot])).readUIntBE(0, 6);
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

class HashedSeed implements Seed {
  readonly hex: string;
  readonly #slot: string;
  readonly #times: Timetable | undefined;
  #drawn = 0;

  constructor(root: Buffer, slot: string, times: Timetable | undefined) {
    this.hex = root.toString("hex");
    this.#slot = slot;
    this.#times = times;
  }

  of(purpose: string): Seed {
    return new HashedSeed(digest(JSON.stringify([this.hex, "of", purpose])), this.#slot, this.#times);
  }

  rotate<T>(list: readonly T[], slot = this.#slot, options: { readonly not?: T } = {}): T {
    return rotate(list, slot, { ...options, times: this.#times });
  }

  fraction(): number {
    this.#drawn += 1;
    // 53 bits: all that a double between 0 and 1 can tell apart.
    const bits = digest(`${this.hex} ${this.#drawn}`).readBigUInt64BE(0) >> 11n;
    return Number(bits) / 2 ** 53;
  }

  int(least: number, most: number): number {
    if (!Number.isSafeInteger(least) || !Number.isSafeInteger(most) || most < least) {
      throw configError(`seed.int(${least}, ${most}): it takes two whole numbers, the smaller one first.`);
    }
    return least + Math.floor(this.fraction() * (most - least + 1));
  }

  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw configError("seed.pick: the list is empty, so there is nothing to pick from.");
    return list[this.int(0, list.length - 1)] as T;
  }

  shuffle<T>(list: readonly T[]): T[] {
    const copy = [...list];
    for (let last = copy.length - 1; last > 0; last -= 1) {
      const other = this.int(0, last);
      [copy[last], copy[other]] = [copy[other] as T, copy[last] as T];
    }
    return copy;
  }
}
