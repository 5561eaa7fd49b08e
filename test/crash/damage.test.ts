/** F13: a ledger that is gone, cut short, altered or not one at all is refused; it is never read as "absent". */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isNevertwiceError, nevertwice } from "nevertwice";
import type { SqliteHandle } from "nevertwice/sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DatabaseSync } from "../support/database-sync.ts";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, temporaryFolder } from "./lib/processes.mjs";

const RECORDS = 300;
const FLIPS = effort(100, 300);

interface Row {
  readonly key: string;
  readonly stored: unknown;
}

let sound: string;
let original: Buffer;
let expected: Row[];

beforeAll(async () => {
  sound = join(temporaryFolder(), "ledger.db");
  const nt = nevertwice({ store: `sqlite:${sound}`, sweep: false });
  const note = nt.action("note", { key: ["id"], doubt: "hold", run: (input: { id: string }) => done(input.id) });
  await Promise.all(Array.from({ length: RECORDS }, (_, i) => note.attempt({ id: `n${i}` })));
  expected = await rowsOf(nt);
  await nt.close();
  // All of it in the one file: the driver of Node 20 leaves the log behind until its statements are collected.
  withDatabase(sound, (db) => expect(db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all()).toMatchObject([{ busy: 0 }]));
  original = readFileSync(sound);
});
afterAll(cleanUp);

/** The driver of Node 20 keeps a closed connection's files open until its statements are collected. */
function collectClosedConnections(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}

function withDatabase(path: string, use: (db: SqliteHandle) => void): void {
  const db = new DatabaseSync(path);
  use(db);
  db.close();
}

/** Confirmed, refused and doubtful records: all that a ledger keeps. */
function done(id: string): { id: string } {
  const n = Number(id.slice(1));
  if (n % 10 === 8) throw Object.assign(new Error("bad request"), { status: 400 });
  if (n % 10 === 9) throw new Error("who knows");
  return { id: `result of ${id}` };
}

async function rowsOf(nt: ReturnType<typeof nevertwice>): Promise<Row[]> {
  const { items } = await nt.store.list({ limit: RECORDS + 10, order: "oldest" });
  return items.map((stored) => ({ key: stored.record.key, stored }));
}

let copies = 0;

/** The ledger and its id file in a folder of their own, the file's bytes as given. */
function copyWith(bytes: Uint8Array): string {
  copies += 1;
  const folder = join(sound, "..", `copy-${copies}`);
  mkdirSync(folder);
  const ledger = join(folder, "ledger.db");
  writeFileSync(ledger, bytes);
  copyFileSync(`${sound}.id`, `${ledger}.id`);
  return ledger;
}

type Reading = { readonly refused: string; readonly code: string } | { readonly changed: string[] };

/** Opens the file as a program would and asks for every key and for the whole list. */
async function read(ledger: string): Promise<Reading> {
  const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
  try {
    const byKey = await nt.store.read(expected.map((row) => row.key));
    const listed = await rowsOf(nt);
    const changed = expected.flatMap((row, i) => {
      if (byKey[i] === null) return [`${row.key} reads as absent`];
      const same = [byKey[i], listed[i]?.stored].every((one) => JSON.stringify(one) === JSON.stringify(row.stored));
      return same ? [] : [`${row.key} reads as something else`];
    });
    return { changed };
  } catch (error) {
    if (!isNevertwiceError(error)) return { changed: [`not a NevertwiceError: ${String(error)}`] };
    return { refused: error.message, code: error.code };
  } finally {
    await nt.close();
  }
}

/** Refused when opened by a program, and a guarded call on it runs nothing. */
async function expectRefused(ledger: string, message: RegExp, code = "STORE_UNAVAILABLE"): Promise<void> {
  expect(await read(ledger)).toMatchObject({ code, refused: expect.stringMatching(message) });
  const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
  let ran = 0;
  const run = () => {
    ran += 1;
    return null;
  };
  await expect(nt.once("note", ["n0"], run)).rejects.toMatchObject({ code });
  expect(ran).toBe(0);
  await nt.close();
}

it("the unharmed copy reads back identical", async () => {
  expect(await read(copyWith(original))).toEqual({ changed: [] });
});

