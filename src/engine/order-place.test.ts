import { expect, it } from "vitest";
import { gate } from "../../test/support/gate.ts";
import { readOrder } from "../core/order.ts";
import type { LedgerRecord } from "../core/record.ts";
import type { Put, Stored } from "../core/store.ts";
import { transition } from "../core/transition.ts";
import { memoryStore } from "../stores/memory.ts";
import { sampleRecord } from "../testing/sample-record.ts";
import { insertInLine, keepNote, place, type Swaps } from "./order-place.ts";
import { turnOf } from "./turn.ts";

const DAY = 86_400_000;

function bench() {
  let now = 1_750_000_000_000;
  const instant = () => ({ now, steady: now, epoch: "e" });
  const store = memoryStore({ clock: { instant } });
  /** `before` is called with each write, and may wait. */
  const swaps = (before: (puts: readonly Put[]) => Promise<void> = async () => {}): Swaps => ({
    read: (keys) => store.read(keys),
    write: async (puts) => {
      await before(puts);
      return store.write(puts);
    },
    now: instant,
  });
  const read = async (key: string): Promise<Stored> => {
    const [stored] = await store.read([key]);
    if (!stored) throw new Error(`there is no record ${key}`);
    return stored;
  };
  const put = async (record: LedgerRecord, expected: number | null): Promise<Stored> => {
    const [result] = await store.write([{ record, expected }]);
    if (!result?.ok) throw new Error("the write was refused");
    return { record, version: result.version };
  };
  const insert = (key: string) => () =>
    put(sampleRecord({ key, queued: true, keepMs: 5 * DAY, dueAt: now, terms: { line: "nt1_line" } }), null);
  const settle = async (key: string, state: "confirmed" | "failed") => {
    const { record, version } = await read(key);
    await put({ ...record, state, dueAt: null, settledAt: now }, version);
  };
  const revive = async (key: string) => {
    const { record, version } = await read(key);
    const change = transition(record, { type: "retry", by: "ana", reason: "fixed" }, instant());
    if (!change.ok) throw new Error(change.refusal);
    return put(change.record, version);
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { swaps, read, insert, settle, revive, pass };
}

const isNote = ({ record }: Put) => record.key === "nt1_line";

it("places grow by one, and each names the one before it", async () => {
  const { swaps, read, insert } = bench();
  for (const key of ["a", "b", "c"]) await insertInLine(swaps(), "nt1_line", insert(key));
  const [a, b, c] = [await read("a"), await read("b"), await read("c")];
  const first = a.record.terms?.place as number;
  expect(a.record.terms).toEqual({ line: "nt1_line", place: first });
  expect(b.record.terms).toEqual({ line: "nt1_line", place: first + 1, after: "a" });
  expect(c.record.terms).toEqual({ line: "nt1_line", place: first + 2, after: "b" });
  expect(readOrder((await read("nt1_line")).record)).toEqual({ last: "c", place: first + 2, before: "b" });
});

it("an old place that is about to be written is overtaken by whoever would begin beside it", async () => {
  const { swaps, read, insert, settle, revive } = bench();
  await insertInLine(swaps(), "nt1_line", insert("k"));
  await settle("k", "failed");
  const old = (await read("k")).record.terms?.place as number;
  // l is about to be appended: k was seen as a dead letter.
  const [noteReached, noteGate] = [gate(), gate()];
  const appending = insertInLine(
    swaps(async (puts) => {
      if (!puts.some(isNote)) return;
      noteReached.open();
      await noteGate.opened;
    }),
    "nt1_line",
    insert("l"),
  );
  await noteReached.opened;
  // Now k comes back, and the note still gives it its old place.
  const [placeReached, placeGate] = [gate(), gate()];
  const placing = place(
    swaps(async (puts) => {
      if (puts.some(isNote) || !placeGate) return;
      placeReached.open();
      await placeGate.opened;
    }),
    await revive("k"),
  );
  await placeReached.opened;
  noteGate.open();
  await appending;
  // k has no place yet, so nothing stands before l; but k must not get its old place afterwards.
  expect((await turnOf(swaps(), await read("l"))).before).toBeNull();
  placeGate.open();
  await placing;
  expect((await read("k")).record.terms).toMatchObject({ place: old + 2, after: "l" });
  expect((await turnOf(swaps(), await read("k"))).before?.key).toBe("l");
});

it("the last one of an order that comes back keeps its place: nobody has passed it", async () => {
  const { swaps, read, insert, settle, revive } = bench();
  for (const key of ["a", "b"]) await insertInLine(swaps(), "nt1_line", insert(key));
  const { terms } = (await read("b")).record;
  await settle("b", "failed");
  await place(swaps(), await revive("b"));
  expect((await read("b")).record.terms).toEqual(terms);
  expect((await turnOf(swaps(), await read("b"))).before?.key).toBe("a");
});

it("a record that was settled before it ever got its place is put into it by the next append", async () => {
  const { swaps, read, insert, settle } = bench();
  await insertInLine(swaps(), "nt1_line", insert("a"));
  const dies = swaps(async (puts) => {
    if (puts.some(({ record, expected }) => record.key === "b" && expected !== null)) throw new Error("killed");
  });
  await expect(insertInLine(dies, "nt1_line", insert("b"))).rejects.toThrow("killed");
  const { record, version } = await read("b");
  const resolved = { at: 1, event: "resolved-done", from: "unknown", to: "confirmed", attempt: 1 } as const;
  const confirmed = { ...record, state: "confirmed" as const, dueAt: null, settledAt: 1, history: [resolved] };
  await swaps().write([{ record: confirmed, expected: version }]);
  await insertInLine(swaps(), "nt1_line", insert("c"));
  // b was settled from outside, so a still stands before c.
  expect((await turnOf(swaps(), await read("c"))).before?.key).toBe("a");
  await settle("a", "confirmed");
  expect((await turnOf(swaps(), await read("c"))).before).toBeNull();
});

it("the note is kept 30 days longer than the last one is due, and refreshed at half of that", async () => {
  const { swaps, read, insert, pass } = bench();
  await insertInLine(swaps(), "nt1_line", insert("a"));
  const expiry = async () => (await read("nt1_line")).record.expiresAt as number;
  const first = await expiry();
  pass(14 * DAY);
  await keepNote(swaps(), (await read("a")).record);
  expect(await expiry()).toBe(first);
  pass(2 * DAY);
  await keepNote(swaps(), (await read("a")).record);
  expect(await expiry()).toBe(first + 16 * DAY);
});
