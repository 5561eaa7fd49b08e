/** Where each record's last line stands, and what queries ask about it. Filled from the file line by line, never rebuilt per call. */
import { STATES, type State } from "../../core/record.ts";
import type { Scanned } from "../shared/scan.ts";
import { Rotations } from "../shared/slices.ts";
import type { Change } from "./line.ts";

export class Entry {
  readonly record: Scanned;
  readonly version: number;
  /** The line's place in the file, without its newline. */
  readonly at: number;
  readonly length: number;

  constructor(record: Scanned, version: number, at: number, length: number) {
    this.record = record;
    this.version = version;
    this.at = at;
    this.length = length;
  }
}

export class FileIndex {
  readonly #rows = new Map<string, Entry>();
  /** All but confirmed, which are nearly all of them: what is open, in doubt or dead is found without looking at the rest. */
  readonly #open = new Map<State, Map<string, Entry>>(
    STATES.filter((state) => state !== "confirmed").map((state) => [state, new Map()]),
  );
  /** While a whole file is read most states are passed through: what is open is gathered at the end. */
  #loading = true;
  readonly sweeps = new Rotations<Entry>(() => this.#rows.values());

  get size(): number {
    return this.#rows.size;
  }

  get(key: string): Entry | undefined {
    return this.#rows.get(key);
  }

  apply(change: Change, at: number, length: number): void {
    if (change.kind === "gone") for (const key of change.keys) this.#remove(key);
    else this.#put(new Entry(change.head, change.rev, at, length));
  }

  /** The file has been read. */
  loaded(): void {
    this.#loading = false;
    for (const entry of this.#rows.values()) this.#open.get(entry.record.state)?.set(entry.record.key, entry);
  }

  all(): MapIterator<Entry> {
    return this.#rows.values();
  }

  /** Entries that may be in one of these states; undefined: any. */
  *inStates(states: readonly State[] | undefined): Iterable<Entry> {
    if (states === undefined || states.includes("confirmed")) yield* this.#rows.values();
    else for (const state of new Set(states)) yield* this.#open.get(state)?.values() ?? [];
  }

  #put(entry: Entry): void {
    const { key, state } = entry.record;
    if (this.#loading) {
      this.#rows.set(key, entry);
      return;
    }
    const before = this.#rows.get(key);
    if (before !== undefined && before.record.state !== state) this.#open.get(before.record.state)?.delete(key);
    this.#rows.set(key, entry);
    this.#open.get(state)?.set(key, entry);
  }

  #remove(key: string): void {
    const entry = this.#rows.get(key);
    if (entry === undefined) return;
    this.#rows.delete(key);
    this.#open.get(entry.record.state)?.delete(key);
  }
}
