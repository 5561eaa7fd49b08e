import { expect, it } from "vitest";
import { namedError } from "./returned-error.ts";

const text = (...texts: string[]) => ({ content: texts.map((one) => ({ type: "text", text: one })) });

it.each<[unknown, string | null]>([
  [{ error: "no" }, "{ error: … }"],
  [{ success: false }, "{ success: false }"],
  [{ content: [], isError: true }, "{ isError: true }"],
  [{ content: [], structuredContent: { error: { code: 1 } } }, "{ error: … }"],
  [{ ...text("fine"), structuredContent: { success: false } }, "{ success: false }"],
  [text('{"success":false}'), "{ success: false }"],
  [text(' {"error":"no"}'), "{ error: … }"],
  // Structured content speaks for the result, and its text only repeats it.
  [{ ...text('{"error":"no"}'), structuredContent: { id: 1 } }, null],
  [text('{"error":"no"}', "sent"), null],
  [text('{"error":"no","data":{"id":1}}'), null],
  [text('{"error":null}'), null],
  [text('{"content":[{"type":"text","text":"{\\"error\\":\\"no\\"}"}]}'), null],
  [text("{ no JSON"), null],
  [{ content: [null] }, null],
  [{ content: "text", structuredContent: { error: "no" } }, null],
  ["error", null],
  [[{ error: "no" }], null],
])("%j names %s", (value, named) => {
  expect(namedError(value)).toBe(named);
});
