import { describe, expect, it } from "vitest";
import { email, text } from "./text.ts";

describe("K8: text()", () => {
  it.each([
    ["  Weekly   Report ", "weekly report"],
    ["weekly\treport\n", "weekly report"],
    ["Cafe\u0301", "café"],
    ["\ufeffReport\u200b", "report"],
    ["ＡＢＣ", "ａｂｃ"],
  ])("%j is %j", (given, normal) => expect(text(given)).toBe(normal));

  it("keeps the case where it matters", () => expect(text(" SKU-9a ", { case: "keep" })).toBe("SKU-9a"));

  it.each([["   "], [""], ["\u200b"]])("refuses %j: it would be an empty part", (given) =>
    expect(() => text(given)).toThrow(/INVALID_KEY|nothing but white space/),
  );

  it("refuses what is no text, and options that do not exist", () => {
    expect(() => text(7 as never)).toThrow(/a number, not a text/);
    expect(() => text("\ud800")).toThrow(/lone surrogate/);
    expect(() => text("a", { case: "upper" as never })).toThrow(/"ignore" or "keep"/);
  });
});

describe("K8: email()", () => {
  it.each([
    [" Ann@Example.COM ", "ann@example.com"],
    ["ann+News@example.com", "ann+news@example.com"],
    ["a.n.n@gmail.com", "a.n.n@gmail.com"],
    ["ann@BÜCHER.example", "ann@xn--bcher-kva.example"],
    ["ann@bu\u0308cher.example", "ann@xn--bcher-kva.example"],
    ["ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"],
    ["ann@example.com.", "ann@example.com"],
    ['"Ann B"@example.com', '"ann b"@example.com'],
    ["Jürgen@example.com", "jürgen@example.com"],
  ])("%j is %j", (given, normal) => expect(email(given)).toBe(normal));

  it("keeps the case before the @ on request", () =>
    expect(email("Ann@Example.com", { case: "keep" })).toBe("Ann@example.com"));

  it.each([
    ["Ann <ann@example.com>"],
    ["ann@example.com, bob@example.com"],
    ["ann"],
    ["@example.com"],
    ["ann@"],
    ["ann@exa mple.com"],
    ["ann@127.0.0.1"],
    ["ann@example.com/path"],
    ["ann@exam%70le.com"],
    ["ann@-example.com"],
    [`${"a".repeat(330)}@example.com`],
  ])("refuses %j", (given) => {
    expect(() => email(given)).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
  });

  it("its errors hold no value", () => expect(() => email("Secret Person <s@x.test>")).not.toThrow(/Secret|s@x/));
});
