import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import * as z3 from "zod/v3";
import { fieldsOf, requireKey, requireKeyOf } from "./fields.ts";

describe("the fields of a schema", () => {
  it.each<[string, unknown, readonly string[] | null]>([
    ["none", undefined, []],
    ["an empty shape", {}, []],
    ["a shape of zod 4", { title: z.string(), type: z.literal("object") }, ["title", "type"]],
    ["a shape of zod 3", { title: z3.string() }, ["title"]],
    ["a shape of zod/mini", { title: mini.string() }, ["title"]],
    ["zod 4", z.object({ title: z.string() }), ["title"]],
    ["zod 3", z3.object({ title: z3.string() }), ["title"]],
    ["zod/mini", mini.object({ title: mini.string() }), ["title"]],
    ["JSON Schema", { type: "object", properties: { title: {} } }, ["title"]],
    ["a record", z.record(z.string(), z.string()), null],
    ["a union", z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]), null],
    ["a Standard Schema that says no more", v.object({ title: v.string() }), null],
    ["no schema at all", "title", null],
  ])("%s", (_, schema, fields) => {
    expect(fieldsOf(schema)).toEqual(fields);
  });
});

it("a key is left at the definition", () => {
  const shape = { title: z.string(), body: z.string() };
  requireKey(shape, {}, "here");
  requireKey(shape, { free: ["body"] }, "here");
  requireKey({}, { free: ["body"] }, "here");
  requireKey(shape, { free: ["title", "body"], key: ["title"] }, "here");
  requireKey(v.object({}), { free: ["title"] }, "here");
  expect(() => requireKey(shape, { free: ["title", "body"] }, "here")).toThrow(
    /^here: all of its arguments \(title, body\)/,
  );
});

it("a key is left in a call", () => {
  requireKeyOf({}, { free: ["title"] }, "send");
  requireKeyOf({ title: "a", id: 1 }, { free: ["title"] }, "send");
  requireKeyOf({ title: "a" }, { free: ["title"], key: () => ["once"] }, "send");
  expect(() => requireKeyOf({ title: "a", id: undefined }, { free: ["title"] }, "send")).toThrow(
    expect.objectContaining({ code: "INVALID_KEY" }),
  );
});