describe("gone or cut short", () => {
  it("deleted while closed", async () => {
    const ledger = copyWith(original);
    rmSync(ledger);
    await expectRefused(ledger, /is gone, but ledger\.db\.id beside it/);
    expect(existsSync(ledger)).toBe(false);
  });

  it.each(["deleted", "replaced"])("%s while open", async (what) => {
    const ledger = copyWith(original);
    const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
    await nt.once("note", ["before"], () => "ran");
    renameSync(ledger, `${ledger}.away`);
    if (what === "replaced") writeFileSync(ledger, original);
    let ran = 0;
    const late = nt.once("note", ["after"], () => {
      ran += 1;
    });
    await expect(late).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", message: /removed or replaced/ });
    expect(ran).toBe(0);
    await expect(nt.store.read([expected[0]?.key as string])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await nt.close();
  });

  it("deleted while open, then opened by another program", async () => {
    const ledger = copyWith(original);
    const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
    await nt.once("note", ["before"], () => "ran");
    rmSync(ledger);
    await expectRefused(ledger, /is gone/);
    await nt.close();
  });

  it("truncated to nothing, to half, by one page", async () => {
    for (const size of [0, original.length >> 1, original.length - 4_096]) {
      const ledger = copyWith(original);
      truncateSync(ledger, size);
      await expectRefused(ledger, size === 0 ? /is empty/ : /is damaged/);
      expect(readFileSync(ledger).length).toBe(size);
    }
  });
});

it("truncated by a few bytes: SQLite reads the missing ones as zeros, and the checksums decide", async () => {
  for (const missing of [1, 10, 100, 1_000]) {
    const reading = await read(copyWith(original.subarray(0, original.length - missing)));
    expect("refused" in reading ? [] : reading.changed).toEqual([]);
  }
});

describe("altered", () => {
  it(`${FLIPS} single bits flipped: harmless or refused, never absent, never another record`, async () => {
    const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const random = seeded(seed);
    // The first page holds the header and the schema: each of its first bits matters, so they get a share of their own.
    const offsetOf = (flip: number) => Math.floor(random() * (flip % 4 === 0 ? 4_096 : original.length));
    const bad: string[] = [];
    let refused = 0;
    for (let flip = 0; flip < FLIPS; flip += 1) {
      const offset = offsetOf(flip);
      const bit = Math.floor(random() * 8);
      const reading = await readFlipped(offset, bit);
      if (flip % 50 === 49) collectClosedConnections();
      if ("refused" in reading) refused += 1;
      else bad.push(...reading.changed.map((what) => `bit ${bit} of byte ${offset}: ${what}`));
    }
    console.log(`seed ${seed}: ${FLIPS} flips, ${refused} refused, ${FLIPS - refused} harmless`);
    expect(bad).toEqual([]);
    expect(refused).toBeGreaterThan(FLIPS / 4);
  });

  async function readFlipped(offset: number, bit: number): Promise<Reading> {
    const bytes = Buffer.from(original);
    bytes[offset] = (bytes[offset] as number) ^ (1 << bit);
    const ledger = copyWith(bytes);
    const reading = await read(ledger);
    rmSync(join(ledger, ".."), { recursive: true });
    return reading;
  }

  it("the spelling of a column in the schema changed by one bit: harmless or refused", async () => {
    const columns = [
      "scope",
      "lease_until",
      "lease_epoch",
      "attention_at",
      "expires_at",
      "draft",
      "result",
      "doc",
      "sum",
    ];
    for (const column of columns) {
      const offset = original.indexOf(`\n     ${column} `);
      expect(offset).toBeGreaterThan(0);
      const reading = await readFlipped(offset + 6, 5);
      expect("refused" in reading ? [] : reading.changed).toEqual([]);
    }
  });

  it("an empty text turned into an empty blob by one bit: that record is refused, and the others are as they were", async () => {
    const ledger = copyWith(original);
    withDatabase(ledger, (db) => db.exec("UPDATE nevertwice_records SET tenant = x'' WHERE id = 7"));
    const damaged = expected[6]?.key as string;
    const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
    const message = /does not match its checksum/;
    await expect(nt.status({ key: damaged })).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      key: damaged,
      message,
    });
    const others = expected.filter(({ key }) => key !== damaged);
    expect(await nt.store.read(others.map(({ key }) => key))).toEqual(others.map(({ stored }) => stored));
    const { items, ...page } = await nt.store.list({ limit: RECORDS + 10, order: "oldest" });
    expect(items).toEqual(others.map(({ stored }) => stored));
    expect(page.damaged).toMatchObject([{ key: damaged, message }]);
    // Of all calls only those for its key are refused; it is never run again.
    const ran: string[] = [];
    const note = nt.action("note", { key: ["id"], run: (_: { id: string }, { key }) => ran.push(key) });
    const outcomes = await Promise.allSettled(
      Array.from({ length: RECORDS }, (_, i) => note.attempt({ id: `n${i}` }).then((outcome) => outcome.key)),
    );
    const refused = outcomes.flatMap((one) => (one.status === "rejected" ? [(one.reason as { key: string }).key] : []));
    expect(refused).toEqual([damaged]);
    expect(ran).not.toContain(damaged);
    await nt.close();
  });

  it.each(["300", "9", "x", ""])("the mark of watched claims changed to %j hides no claim", async (mark) => {
    const ledger = join(temporaryFolder(), "ledger.db");
    const nt = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
    const never = new Promise<null>(() => {});
    void nt.action("send", { key: ["id"], run: (_input: { id: string }) => never }).attempt({ id: "1" });
    await expect.poll(async () => (await nt.store.stats()).states.sent).toBe(1);
    withDatabase(ledger, (db) => db.exec(`UPDATE nevertwice_meta SET value = '${mark}' WHERE name = 'watched_to'`));
    const other = nevertwice({ store: `sqlite:${ledger}`, sweep: false });
    await expect(other.store.read(["nt1_any"])).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: /watched claims/,
    });
    await other.close();
    await nt.store.close();
  });

  it("a newer schema is refused, by its number", async () => {
    const ledger = copyWith(original);
    withDatabase(ledger, (db) => db.exec("UPDATE nevertwice_meta SET value = '99' WHERE name = 'schema_version'"));
    await expectRefused(
      ledger,
      /newer nevertwice \(its schema is 99, this release knows \d+\).*left untouched/,
      "CONFIG",
    );
  });

  it.each([
    ["text", Buffer.from("these are my notes\n".repeat(1_000))],
    ["zeros", Buffer.alloc(20_000)],
    ["a few bytes", Buffer.from("hello")],
  ])("a file that is not SQLite (%s) is refused and left as it is", async (_what, bytes) => {
    for (const withId of [true, false]) {
      const ledger = copyWith(bytes);
      if (!withId) rmSync(`${ledger}.id`);
      await expectRefused(ledger, /damaged|not the ledger|not a database/);
      expect(readFileSync(ledger).equals(bytes)).toBe(true);
    }
  });
});
