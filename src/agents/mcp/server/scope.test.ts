import { describe, expect, it } from "vitest";
import { requireScope, sessionOf, subjectOf } from "./scope.ts";

const of = (authInfo: object) => ({ authInfo }) as never;

describe("subjectOf", () => {
  it.each<[object, string]>([
    [{ extra: { sub: "ada" } }, "ada"],
    [{ extra: { sub: "ada", iss: "https://id.example" } }, "https://id.example#ada"],
    [{ extra: { subject: "ada" } }, "ada"],
    [{ extra: { userId: 7 } }, "7"],
    [{ extra: { claims: { iss: "https://id.example", sub: "ada" } } }, "https://id.example#ada"],
    [{ extra: { payload: { sub: "ada" } } }, "ada"],
    [{ subject: "ada", clientId: "app" }, "ada"],
    [{ extra: { sub: " ", user: { sub: "ada" } } }, "ada"],
  ])("%j is %s", (authInfo, subject) => {
    expect(subjectOf(of(authInfo))).toBe(subject);
    expect(subjectOf({ http: { authInfo } } as never)).toBe(subject);
  });

  it.each<[unknown, RegExp]>([
    [{}, /no access token/],
    [of({ clientId: "app" }), /no subject/],
    [of({ clientId: "app", extra: { sub: "" } }), /no subject/],
    [of({ clientId: "app", extra: { sub: null, claims: "none" } }), /no subject/],
  ])("%j is refused", (extra, said) => {
    expect(() => subjectOf(extra as never)).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
    expect(() => subjectOf(extra as never)).toThrow(said);
  });
});

it("sessionOf takes the transport's session, and refuses a call without one", () => {
  expect(sessionOf({ sessionId: "s1" })).toBe("s1");
  for (const sessionId of [undefined, "", " "])
    expect(() => sessionOf({ sessionId } as never)).toThrow(expect.objectContaining({ code: "INVALID_KEY" }));
});

it("a scope has to be given; null is one", () => {
  requireScope({ scope: null }, "here");
  expect(() => requireScope({}, "here")).toThrow(/^here: scope is missing/);
  expect(() => requireScope({ scope: undefined }, "here")).toThrow(/^here: scope is undefined/);
});
