import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { parseInput, type StandardSchema } from "./standard-schema.ts";

const zod = z.object({ email: z.email(), amount: z.coerce.number().positive() });
const valibot = v.object({ email: v.pipe(v.string(), v.email()), amount: v.pipe(v.number(), v.minValue(1)) });

async function refusal(schema: unknown, input: unknown) {
  try {
    await parseInput(schema as StandardSchema, input, "send");
  } catch (error) {
    return error as Error & { code: string };
  }
  throw new Error("it was accepted");
}

describe("parseInput", () => {
  it("returns what the schema makes of the input: zod, valibot", async () => {
    expect(await parseInput(zod, { email: "a@b.co", amount: "5" }, "send")).toEqual({ email: "a@b.co", amount: 5 });
    const input = { email: "a@b.co", amount: 5 };
    expect(await parseInput(valibot, input, "send")).toEqual(input);
  });

  it("says which fields do not fit, and keeps the issues as the cause", async () => {
    for (const schema of [zod, valibot]) {
      const error = await refusal(schema, { email: "nobody", amount: -3 });
      expect(error).toMatchObject({ code: "INVALID_INPUT", cause: expect.any(Array) });
      expect(error.message).toMatch(/email.*amount.*Nothing was run/s);
    }
    expect((await refusal(zod, "x")).message).toContain("input");
  });

  it("K6: no value of the input is in the message, whatever the library puts into its own", async () => {
    for (const schema of [zod, valibot, v.object({ amount: v.literal(1) })]) {
      const error = await refusal(schema, { email: "ana.secret", amount: "4711-secret" });
      expect(error.message).not.toMatch(/secret|4711/);
    }
  });

  it("names at most five fields, and counts the rest", async () => {
    const wide = z.object(Object.fromEntries(Array.from("abcdefgh", (name) => [name, z.string()])));
    expect((await refusal(wide, {})).message).toContain("and 3 more");
  });

  it("an async schema is awaited", async () => {
    const slow = z.object({ id: z.string().refine(async (id) => id !== "taken") });
    expect(await parseInput(slow, { id: "free" }, "send")).toEqual({ id: "free" });
    expect(await refusal(slow, { id: "taken" })).toMatchObject({ code: "INVALID_INPUT" });
  });

  it("a schema that throws is INVALID_INPUT, with its error as the cause and not in the message", async () => {
    const broken = z.string().transform((text) => {
      throw new Error(`cannot handle ${text}`);
    });
    const error = await refusal(broken, "secret");
    expect(error).toMatchObject({ code: "INVALID_INPUT", cause: new Error("cannot handle secret") });
    expect(error.message).not.toContain("secret");
  });
});
