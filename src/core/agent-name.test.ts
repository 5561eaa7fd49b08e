import { expect, it } from "vitest";
import { agentFrom, checkAgent } from "./agent-name.ts";

it.each(["billing-bot", "claude:code-reviewer", "Zoë 王", "a".repeat(200)])("A6: %j is a name", (agent) => {
  expect(() => checkAgent(agent, "here")).not.toThrow();
});

it.each([
  ["", /here: agent is a string of 0 characters.*1 to 200/],
  ["  ", /not blank/],
  ["a".repeat(201), /a string of 201 characters/],
  [undefined, /agent is undefined/],
  [7, /agent is 7/],
  ["a\nb", /a control character \(at position 1\)/],
  ["a\u001b[31mb", /control character/],
  ["a\u0000", /control character/],
  ["a\u2028b", /control character/],
  ["a\ud800", /half of a surrogate pair/],
])("A6: %j is refused", (agent, message) => {
  expect(() => checkAgent(agent, "here")).toThrow(message as RegExp);
});

it("A6: a framework's name is made fit, never refused", () => {
  expect(agentFrom(" mail\nbot\u001b ")).toBe("mail bot");
  expect(agentFrom("a".repeat(300))).toHaveLength(200);
  expect(agentFrom("a\ud800")).toBe("a\ufffd");
  for (const none of ["", "  ", undefined, null, 7, {}]) expect(agentFrom(none)).toBeUndefined();
});
