import { expect, it } from "vitest";
import { bellsOf, doorbellOf, isDoorbell } from "./doorbell.ts";
import { BLANK_RECORD } from "./record.ts";

it("work rings for those who serve everybody and for those who serve its tenant, and for nobody else", () => {
  const bells = bellsOf({ ...BLANK_RECORD, action: "send", tenant: "acme" });
  expect(bells).toEqual([doorbellOf("send"), doorbellOf("send", "acme")]);
  expect(bells.every(isDoorbell)).toBe(true);
  expect(bells).not.toContain(doorbellOf("send", "globex"));
  expect(bells).not.toContain(doorbellOf("call", "acme"));
  expect(bellsOf({ ...BLANK_RECORD, action: "send", tenant: "" })).toEqual([doorbellOf("send")]);
});

it("no action is named so that its bell is another's, tenant or not", () => {
  const names = [
    doorbellOf("send"),
    doorbellOf("send", "acme"),
    doorbellOf('["send","acme"]'),
    doorbellOf("sen", "dacme"),
  ];
  expect(new Set(names).size).toBe(names.length);
});
