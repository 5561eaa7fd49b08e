/** `nevertwice import`: the types of columns. The key of 7 is another than that of "7". */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { converted, otherType, timeOf, typesOf } from "./types.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const load = (text: string, ...flags: string[]) => {
  writeFileSync(join(cli.folder, "sends.csv"), text);
  return cli.run(["import", "sends.csv", "--action", "send", ...flags]);
};
const FIELDS = ["--fields", "lead_id,active"];

describe("types of CSV columns", () => {
  it("a column that may be no text is refused with the flag to add, and nothing is imported", async () => {
    const { code, err } = await load("lead_id,active\n7,true\n8,false\n", ...FIELDS);
    expect(code).toBe(2);
    expect(err).toMatch(/lead_id \(line 2: "7"\), active \(line 2: "true"\)/);
    expect(err).toMatch(/--types lead_id=number,active=boolean or, .*--types lead_id=text,active=text/);
    expect((await cli.program().store.stats()).total).toBe(0);
    expect((await load("key\n7\n")).err).toMatch(/--types key=number/);
    expect((await load("key\n2026-01-15 06:00:00\n")).err).toMatch(/--types key=timestamp/);
  });

  it("--types: the rows guard the input of the program, numbers as numbers", async () => {
    const types = ["--types", "lead_id=number,active=boolean"];
    expect((await load("lead_id,active\n7,true\n8,f\n", ...FIELDS, ...types, "--void")).code).toBe(0);
    const ran: unknown[] = [];
    const send = cli.program().action("send", {
      key: ["lead_id", "active"],
      run: (input: { lead_id: unknown; active: unknown }) => void ran.push(input),
    });
    await send({ lead_id: 7, active: true });
    await send({ lead_id: 8, active: false });
    expect(ran).toEqual([]);
    await send({ lead_id: "7", active: true });
    expect(ran).toEqual([{ lead_id: "7", active: true }]);
  });

  it("a column is text where most of its values can only be text; days, long numbers and leading zeros are text", async () => {
    for (const text of ["key\n7\nx8\ny9\n", "key\n2026-01-15\n", "key\n12345678901234567890\n", "key\n007\n+49170\n"])
      expect((await load(text)).code).toBe(0);
    expect((await load("key\n7\n8\nn/a\n")).err).toMatch(/key \(line 2: "7", but line 4: "n\/a"\).*--types key=number/);
  });

  it.each([
    [
      "lead_id,active\n7,true\nx8,true\n",
      "lead_id=number,active=boolean",
      /line 3: the column lead_id is "x8", which is not a number/,
    ],
    [
      "lead_id,active\n7,true\n7.5,true\n",
      "lead_id=integer,active=boolean",
      /line 3: the column lead_id is "7.5", which is not a whole/,
    ],
    [
      "lead_id,active\n9007199254740993,true\n",
      "lead_id=number,active=boolean",
      /line 2: .*"9007199254740993", which is not a number/,
    ],
    [
      "lead_id,active\n7,maybe\n",
      "lead_id=number,active=boolean",
      /line 2: the column active is "maybe", which is not true or false/,
    ],
    ["lead_id,active\n7,\n", "lead_id=number,active=boolean", /line 2: the column active is missing or blank/],
    ["lead_id,active\n7,true\n", "lead_id=nubmer", /Did you mean number\? The types are: text, number/],
    ["lead_id,active\n7,true\n", "lead_id", /it takes <column>=<type>/],
    ["lead_id,active\nx,y\n", "lead=number", /--types names the column lead, and no row has it/],
    [
      "lead_id,active\n[12345678901234567890],y\n",
      "lead_id=json",
      /line 2: .*not JSON with numbers that JavaScript can hold/,
    ],
  ])("a value that does not fit is refused with its line: %j %s", async (text, types, message) => {
    const { code, err } = await load(text, ...FIELDS, "--types", types);
    // 1: the file is wrong. 2: the command line is.
    expect([code, err]).toEqual([message.source.startsWith("line") ? 1 : 2, expect.stringMatching(message)]);
    expect((await cli.program().store.stats()).total).toBe(0);
  });

  it("conversions", () => {
    expect(converted("1e3", "number", "c")).toBe(1000);
    expect(converted(7, "text", "c")).toBe("7");
    expect(converted('{"a":1}', "json", "c")).toEqual({ a: 1 });
    expect(converted("2026-01-15 06:00:00", "timestamp", "c")).toBe("2026-01-15T06:00:00.000Z");
    expect(converted("2026-01-15 06:00:00+02", "date", "c")).toEqual(new Date("2026-01-15T04:00:00Z"));
    for (const text of ["", " 7", "0x7", "7.", "Infinity", "1e999"])
      expect(() => converted(text, "number", "c")).toThrow(/not a number/);
    expect(["7", "-1.5", "t", "TRUE", "[1]", "x", "007", "{x"].map(otherType)).toEqual([
      "number",
      "number",
      "boolean",
      "boolean",
      "json",
      null,
      null,
      null,
    ]);
    for (const type of ["timestamp", "date"] as const)
      expect(() => converted("02/10/2026", type, "c")).toThrow(
        /not a time that can be read for certain: write 2026-10-02/,
      );
    expect(timeOf("1781827200")).toBe(1_781_827_200_000);
    expect(typesOf(["a=b=number"])).toEqual(new Map([["a=b", "number"]]));
    expect(() => typesOf(["a=text", "a=number"])).toThrow(/two types for a/);
  });
});
