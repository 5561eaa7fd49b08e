import { expect, it } from "vitest";
import type { LeaseQuery } from "../../core/store.ts";
import { LapsedLooks } from "./lapsed-looks.ts";

const query: LeaseQuery = { holder: "h", limit: 10, leaseMs: 60_000, to: "claimed" };
const mail = { ...query, actions: ["mail"] };

it("looks at once, then every five seconds", () => {
  const looks = new LapsedLooks();
  expect(looks.due(mail, 1_000)).toBe(true);
  looks.foundAll(mail, 1_000);
  expect(looks.due(mail, 5_999)).toBe(false);
  expect(looks.due(mail, 6_000)).toBe(true);
});

it("each kind has a look of its own: by actions and by tenant, whatever the holder and the limit", () => {
  const looks = new LapsedLooks();
  looks.foundAll(mail, 1_000);
  expect(looks.due({ ...mail, holder: "another", limit: 1 }, 1_001)).toBe(false);
  expect(looks.due({ ...mail, tenant: "acme" }, 1_001)).toBe(true);
  expect(looks.due({ ...query, actions: ["sms"] }, 1_001)).toBe(true);
  expect(looks.due(query, 1_001)).toBe(true);
});

it("looks again after the clock was set back", () => {
  const looks = new LapsedLooks();
  looks.foundAll(mail, 1_000_000);
  expect(looks.due(mail, 1_000)).toBe(true);
});

it("remembers a bounded number of kinds, and looks again early for those it forgot", () => {
  const looks = new LapsedLooks();
  const kind = (n: number) => ({ ...query, actions: [`action-${n}`] });
  for (let n = 0; n < 150; n += 1) looks.foundAll(kind(n), 1_000);
  expect(looks.due(kind(0), 1_001)).toBe(true);
  expect(looks.due(kind(149), 1_001)).toBe(false);
});
