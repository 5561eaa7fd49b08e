/** `nevertwice import` of CSV: strict, with lines, and no row lost. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { csvRows } from "./csv.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const load = (text: string | Uint8Array, ...flags: string[]) => {
  writeFileSync(join(cli.folder, "sends.csv"), text);
  return cli.run(["import", "sends.csv", "--action", "send", ...flags]);
};
const total = async () => (await cli.program().store.stats()).total;

describe("CSV", () => {
  it.each([
    [
      "a quote that is never closed",
      'key,note\na,"x\nb,y\nc,z\n',
      /row that begins on line 2 has a quote that is never closed/,
    ],
    [
      "a quote in a field",
      'key,note\na,x\nb,5" pipe\nc,z\nd,"q"\n',
      /row that begins on line 3 has a quote inside a field/,
    ],
    [
      "text behind a closing quote",
      'key,note\na,"x" y\nb,z\n',
      /row that begins on line 2 has text behind a closing quote/,
    ],
    [
      "a quote that is closed by a later row's",
      'key,note\na,"x\nb,y\nc,"z"\n',
      /row that begins on line 2 has text behind/,
    ],
    ["a field too many", "key,note\r\na,x\r\n\r\nb,y,z\r\n", /line 4 has 3 fields, the header has 2/],
    ["a field too few", 'key,note\na,"x\r\ny"\r\nb\n', /line 4 has 1 fields, the header has 2/],
    ["a blank column name", "key,,note\na,b,c\n", /first line has a column without a name/],
    ["two columns of one name", "key,note,key\na,b,c\n", /two columns are named key/],
    ["another delimiter", "key;note\na;b\n", /separated by ";", add: --delimiter ";"/],
    [
      "a row of 5 MB, as a lost quote makes it",
      `key,note\na,"${"x\n".repeat(2_600_000)}`,
      /line 2 is longer than 4 MB. A quote/,
    ],
  ])("refuses %s with its line, and imports nothing", async (what, text, message) => {
    const { code, err } = await load(text);
    // 2 where a flag is missing; everything else is wrong in the file.
    expect([code, err]).toEqual([what === "another delimiter" ? 2 : 1, expect.stringMatching(message)]);
    expect(await total()).toBe(0);
  });

  it("refuses what is not UTF-8: a replaced character would make another key", async () => {
    expect((await load(Buffer.from("key\nJos\xe9\n", "latin1"))).err).toMatch(/sends\.csv is not UTF-8 \(near line/);
    expect((await load(Buffer.from("\ufeffkey\na\n", "utf16le"))).err).toMatch(/is in UTF-16/);
    expect((await load(Buffer.from("key\na\n", "utf16le"))).err).toMatch(/is in UTF-16/);
    expect(await total()).toBe(0);
  });

  it.each([
    ["a byte order mark", "\ufeffkey,note\na,x\nb,y\n", []],
    ["CRLF and LF mixed", "key,note\r\na,x\nb,y\r\n", []],
    ["no line break at the end", "key,note\na,x\nb,y", []],
    ["blank lines", "key,note\n\na,x\n\n\nb,y\n\n", []],
    ["quoted line breaks, delimiters and quotes", 'key,note\na,"x,\n""y"""\nb,"\r\n"\n', []],
    ["semicolons", "key;note\na;x\nb;y\n", ["--delimiter", ";"]],
    ["tabs", "key\tnote\na\tx\nb\ty\n", ["--delimiter", "tab"]],
    ["spaces around the column names", " key , note\na,x\nb,y\n", []],
  ])("reads %s", async (_, text, flags) => {
    const { json, code } = await load(text, ...flags, "--json");
    expect(code).toBe(0);
    expect(json).toMatchObject({ rows: 2, imported: 2, check: { repeats: 2, unguarded: 0 } });
    for (const key of ["a", "b"]) expect(await cli.program().once("send", [key], () => "again")).toHaveProperty("note");
  });

  it("names rows whose values have line breaks: a missing quote may have made one of several", async () => {
    const { out, code } = await load('key,note\na,"x\nb,y\nc,z"\n');
    expect([code, out]).toEqual([0, expect.stringMatching(/1 row has line breaks in a value, the first on line 2/)]);
  });
});

it("what a writer by RFC 4180 wrote comes back, field by field, each row with its line, in whatever chunks it is read", async () => {
  const field = fc.string({ unit: fc.constantFrom("a", '"', ",", "\n", "\r\n", ";", " ", "é") });
  const table = fc.array(fc.tuple(field, field, fc.constantFrom("x", "y")), { maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(table, fc.integer({ min: 1, max: 9 }), fc.constantFrom("\n", "\r\n"), async (rows, size, end) => {
      const quoted = rows.map((row) => row.map((one) => `"${one.replaceAll('"', '""')}"`).join(",") + end);
      const text = `one,two,three${end}${quoted.join("")}`;
      async function* chunks() {
        for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
      }
      let line = 2;
      const expected = rows.map(([one, two, three], i) => {
        const place = line;
        line += (quoted[i] as string).split("\n").length - 1;
        return { place, row: { one, two, three } };
      });
      const read = [];
      for await (const { place, row } of csvRows(chunks(), "t.csv", ",")) read.push({ place, row });
      expect(read).toEqual(expected);
    }),
    { numRuns: 300 },
  );
});

describe("JSON", () => {
  const lines = (text: string, ...flags: string[]) => {
    writeFileSync(join(cli.folder, "l.jsonl"), text);
    return cli.run(["import", "l.jsonl", "--action", "send", ...flags]);
  };

  it.each([
    [
      '{"key":"a"}\n{"key":12345678901234567890}\n',
      /line 2 has the number 12345678901234567890, which JavaScript cannot/,
    ],
    ['{"key":"a"}\n{"key":"b","key":"c"}\n', /line 2: it has two members named "key"/],
    ['{"key":"a"}\n["b"]\n', /line 2 is not an object with fields/],
    ['[{"key":"a"},\n{"key":90071992547409931}]', /line 2 has the number 90071992547409931/],
    ['{"key":"a"}\n{"key":"b"', /line 2 is not JSON/],
    [`{"key":"a"}\n{"key":"${"x".repeat(5_000_000)}"}`, /line 2 is longer than 4 MB/],
  ])("refuses with the line: %#", async (text, message) => {
    const { code, err } = await lines(text);
    expect([code, err]).toEqual([1, expect.stringMatching(message)]);
    expect(await total()).toBe(0);
  });

  it("reads a byte order mark, CRLF and blank lines", async () => {
    expect((await lines('\ufeff{"key":"a"}\r\n\r\n{"key":"b"}\r\n', "--json")).json).toMatchObject({ imported: 2 });
  });

  it("a number is a number and a text is a text, by the file itself", async () => {
    await lines('{"key":7}\n{"key":"8"}\n');
    const nt = cli.program();
    const ran: unknown[] = [];
    const known: unknown[] = [];
    for (const key of [7, "7", 8, "8"])
      await nt.once("send", [key], () => void ran.push(key)).catch(({ code }) => known.push([key, code]));
    expect(ran).toEqual(["7", 8]);
    expect(known).toEqual([7, "8"].map((key) => [key, "RESULT_UNAVAILABLE"]));
  });
});
