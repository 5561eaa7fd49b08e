/**
 * Chance that is the same in every run of a slot. An agent that plans from scratch after a crash would choose another
 * topic; one that draws from the slot's seed chooses the same.
 */
import { createHash } from "node:crypto";
import { configError } from "../core/errors.ts";

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
  /** A seed of its own for one purpose: what is drawn from it does not depend on what else is drawn. */
  of(purpose: string): Seed;
}

/** The same job and slot give the same seed, in every process and on every host. */
export function seed(job: string, slot: string): Seed {
  for (const [name, value] of Object.entries({ job, slot })) {
    if (typeof value !== "string" || value.trim() === "")
      throw configError(`seed: ${name} is ${JSON.stringify(value)}; give a text that is not blank.`);
  }
  return new HashedSeed(digest(JSON.stringify(["nevertwice-seed", job, slot])));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

class HashedSeed implements Seed {
  readonly hex: string;
  #drawn = 0;

  constructor(root: Buffer) {
    this.hex = root.toString("hex");
  }

  of(purpose: string): Seed {
    return new HashedSeed(digest(JSON.stringify([this.hex, "of", purpose])));
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
