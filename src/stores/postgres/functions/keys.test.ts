/** D6: keys, canonical JSON and fingerprints made in SQL are those of the library. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";
import { canonicalInput } from "../../../core/key/canonical.ts";
import { printInput, toFingerprint } from "../../../core/key/fingerprint.ts";
import { deriveKey, emptiness, type KeyIdentity, keyBytes } from "../../../core/key/key.ts";
import { decodeDoc } from "../sql/row.ts";

interface Vector extends KeyIdentity {
  readonly name: string;
  readonly secret?: string;
  readonly key: string;
}

interface Refusal extends Partial<KeyIdentity> {
  readonly name: string;
  readonly code: string;
}

const file = new URL("../../../../docs/key-vectors.json", import.meta.url);
const { vectors, refusals } = JSON.parse(readFileSync(file, "utf8")) as { vectors: Vector[]; refusals: Refusal[] };

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());
const ledgerWith = (flags: readonly string[] = [], env = {}) => sqlLedger({ cli, url: database.url }, flags, env);

const keyOf = (ledger: SqlLedger, { action, parts, scope, version, tenant }: KeyIdentity) =>
  ledger.call("SELECT @.key($1, $2::jsonb, scope => $3, version => $4, tenant => $5)", [
    action,
    JSON.stringify(parts),
    scope,
    version,
    tenant,
  ]);

describe("D6: keys made in SQL", () => {
  it("D6 K1: equal the published vectors without a secret", async () => {
    const ledger = await ledgerWith();
    const plain = vectors.filter(({ secret }) => secret === undefined);
    // jsonb has no U+0000: the intent cannot be named in SQL, and so never wrongly.
    const [impossible, possible] = [true, false].map((one) =>
      plain.filter(({ parts }) => JSON.stringify(parts).includes("\\u0000") === one),
    ) as [Vector[], Vector[]];
    expect(possible.length).toBeGreaterThan(30);
    for (const vector of possible) {
      const { name, key } = vector;
      expect({ name, key: await keyOf(ledger, vector) }).toEqual({ name, key });
    }
    expect(impossible.length).toBe(1);
    await expect(keyOf(ledger, impossible[0] as Vector)).rejects.toMatchObject({ code: "22P05" });
  });

  it("D6 K1: equal the published vectors with a secret, which the migration stores", async () => {
    const keyed = vectors.filter(({ secret }) => secret !== undefined);
    expect(keyed.length).toBeGreaterThanOrEqual(3);
    for (const vector of keyed) {
      const ledger = await ledgerWith(["--secret-env", "S"], { S: vector.secret as string });
      expect(await keyOf(ledger, vector)).toBe(vector.key);
    }
  });

  it("D6 K1: refuse what the library refuses", async () => {
    const ledger = await ledgerWith();
    const written = refusals.filter(({ parts, secret }) => parts !== undefined && secret === undefined);
    for (const { name, code: _, ...change } of written) {
      const identity = {
        name,
        tenant: "",
        action: "send_followup",
        version: 1,
        scope: null,
        parts: [],
        key: "",
        ...change,
      };
      await expect(keyOf(ledger, identity), name).rejects.toMatchObject({ code: expect.stringMatching(/^NT010$|^22/) });
    }
    for (const parts of [null, "{}", '"a"']) {
      await expect(ledger.call("SELECT @.key('a', $1::jsonb)", [parts])).rejects.toMatchObject({
        code: "NT010",
        detail: "INVALID_KEY",
      });
    }
    const wide = JSON.stringify([Array.from({ length: 10_000 }, () => 1)]);
    await expect(ledger.call("SELECT @.key('a', $1::jsonb)", [wide])).rejects.toThrow(/10000 values/);
    const long = JSON.stringify(["x".repeat(65_534), "y"]);
    await expect(ledger.call("SELECT @.key('a', $1::jsonb)", [long])).rejects.toThrow(/65536 bytes/);
    expect(await ledger.call("SELECT @.key('a', $1::jsonb)", [JSON.stringify(["x".repeat(65_534)])])).toBe(
      deriveKey({ tenant: "", action: "a", version: 1, scope: null, parts: ["x".repeat(65_534)] }),
    );
  });

  it("D6: refuse numbers that a program would read as others, and name the place", async () => {
    const ledger = await ledgerWith();
    for (const number of ["12345678901234567890", "9007199254740993", "0.1234567890123456789", "1e400", "1e-400"]) {
      await expect(ledger.call("SELECT @.key('a', $1::jsonb)", [`[{"id":[${number}]}]`]), number).rejects.toThrow(
        /key\[0\]\.id\[0\]: the number .*Pass it as text/,
      );
    }
    await expect(ledger.call(String.raw`SELECT @.key('a', '["\u0000"]'::jsonb)`)).rejects.toMatchObject({
      code: "22P05",
    });
  });

  it("D6: blank characters are the library's", async () => {
    const ledger = await ledgerWith();
    const codes = Array.from({ length: 0x110000 }, (_, code) => code).filter(
      (code) => code > 0 && (code < 0xd800 || code > 0xdfff),
    );
    const blank = codes.filter((code) => emptiness(String.fromCodePoint(code)) !== null);
    const found = await ledger.call("SELECT array_agg(c) FROM unnest($1::int[]) c WHERE @._blank(chr(c))", [codes]);
    expect(found).toEqual(blank);
  });
});

const doubles = (count: number): number[] => {
  const bytes = randomBytes(8 * count);
  return Array.from({ length: count }, (_, i) => bytes.readDoubleLE(8 * i)).filter(Number.isFinite);
};

describe("D6: canonical JSON in SQL", () => {
  it("D6: numbers are written as ECMAScript writes them, the midway ones too", async () => {
    const ledger = await ledgerWith();
    const powers = Array.from({ length: 600 }, (_, i) => [
      Number(`1e${i - 300}`),
      2 ** (i - 300),
      5 * 10 ** (i - 300),
    ]).flat();
    const decimals = Array.from({ length: 2_000 }, (_, i) => (i - 1_000) / 100);
    const random = Array.from({ length: 2_000 }, () =>
      Number((Math.random() * 10 ** Math.floor(Math.random() * 30 - 8)).toPrecision(6)),
    );
    const edges = [
      0,
      -0,
      1e21,
      1e20,
      123456789012345680000,
      1e-6,
      1e-7,
      5e-324,
      1.7976931348623157e308,
      2.2250738585072014e-308,
      9007199254740991,
      9007199254740992,
      9007199254740994,
      4.35,
      0.1 + 0.2,
      1e23,
      -1e23,
      2e23,
    ];
    const all = [...edges, ...powers, ...decimals, ...random, ...doubles(6_000)].filter(Number.isFinite);
    const found = await ledger.call(
      "SELECT jsonb_agg(@._number((e.value #>> '{}')::numeric, '', 'INVALID_KEY') ORDER BY e.place) FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY e(value, place)",
      [JSON.stringify(all)],
    );
    expect(found).toEqual(all.map(String));
  });

  it("D6: the digits of numbers do not depend on the session", async () => {
    const ledger = await ledgerWith();
    await ledger.rows("SET extra_float_digits = -5");
    expect(await ledger.call("SELECT @.key('a', '[0.30000000000000004]')")).toBe(
      deriveKey({ tenant: "", action: "a", version: 1, scope: null, parts: [0.1 + 0.2] }),
    );
  });

  it("D6: thousands of random values, their keys and their fingerprints", async () => {
    const ledger = await ledgerWith();
    const text = fc.string({ unit: "binary", maxLength: 12 }).filter((one) => !one.includes("\0"));
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        text,
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie("any"), { maxLength: 4 }),
        fc.dictionary(text, tie("any"), { maxKeys: 5 }),
      ),
    })).any;
    const free = ["body", "a"];
    const inputs = fc.sample(
      fc.oneof(value, fc.dictionary(fc.oneof(text, fc.constantFrom("a", "body", "id")), value, { maxKeys: 4 })),
      2_500,
    );
    for (const secret of [undefined, "correct horse battery staple"]) {
      const found: { body: string; doc: string; key: string | null }[] = await ledger.call(
        `SELECT jsonb_agg(jsonb_build_object('body', p.body, 'doc', @._doc(p.guarded, p.loose, p.fields, NULL),
           'key', @._key_text(@._intent('acme', 'send', 2, 'run', jsonb_build_array(jsonb_build_array(e.value)), $3))) ORDER BY e.place)
         FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY e(value, place) CROSS JOIN LATERAL @._print(e.value, $2, $3) p`,
        [JSON.stringify(inputs), free, secret === undefined ? null : Buffer.from(secret)],
      );
      for (const [i, input] of inputs.entries()) {
        const { body, doc, key } = found[i] as (typeof found)[number];
        const plain = JSON.parse(JSON.stringify(input));
        expect(body).toBe(canonicalInput(plain, "input"));
        expect(decodeDoc(doc).fingerprint).toEqual(toFingerprint(printInput(plain, free, secret)));
        const identity = { tenant: "acme", action: "send", version: 2, scope: "run", parts: [[plain]], secret };
        expect(key).toBe(deriveKey(identity));
      }
    }
  });

  it("D6: a key's text and its bytes lead to each other", async () => {
    const ledger = await ledgerWith();
    for (let i = 0; i < 50; i += 1) {
      const id = randomBytes(32);
      const key = await ledger.call("SELECT @._key_text($1)", [id]);
      expect(Buffer.from(keyBytes(key)).equals(id)).toBe(true);
      expect((await ledger.call("SELECT @._key_bytes($1)", [key])).equals(id)).toBe(true);
    }
    await expect(ledger.call("SELECT @.settle('nt1_x', 'done')")).rejects.toMatchObject({ code: "NT010" });
  });
});
