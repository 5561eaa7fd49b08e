/** The parts that need no server: where records lie, how they are written, what the clock says. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type LedgerRecord, STATES } from "../../core/record.ts";
import { sampleRecord } from "../../testing/index.ts";
import { batchOf } from "./batch.ts";
import { BUCKETS, bucketOf, Names, slotOf, TAGS } from "./buckets.ts";
import { redisClock } from "./clock.ts";
import { aboutOf, actionEnd, keyOfEntry, rangeOf, scoreOf, tenantStart, timeOf } from "./members.ts";
import { decodeRow, encodeRow } from "./row.ts";

const anyText = fc.string({ unit: "binary", maxLength: 20 }).map(wellFormed);

describe("buckets", () => {
  it("stand where they always stood: another layout would hide every record", () => {
    expect(TAGS).toEqual(["10", "3", "1a", "b", "11", "2", "1d", "c", "12", "1", "1c", "d", "13", "0", "1b", "a"]);
    const keys = ["nt1_a", "nt1_b", "nt1_0123456789abcdefghijklmnopqrstuv0123456789abcdefghij"];
    expect(keys.map(bucketOf)).toEqual([3, 14, 9]);
    expect(new Names("nevertwice").record("nt1_a")).toBe("nevertwice:{b}:nt1_a");
  });

  it("lie evenly over the slots, as the clients and the servers count them", () => {
    expect(TAGS.map((tag) => Math.floor(slotOf(tag) / 1_024))).toEqual(Array.from({ length: BUCKETS }, (_, n) => n));
    // CLUSTER KEYSLOT of Redis 7.
    expect(["foo", "123456789", "b"].map(slotOf)).toEqual([12_182, 12_739, 3_300]);
  });

  it("get about as many records each", () => {
    const counts = new Array<number>(BUCKETS).fill(0);
    for (let n = 0; n < 16_000; n += 1) counts[bucketOf(`nt1_${n}`)] = (counts[bucketOf(`nt1_${n}`)] ?? 0) + 1;
    for (const count of counts) expect(count).toBeGreaterThan(700);
  });
});

describe("a batch", () => {
  it("says once what its lines have in common, and each line which it is", () => {
    const swaps = ["nt1_a", "nt1_b", "nt1_c"].map((key, at) => {
      const record = sampleRecord({
        key,
        createdAt: at < 2 ? 5 : 6,
        updatedAt: 20,
        state: "confirmed",
        expiresAt: 900,
      });
      return { put: { record, expected: at === 1 ? 7 : null }, version: 8 };
    });
    const { args } = batchOf(swaps, { names: new Names("nevertwice"), channels: "them", ledger: "its-id" });
    const [channels, lines, rows, bells, ledger, ...said] = args;
    expect([channels, bells, ledger]).toEqual(["them", "", "its-id"]);
    // Said at 1 to 4: the action, the first creation, the expiry, the other creation.
    expect(said).toEqual([aboutOf(sampleRecord({})), String(scoreOf("a", 5)), "900", String(scoreOf("a", 6))]);
    const numbers = [0, 1, 2].map((line) => lineOf(lines as Buffer, line));
    expect(numbers.map(([, , ...rest]) => rest)).toEqual([
      [1, 1, 2, 0, 0, 3],
      [2, 1, 0, 0, 0, 3],
      [3, 1, 4, 0, 0, 3],
    ]);
    const sizes = numbers.map(([key = 0, row = 0]) => 16 + key + row);
    expect(sizes.reduce((sum, size) => sum + size)).toBe((rows as Buffer).length);
    expect((rows as Buffer).toString("latin1", sizes[0], (sizes[0] ?? 0) + 21)).toBe("0000000000000007nt1_b");
  });
});

function lineOf(lines: Buffer, line: number): number[] {
  const at = line * 18;
  return [
    lines.readUInt16BE(at),
    lines.readUInt32BE(at + 2),
    ...[6, 8, 10, 12, 14, 16].map((field) => lines.readUInt16BE(at + field)),
  ];
}

describe("index", () => {
  it("entries say whose they are, whatever the names hold", () => {
    fc.assert(
      fc.property(anyText, anyText, fc.option(anyText, { nil: null }), (tenant, action, scope) => {
        const entry = `nt1_x${aboutOf(sampleRecord({ tenant, action, scope }))}`;
        const [key, ofScope, about, ...more] = entry.split("\u001f");
        expect(more).toEqual([]);
        expect(keyOfEntry(`${key}\u001f`)).toBe("nt1_x");
        expect(ofScope).toBe(scope === null ? "" : JSON.stringify(scope));
        expect(JSON.parse(about as string)).toEqual([tenant, action]);
        expect(about?.startsWith(tenantStart(tenant)) && about.endsWith(actionEnd(action))).toBe(true);
      }),
    );
  });

  it("no other tenant or action is taken for the one asked for", () => {
    const tricky = ["a", 'a"', '"a', ',"a', 'a"]', "\\", "a\\", '\\"', '","', '","a'];
    for (const one of tricky) {
      for (const other of tricky.filter((name) => name !== one)) {
        const about = JSON.stringify([one, one]);
        expect(about.startsWith(tenantStart(other)), `${one} for ${other}`).toBe(false);
        expect(about.endsWith(actionEnd(other)), `${one} for ${other}`).toBe(false);
      }
    }
  });

  it("each type has a range of its own, whole to the millisecond", () => {
    const now = 1_794_735_858_704;
    expect(timeOf(scoreOf("q", now))).toBe(now);
    expect(scoreOf("a", Number.MAX_SAFE_INTEGER)).toBeLessThan(rangeOf("o").min);
    expect(scoreOf("o", -5)).toBe(rangeOf("o").min);
  });
});

describe("rows", () => {
  const text = anyText;
  const time = fc.option(fc.integer({ min: 0, max: 2 ** 50 }), { nil: null });
  const mark = fc.option(fc.record({ at: fc.double({ noNaN: true, min: 0, max: 1e12 }), epoch: text }), { nil: null });
  const payload = fc.option(
    fc.oneof(
      fc.json().map((json) => ({ json })),
      text.map((sealed) => ({ sealed: `ntseal1.${sealed}` })),
      text.map((omitted) => ({ omitted })),
    ),
    { nil: null },
  );
  const anyRecord: fc.Arbitrary<LedgerRecord> = fc
    .record({
      tenant: text,
      action: text,
      scope: fc.option(text, { nil: null }),
      state: fc.constantFrom(...STATES),
      version: fc.nat(),
      attempt: fc.nat(),
      fence: fc.nat(),
      holder: fc.option(text, { nil: null }),
      lease: fc.option(fc.record({ until: fc.double({ noNaN: true, min: 0, max: 1e12 }), epoch: text }), { nil: null }),
      queued: fc.boolean(),
      dueAt: time,
      firstSentAt: time,
      firstSentMark: mark,
      doubted: fc.boolean(),
      doubtSince: time,
      doubtMark: mark,
      why: fc.option(text, { nil: null }),
      expiresAt: time,
      keepMs: time,
      final: fc.boolean(),
      input: payload,
      draft: payload,
      result: payload,
      error: fc.option(fc.record({ name: text, message: text }), { nil: null }),
    })
    .map((fields) => sampleRecord(fields));

  it("come back as they were written, byte for byte", () => {
    fc.assert(
      fc.property(anyRecord, fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (record, version) => {
        const bytes = Buffer.from(encodeRow(record, version));
        expect(decodeRow(record.key, bytes.toString())).toEqual({ record, version });
      }),
      { numRuns: 500 },
    );
  });

  it("that were touched are noticed: another key, a flipped bit, a cut", () => {
    const record = sampleRecord({ holder: "someone", input: { json: '{"a":1}' } });
    const row = encodeRow(record, 7);
    expect(() => decodeRow("nt1_other", row)).toThrow(/does not match its checksum/);
    for (let at = 0; at < row.length; at += 1) {
      const flipped = row.slice(0, at) + String.fromCharCode(row.charCodeAt(at) ^ 1) + row.slice(at + 1);
      expect(() => decodeRow(record.key, flipped)).toThrow(/nt1_sample .*does not match its checksum/);
      expect(() => decodeRow(record.key, row.slice(0, at))).toThrow(/checksum/);
    }
  });
});

describe("the server's clock", () => {
  const real = () => performance.now();

  it("is taken over at the first answer, ahead or behind", () => {
    for (const skew of [-3_600_000, 0, 3_600_000]) {
      const clock = redisClock();
      clock.now();
      const server = Date.now() + skew;
      clock.observe({ serverMs: server, askedAt: real(), answeredAt: real() });
      expect(Math.abs(clock.now() - server)).toBeLessThan(50);
    }
  });

  it("never runs backwards after that: it waits for a server that was set back", () => {
    const clock = redisClock();
    const server = Date.now();
    clock.observe({ serverMs: server, askedAt: real(), answeredAt: real() });
    const before = clock.now();
    clock.observe({ serverMs: server - 60_000, askedAt: real(), answeredAt: real() });
    expect(clock.now()).toBe(before);
    clock.observe({ serverMs: server + 5_000, askedAt: real(), answeredAt: real() });
    expect(clock.now()).toBeGreaterThanOrEqual(server + 5_000);
  });

  it("a slow answer does not move it, a fast one corrects it", () => {
    const clock = redisClock();
    const at = real();
    clock.observe({ serverMs: 1_000_000, askedAt: at, answeredAt: at });
    const drift = () => clock.now() - (1_000_000 + real() - at);
    clock.observe({ serverMs: 1_000_000 + 400, askedAt: at, answeredAt: at + 1_000 });
    expect(Math.abs(drift())).toBeLessThan(50);
    clock.observe({ serverMs: 1_000_000 + 2_000 + 5, askedAt: at + 2_000, answeredAt: at + 2_001 });
    expect(drift()).toBeGreaterThan(2);
  });
});

function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}
