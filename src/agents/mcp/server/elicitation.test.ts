import { describe, expect, it } from "vitest";
import { Elicitations } from "../elicitation.ts";
import { answersIn, heardBy, heardContext, noting } from "./elicitation.ts";

const answer = (action: string) => ({ action });

describe("the last answer counts", () => {
  it.each<[readonly string[], "not-done" | "doubt" | null]>([
    [[], null],
    [["accept"], null],
    [["decline"], "not-done"],
    [["cancel"], "not-done"],
    [["decline", "decline"], "not-done"],
    [["decline", "accept"], null],
    [["accept", "decline"], "doubt"],
    [["accept", "decline", "accept"], null],
    [["unheard of"], null],
  ])("%j", (actions, declined) => {
    const one = new Elicitations(undefined);
    for (const action of actions) one.heard(answer(action));
    expect(one.declined).toBe(declined);
  });

  it("answers that came with the call came before anything was done", () => {
    expect(new Elicitations({ a: answer("accept"), b: answer("decline") }).declined).toBe("not-done");
    const accepted = new Elicitations({ a: answer("accept") });
    expect(accepted.declined).toBe(null);
    accepted.heard(answer("decline"));
    expect(accepted.declined).toBe("doubt");
    expect(answersIn({ mcpReq: { inputResponses: { a: 1 } } })).toEqual({ a: 1 });
    expect(answersIn({})).toBeUndefined();
  });
});

it("each call hears its own questions, and no other requests", async () => {
  const ask = heardBy(async (request: { readonly method?: unknown }) => ({ action: "decline", of: request.method }));
  const [asks, other, silent] = [new Elicitations(null), new Elicitations(null), new Elicitations(null)];
  await Promise.all([
    noting(asks, async () => ask({ method: "elicitation/create" })),
    noting(other, async () => ask({ method: "sampling/createMessage" })),
    noting(silent, async () => {}),
    ask({ method: "elicitation/create" }),
  ]);
  expect([asks.declined, other.declined, silent.declined]).toEqual(["not-done", null, null]);
});

it("a call's context stays what it was, with its own means heard", async () => {
  const extra = { sessionId: "s", mcpReq: { id: 1, elicitInput: async () => answer("cancel") } };
  const heard = heardContext(extra);
  expect(heard).toMatchObject({ sessionId: "s", mcpReq: { id: 1 } });
  const one = new Elicitations(null);
  expect(await noting(one, () => heard.mcpReq.elicitInput())).toEqual(answer("cancel"));
  expect(one.declined).toBe("not-done");
});
