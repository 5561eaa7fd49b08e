import { describe, expect, it } from "vitest";
import { proseSuspicions } from "./prose.ts";

const long = "Hello Ann, thank you for the call today. As we discussed, the offer is attached and valid until Friday.";

describe("K9: prose in a key", () => {
  it.each([
    ["a long text", { parts: [7, long], names: ["id", "x"], input: {} }, { part: 1, name: "x" }],
    ["a field named body", { parts: ["See you"], names: ["body"], input: {} }, { part: 0, name: "body" }],
    ["a field named message_text", { parts: ["See you"], names: ["message_text"], input: {} }, { part: 0 }],
    ["a field of the whole input", { parts: [{ to: "a", summary: "Went well" }], input: {} }, { name: "summary" }],
    ["the field a key function took it from", { parts: ["a b"], input: { content: "a b" } }, { name: "content" }],
    ["a language without spaces", { parts: ["会議の要約です"], names: ["summary"], input: {} }, { part: 0 }],
  ])("%s", (_what, query, found) => expect(proseSuspicions(query)).toMatchObject([found]));

  it.each([
    ["an id in such a field", { parts: ["msg_81f"], names: ["message"], input: {} }],
    ["a title", { parts: ["Weekly report for Ann"], names: ["title"], input: {} }],
    ["a long id", { parts: ["x".repeat(300)], names: ["token"], input: {} }],
    ["a number", { parts: [7], names: ["body"], input: {} }],
  ])("not %s", (_what, query) => expect(proseSuspicions(query)).toEqual([]));

  it("a name that is data is not told", () =>
    expect(proseSuspicions({ parts: [{ "ann@example.com": long }], input: {} })).toMatchObject([{ name: null }]));
});
