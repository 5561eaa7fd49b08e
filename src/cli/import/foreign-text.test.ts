/** Files as other systems write them: byte order marks, CRLF, UTF-16, Latin-1. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { jsonLines } from "../json-lines.ts";
import { decodeText, readText } from "./foreign-text.ts";

const BOM = Buffer.of(0xef, 0xbb, 0xbf);
const utf8 = (text: string) => Buffer.concat([BOM, Buffer.from(text)]);
const utf16 = (text: string) => Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from(text, "utf16le")]);

async function linesOf(bytes: Buffer, cut = bytes.length): Promise<unknown[]> {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += cut) yield bytes.subarray(at, at + cut);
  }
  const lines: unknown[] = [];
  for await (const { number, input, broken } of jsonLines(chunks())) lines.push([number, broken ?? input]);
  return lines;
}

describe("lines of inputs", () => {
  it.each([1, 2, 3, 7, 1_000])("a byte order mark, CRLF and blank lines, in chunks of %i bytes", async (cut) => {
    const text = '{"to":"zoë"}\r\n\r\n{"to":"日本"}\r\n  \n{"to":"ada"}';
    const expected = [
      [1, { to: "zoë" }],
      [3, { to: "日本" }],
      [5, { to: "ada" }],
    ];
    expect(await linesOf(Buffer.from(text), cut)).toEqual(expected);
    expect(await linesOf(utf8(text), cut)).toEqual(expected);
  });

  it("two files with byte order marks, one behind the other", async () => {
    expect(await linesOf(Buffer.concat([utf8('{"n":1}\n'), utf8('{"n":2}\n')]))).toEqual([
      [1, { n: 1 }],
      [2, { n: 2 }],
    ]);
  });

  it("a line that is not UTF-8 is broken: a replaced character would be another input", async () => {
    const latin1 = Buffer.from('{"to":"zo\xeb"}\n', "latin1");
    expect(await linesOf(Buffer.concat([latin1, Buffer.from('{"to":"ada"}\n')]))).toEqual([
      [1, "it is not UTF-8. Save it as UTF-8"],
      [2, { to: "ada" }],
    ]);
  });

  it("UTF-16 is refused before anything runs", async () => {
    await expect(linesOf(utf16('{"to":"ada"}\n'), 1)).rejects.toThrow(/the inputs are in UTF-16, and nothing was run/);
    await expect(linesOf(Buffer.from(utf16('{"to":"ada"}\n')).swap16())).rejects.toThrow(/UTF-16/);
  });

  const swapped = (bytes: Buffer) => Buffer.from(bytes).swap16();
  const utf32 = (text: string) => Buffer.concat([...text].map((one) => Buffer.of(one.codePointAt(0) ?? 0, 0, 0, 0)));
  const text = '{"to":"ada"}\n{"to":"bob"}\n';
  const encodings: readonly (readonly [what: string, bytes: Buffer, named: string])[] = [
    ["UTF-16 LE without a byte order mark", Buffer.from(text, "utf16le"), "in UTF-16"],
    ["UTF-16 BE without a byte order mark", swapped(Buffer.from(text, "utf16le")), "in UTF-16"],
    ["UTF-16 behind blank lines", Buffer.from(`\r\n\n${text}`, "utf16le"), "in UTF-16"],
    ["UTF-16 BE behind blank lines", swapped(Buffer.from(`\r\n\n${text}`, "utf16le")), "in UTF-16"],
    ["UTF-32 LE with a byte order mark", Buffer.concat([Buffer.of(0xff, 0xfe, 0, 0), utf32(text)]), "in UTF-32"],
    [
      "UTF-32 BE with a byte order mark",
      Buffer.concat([Buffer.of(0, 0, 0xfe, 0xff), utf32(text).swap32()]),
      "in UTF-32",
    ],
    ["UTF-32 LE without one", utf32(text), "in UTF-32"],
    ["UTF-32 BE without one", utf32(text).swap32(), "in UTF-32"],
    ["a file with NUL bytes", Buffer.from("some text that is no JSON\0 at all\n"), "no text: it has NUL bytes"],
  ];

  it.each(encodings)("%s is refused by its name before anything runs", async (_what, bytes, named) => {
    for (const cut of [1, bytes.length]) {
      await expect(linesOf(bytes, cut)).rejects.toThrow(
        `the inputs are ${named}, and nothing was run. Save them as UTF-8`,
      );
    }
    expect(() => decodeText(bytes.subarray(0, bytes.length - 4))).toThrow(named);
  });

  it("lines that end with CR alone are refused in one message; CR inside one input is a space", async () => {
    const refused = /the lines of the inputs end with CR alone, and nothing was run.*tr '\\r' '\\n'/;
    await expect(linesOf(Buffer.from('{"n":1}\r{"n":2}\r'), 1)).rejects.toThrow(refused);
    await expect(linesOf(Buffer.from('\r{"n":1}\rnot JSON'))).rejects.toThrow(refused);
    const long = Buffer.from('{"to":"ada"}\r'.repeat(400_000));
    await expect(linesOf(long, 65_536)).rejects.toThrow(refused);
    expect(await linesOf(Buffer.from('{"n":\r1}\r'))).toEqual([[1, { n: 1 }]]);
  });

  it("after the first input, a line that cannot be read is broken alone", async () => {
    const lines = [Buffer.from('{"n":1}\n'), Buffer.from('{"n":2}', "utf16le"), Buffer.from('\n{"n":3}\r{"n":4}\n')];
    expect(await linesOf(Buffer.concat(lines))).toEqual([
      [1, { n: 1 }],
      [2, "it is in UTF-16. Save it as UTF-8"],
      [3, expect.stringContaining("JSON")],
    ]);
  });

  it("nothing, and nothing but a byte order mark, are no lines", async () => {
    expect(await linesOf(Buffer.alloc(0), 1)).toEqual([]);
    expect(await linesOf(BOM)).toEqual([]);
  });
});

describe("a text file", () => {
  it("is read with or without a byte order mark, and refused where it is not UTF-8", () => {
    expect(decodeText(utf8("a\r\nb"))).toBe("a\r\nb");
    expect(decodeText(Buffer.from("a"))).toBe("a");
    expect(() => decodeText(utf16("a"))).toThrow(/UTF-16/);
    expect(() => decodeText(Buffer.from("zo\xeb", "latin1"))).toThrow(/not UTF-8/);
    expect(() => readText("/nothing/there", "--config x")).toThrow(/--config x cannot be read: ENOENT/);
  });
});

describe("the command", () => {
  let ledger: CliLedger;
  beforeEach(() => {
    ledger = new CliLedger();
  });
  afterEach(() => ledger.close());

  const write = (name: string, bytes: Buffer) => writeFileSync(join(ledger.folder, name), bytes);

  it("each takes a file with a byte order mark", async () => {
    write(
      "actions.mjs",
      Buffer.from(
        `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
         const nt = nevertwice({ store: "memory:", sweep: false });
         export const greet = nt.action("greet", { key: ["to"], run: async ({ to }) => to });`,
      ),
    );
    const stdin = '\uFEFF{"to":"ada"}\r\n{"to":"bob"}\r\n';
    const { code, out, err } = await ledger.run(["each", "greet", "--actions", "./actions.mjs"], { stdin });
    expect([code, out, err]).toEqual([0, "2 inputs: 2 sent, 0 done before, 0 failed, 0 in doubt\n", ""]);
  });

  it("resolve takes a result file with a byte order mark, and refuses UTF-16", async () => {
    await ledger.put({ key: "nt1_doubt00000001", state: "unknown", doubtSince: Date.now(), attempt: 1, fence: 1 });
    const argv = ["resolve", "nt1_doubt00000001", "--done", "--result-file", "result.json", "--reason", "r"];
    write("result.json", utf16('{"id":7}'));
    expect(await ledger.run(argv)).toMatchObject({
      code: 2,
      err: expect.stringContaining("--result-file result.json is in UTF-16"),
    });
    write("result.json", utf8('{"id":7}\r\n'));
    expect((await ledger.run(argv)).err).toBe("");
    const [stored] = await ledger.store.read(["nt1_doubt00000001"]);
    expect(stored?.record).toMatchObject({ state: "confirmed", result: { json: '{"id":7}' } });
  });

  it("mcp takes a config with a byte order mark, and refuses UTF-16", async () => {
    const argv = ["mcp", "--config", "tools.json", "--", "true"];
    write("tools.json", utf8('{"tools":{"a":{"keys":["x"]}}}\r\n'));
    expect((await ledger.run(argv)).err).toContain('tools.a: there is no option "keys"');
    write("tools.json", utf16("{}"));
    expect((await ledger.run(argv)).err).toContain("--config tools.json is in UTF-16");
  });
});
