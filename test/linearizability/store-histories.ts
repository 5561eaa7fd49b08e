/** Histories on the store port: several processes claim, confirm, extend, release, lease and read one key at once. */
import type { LedgerRecord, Store, Stored } from "nevertwice";
import { sampleRecord } from "nevertwice/testing";
import { isLinearizable, type Operation, shown } from "./checker.ts";
import { type Chance, type HistoryOptions, runAll, tick } from "./run-all.ts";

/** What matters of the row: its revision, who wrote it, and whether a worker may be given it. */
interface Row {
  /** Null: there is none. */
  readonly version: number | null;
  readonly holder: string | null;
  readonly due: boolean;
}

const NO_ROW: Row = { version: null, holder: null, due: false };

const OPERATIONS_EACH = 3;
const LONG_MS = 600_000;

export function storeHistories(stores: readonly Store[], options: HistoryOptions): Promise<string[]> {
  return runAll(options, (chance, id) => oneHistory(stores, chance, id));
}

async function oneHistory(stores: readonly Store[], chance: Chance, id: string): Promise<string | null> {
  const operations: Operation<Row>[] = [];
  const processes = stores.map((store, i) => new Process({ store, chance, id, name: `${id}-${i}`, operations }));
  await Promise.all(processes.map((process) => process.live()));
  const nameOf = ({ version, holder }: Row) => `${version} ${holder}`;
  return isLinearizable(operations, NO_ROW, nameOf) ? null : shown(operations);
}

interface Setting {
  readonly store: Store;
  readonly chance: Chance;
  readonly id: string;
  readonly name: string;
  readonly operations: Operation<Row>[];
}

class Process {
  readonly #setting: Setting;
  readonly #createdAt: number;
  /** The revision this process saw last: right, stale, or none yet. */
  #seen: number | null = null;
  #writes = 0;

  constructor(setting: Setting) {
    this.#setting = setting;
    this.#createdAt = Math.floor(setting.store.now());
  }

  async live(): Promise<void> {
    const { chance } = this.#setting;
    for (let left = OPERATIONS_EACH; left > 0; left -= 1) {
      const dice = chance();
      if (dice < 0.2) await this.#read();
      else if (dice < 0.35) await this.#lease();
      else await this.#put();
    }
  }

  async #read(): Promise<void> {
    const { store, id } = this.#setting;
    const [found] = await this.#noted(
      () => store.read([id]),
      ([stored]) => ({ name: `read ${text(stored)}`, apply: (row) => (isRow(row, stored) ? row : null) }),
    );
    this.#seen = found?.version ?? null;
  }

  async #put(): Promise<void> {
    const { store } = this.#setting;
    const record = this.#nextRecord();
    const expected = this.#seen;
    const [result] = await this.#noted(
      () => store.write([{ record, expected }]),
      ([answer]) => {
        const name = `put ${record.state} of ${record.holder} over ${expected}`;
        if (answer?.ok) {
          const after: Row = { version: answer.version, holder: record.holder as string, due: isDue(record) };
          return { name: `${name}: ${answer.version}`, apply: (row) => (row.version === expected ? after : null) };
        }
        const current = answer?.current ?? null;
        const lost = (row: Row) => row.version !== expected && isRow(row, current);
        return { name: `${name}: lost to ${text(current)}`, apply: (row) => (lost(row) ? row : null) };
      },
    );
    // Sometimes nothing is learned from it, and the next write relies on what is no longer true.
    if (this.#setting.chance() < 0.2) return;
    this.#seen = result?.ok ? result.version : (result?.current?.version ?? null);
  }

  async #lease(): Promise<void> {
    const { store, id, name } = this.#setting;
    this.#writes += 1;
    const holder = `${name}.${this.#writes}`;
    const query = { holder, limit: 1, leaseMs: LONG_MS, to: "claimed", actions: [id] } as const;
    const [given] = await this.#noted(
      () => store.lease(query),
      ([stored]) => {
        // Rows that somebody is just writing may be passed by: nothing given says nothing.
        if (stored === undefined) return { name: "lease: nothing", apply: (row) => row };
        const after: Row = { version: stored.version, holder, due: false };
        return { name: `lease: ${text(stored)}`, apply: (row) => (row.due ? after : null) };
      },
    );
    if (given) this.#seen = given.version;
  }

  /** A claim, a heartbeat, a confirm, or a claim given back: each is one swap of the whole record. */
  #nextRecord(): LedgerRecord {
    const { id, name, chance, store } = this.#setting;
    this.#writes += 1;
    const holder = `${name}.${this.#writes}`;
    const base = { key: id, action: id, createdAt: this.#createdAt, queued: true, holder, attempt: 1, fence: 1 };
    const { steady, epoch } = instantOf(store);
    const lease = { until: steady + LONG_MS, epoch };
    const dice = chance();
    if (dice < 0.35) return sampleRecord({ ...base, state: "pending", dueAt: this.#createdAt - 1_000 });
    if (dice < 0.55) return sampleRecord({ ...base, state: "claimed", lease });
    if (dice < 0.75) return sampleRecord({ ...base, state: "sent", lease, firstSentAt: this.#createdAt });
    return sampleRecord({ ...base, state: "confirmed", result: { json: "1" } });
  }

  async #noted<T>(work: () => Promise<T>, note: (answer: T) => Pick<Operation<Row>, "name" | "apply">): Promise<T> {
    const invoked = tick();
    const answer = await work();
    const returned = tick();
    this.#setting.operations.push({ invoked, returned, ...note(answer) });
    return answer;
  }
}

function isDue({ state }: LedgerRecord): boolean {
  return state === "pending";
}

function isRow(row: Row, stored: Stored | null | undefined): boolean {
  return row.version === (stored?.version ?? null) && row.holder === (stored?.record.holder ?? null);
}

function text(stored: Stored | null | undefined): string {
  return stored ? `${stored.version} of ${stored.record.holder}` : "nothing";
}

function instantOf(store: Store): { steady: number; epoch: string } {
  return store.instant?.() ?? { steady: store.now(), epoch: "" };
}
