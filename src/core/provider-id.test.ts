import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { idIn, keptProviderId, providerId, providerIdForms } from "./provider-id.ts";
import { sealer } from "./seal.ts";

describe("A6: the id in a result", () => {
  it.each([
    ["a text", "msg_1", "msg_1"],
    ["id", { id: "ch_1", object: "charge" }, "ch_1"],
    ["a whole number", { id: 42 }, "42"],
    ["nodemailer's", { messageId: "<a@b>", accepted: [] }, "<a@b>"],
    ["Amazon SES's", { MessageId: "0100-x" }, "0100-x"],
    ["Postmark's", { MessageID: "b7-1" }, "b7-1"],
    ["Twilio's", { sid: "SM1" }, "SM1"],
    ["Slack's", { ok: true, ts: "1503435956.000247" }, "1503435956.000247"],
    ["Resend's", { data: { id: "re_1" }, error: null }, "re_1"],
    ["JSON as text", '{"id":"mail_1"}', "mail_1"],
    ["id before messageId", { messageId: "b", id: "a" }, "a"],
    ["none", { ok: true }, undefined],
    ["an empty one", { id: "" }, undefined],
    ["a fraction", { id: 1.5 }, undefined],
    ["a list", [{ id: "a" }], undefined],
    ["text that is no JSON", "{not json", undefined],
    ["deep JSON", "[".repeat(10_000), undefined],
    ["null", null, undefined],
    ["a number", 7, undefined],
  ])("%s", (_, result, expected) => {
    expect(idIn(result)).toBe(expected);
  });
});

describe("A6: the form an id is kept in", () => {
  it.each([
    ["<CAF+x@mail.example>", "CAF+x@mail.example"],
    [" msg_1\n", "msg_1"],
    ["<>", "<>"],
    ["a".repeat(255), "a".repeat(255)],
    ["a".repeat(256), null],
    ["two words", null],
    ["", null],
    ["a\u0000b", null],
    ["a\ud800", null],
    ["\u001b[31m", null],
  ])("%j is kept as %j", (given, expected) => {
    expect(providerId(given)).toBe(expected);
  });

  it("with encryption it is a keyed digest, found under every key and from before there was one", () => {
    const [first, second] = [randomBytes(32), randomBytes(32)];
    const old = sealer(first).digestKeys;
    const rotated = sealer([second, first]).digestKeys;
    const kept = keptProviderId("msg_1", old);
    expect(kept).not.toContain("msg_1");
    expect(keptProviderId("msg_1", undefined)).toBe("msg_1");
    expect(keptProviderId("msg_1", rotated)).not.toBe(kept);
    expect(providerIdForms("msg_1", rotated)).toEqual(["msg_1", keptProviderId("msg_1", rotated), kept]);
    expect(providerIdForms("msg_2", rotated)).not.toContain(kept);
  });
});
