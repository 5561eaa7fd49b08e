import { describe, expect, it } from "vitest";
import { keyText } from "./key.ts";
import { nearKeyWarning, RecentKeys } from "./near-keys.ts";

const textOf = (parts: readonly unknown[], scope: string | null = null) =>
  keyText({ tenant: "", action: "pay", version: 1, scope, parts });

function near(one: readonly unknown[], other: readonly unknown[]) {
  const recent = new RecentKeys();
  expect(recent.add(textOf(one))).toBeNull();
  expect(recent.add(textOf(one))).toBeNull();
  return recent.add(textOf(other));
}

describe("K8: near-identical keys", () => {
  it.each([
    [["inv-1", "Ann@example.com"], ["inv-1", "ann@example.com"], { part: 1, differs: "case" }],
    [["New York"], ["New  York "], { part: 0, differs: "white space" }],
    [["x", " a"], ["x", "a"], { part: 1, differs: "white space" }],
    [["caf\u00e9"], ["cafe\u0301"], { part: 0, differs: "Unicode form" }],
    [[10], ["10"], { part: 0, differs: "number format" }],
    [["10.00"], ["10"], { part: 0, differs: "number format" }],
    [["10.50"], [10.5], { part: 0, differs: "number format" }],
    [[{ to: "A", id: 1 }], [{ to: "a", id: 1 }], { part: 0, differs: "case" }],
  ])("%j and %j", (one, other, found) => {
    expect(near(one, other)).toEqual(found);
    expect(near(other, one)).toEqual(found);
  });

  it.each([
    [["a"], ["b"]],
    [["1.10"], ["1.1"]],
    [["007"], ["7"]],
    [["a b"], ["ab"]],
    [["10"], ["100"]],
    [["a", "b"], ["a,b"]],
    [
      ["A", "b"],
      ["a", "c"],
    ],
    [[true], ["true"]],
  ])("%j and %j are two intents", (one, other) => expect(near(one, other)).toBeNull());

  it("another scope is another intent, and long keys are not looked at", () => {
    const recent = new RecentKeys();
    recent.add(textOf(["a"], "Run"));
    expect(recent.add(textOf(["a"], "run"))).toBeNull();
    recent.add(textOf(["x".repeat(2_000)]));
    expect(recent.add(textOf(["X".repeat(2_000)]))).toBeNull();
  });

  it("remembers a bounded number of keys, the latest", () => {
    const recent = new RecentKeys();
    for (let n = 0; n < 1_000; n += 1) recent.add(textOf([`id-${n}`]));
    expect(recent.add(textOf(["ID-999"]))).not.toBeNull();
    expect(recent.add(textOf(["ID-1"]))).toBeNull();
  });

  it("goes on looking in a busy process, at some calls in a row of each thousand", () => {
    const recent = new RecentKeys();
    let found = 0;
    for (let n = 0; n < 10_000; n += 1) {
      recent.add(textOf([`id-${n}`]));
      if (recent.add(textOf([`ID-${n}`])) !== null) found += 1;
    }
    expect(found).toBeGreaterThan(512 + 1_000);
  });

  it("names the field and what differed, never the value", () => {
    const message = nearKeyWarning("pay", { part: 1, differs: "case" }, ["id", "to"]);
    expect(message).toContain('the case of the key field "to"');
    expect(nearKeyWarning("pay", { part: 1, differs: "case" }, undefined)).toContain("part 2 of its key");
    expect(nearKeyWarning("pay", { part: 0, differs: "case" }, ["ann@example.com"])).not.toContain("ann");
  });
});
