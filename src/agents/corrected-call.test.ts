/** A model makes a mistake, is told, and corrects it. */
import { describe, expect, it, onTestFinished } from "vitest";
import { notSent, rejected } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { queuedTool } from "./queued-tool.ts";

interface Mail {
  readonly order: number;
  readonly to: string;
}

function openMemory() {
  const store = memoryStore();
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return { nt, store };
}

const WRONG: Mail = { order: 7, to: "ana" };
const RIGHT: Mail = { order: 7, to: "ana@example.com" };
const options = { name: "send_mail", scope: "t", key: ["order"], wait: 0 } as const;

function mailer(says: (error: Error) => unknown) {
  const { nt, store } = openMemory();
  const sent: string[] = [];
  const tool = guardTool(nt, options, async ({ to }: Mail) => {
    if (!to.includes("@")) throw says(new Error("invalid email"));
    sent.push(to);
    return `sent to ${to}`;
  });
  return { nt, store, tool, sent };
}

describe("a corrected call of a guarded tool", () => {
  it.each([
    ["refused for good", rejected],
    ["not sent", notSent],
  ])("%s: the first correction runs", async (_, says) => {
    const { tool, sent } = mailer(says);
    await expect(tool.answer(WRONG, undefined)).rejects.toThrow("invalid email");
    expect(await tool.answer(RIGHT, undefined)).toEqual({
      kind: "result",
      result: "sent to ana@example.com",
      note: null,
    });
    expect(sent).toEqual(["ana@example.com"]);
  });

  it("refused for good: the same values again get the stored refusal, which says what may be called", async () => {
    const { tool } = mailer(rejected);
    await expect(tool.answer(WRONG, undefined)).rejects.toThrow("invalid email");
    const again = await tool.answer(WRONG, undefined);
    expect(again).toMatchObject({
      kind: "refused",
      text: expect.stringMatching(
        /^Refused for good, and it did not happen: invalid email\. With the same values send_mail is not run again; only a call that corrects them is\./,
      ),
    });
  });

  it("a lost reply holds: other values are told that it may have happened, and are not run", async () => {
    const { tool, sent, nt, store } = mailer((error) => Object.assign(error, { code: "ECONNRESET" }));
    await tool.answer(WRONG, undefined);
    const answer = await tool.answer(RIGHT, undefined);
    expect(answer).toMatchObject({ kind: "refused", outcome: { status: "unknown", differs: ["to"] } });
    const { text } = answer as { text: string };
    expect(text).toMatch(/^It may have happened all the same/);
    expect(text).toMatch(
      /an earlier call with another to; yours was not run, and calls with other values are not either/,
    );
    expect(text).toMatch(/Do not repeat it/);
    expect(text).not.toMatch(/Refused/);
    expect(sent).toEqual([]);
    // Somebody looks, and decides: the corrected call goes through.
    const { items } = await store.list({ states: ["unknown"], limit: 1 });
    const key = items[0]?.record.key as string;
    await nt.resolve({ key }, { as: "not-done", by: "ana", reason: "the server never saw it" });
    expect(await tool.answer(RIGHT, undefined)).toMatchObject({ kind: "result" });
    expect(sent).toEqual(["ana@example.com"]);
  });

  it("a tool that records: a doubt is told of, nothing is recorded, and a corrected dead letter is", async () => {
    const { nt } = openMemory();
    let says: (error: Error) => unknown = (error) => error;
    const send = nt.action("mail", {
      key: ["order"],
      wait: 0,
      run: async ({ to }: Mail) => {
        if (!to.includes("@")) throw says(new Error("invalid email"));
      },
    });
    const tool = queuedTool(send, { scope: null });
    await send.attempt(WRONG);
    expect(await tool.answer(RIGHT, undefined)).toMatchObject({
      state: "unknown",
      created: false,
      text: expect.stringMatching(/^It may have happened.*yours was not run/),
    });
    says = rejected;
    const wrong = { ...WRONG, order: 8 };
    await send.attempt(wrong);
    const corrected = await tool.answer({ ...RIGHT, order: 8 }, undefined);
    expect(corrected).toMatchObject({ state: "pending", text: expect.stringMatching(/^Scheduled/) });
  });
});
