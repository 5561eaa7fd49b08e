/** R10: seed.rotate takes the items of a list in turn, so that no two slots in a row get the same one. */
import { describe, expect, it } from "vitest";
import { seed } from "./seed.ts";
import { slotOf } from "./slot.ts";
import { slotNumber } from "./slot-number.ts";
import { slotOfInstant, timetable } from "./timetable.ts";

const DAY = 86_400_000;
const LISTS = [2, 3, 4, 5, 7, 12].map((length) => Array.from({ length }, (_, at) => `bucket ${at}`));

function expectNoRepeats(slots: readonly string[], times?: ReturnType<typeof timetable>) {
  for (const list of LISTS) {
    const drawn = slots.map((slot) => seed("post", slot, times).rotate(list));
    const repeats = drawn.filter((one, at) => at > 0 && one === drawn[at - 1]);
    expect([list.length, repeats]).toEqual([list.length, []]);
    // Each has its turn.
    expect(new Set(drawn).size).toBe(list.length);
  }
}

/** The slots of three years, one after the other. */
function slotsOf(per: string, stepMs: number, tz?: string, count = 1_100): string[] {
  const from = Date.parse("2025-12-01T12:00:00Z");
  const all = Array.from({ length: count }, (_, at) => slotOf(per, from + at * stepMs, tz));
  return all.filter((slot, at) => at === 0 || slot !== all[at - 1]);
}

describe("R10: no bucket twice in a row", () => {
  it.each([
    ["day", DAY, undefined],
    ["day", DAY / 2, "Pacific/Auckland"],
    ["week", DAY, undefined],
    ["month", 10 * DAY, undefined],
    ["quarter", 30 * DAY, undefined],
    ["year", 180 * DAY, undefined],
    ["hour", 600_000, undefined],
    ["hour", 600_000, "Europe/Berlin"],
    ["15m", 300_000, undefined],
    ["6h", 3_600_000, "America/New_York"],
    ["45d", 10 * DAY, undefined],
  ])("per %s (step %i, zone %s)", (per, stepMs, tz) => {
    expectNoRepeats(slotsOf(per, stepMs, tz));
  });

  it("over the end of a year and of a year with 53 weeks", () => {
    expect(slotNumber("2027-W01")).toBe((slotNumber("2026-W53") as number) + 1);
    expect(slotNumber("2025-W01")).toBe((slotNumber("2024-W52") as number) + 1);
    expect(slotNumber("2027-01-01")).toBe((slotNumber("2026-12-31") as number) + 1);
    expect(slotNumber("2027-Q1")).toBe((slotNumber("2026-Q4") as number) + 1);
    expect(slotNumber("2027-01")).toBe((slotNumber("2026-12") as number) + 1);
    expect(slotNumber("2027/1y")).toBe((slotNumber("2026/1y") as number) + 1);
  });

  it.each([
    ["0 6 * * *", "Europe/Berlin"],
    ["30 2 * * *", "Europe/Berlin"],
    ["0 6 * * 1-5", "America/New_York"],
    ["0 6 * * 1,3,5", "UTC"],
    ["0 0 1 * *", "UTC"],
    ["0 9,18 * * *", "Europe/Berlin"],
    ["*/20 9-17 * * 1-5", "Europe/Berlin"],
    ["0 * * * *", "Europe/Berlin"],
    ["*/30 * * * *", "Europe/Berlin"],
    ["*/15 * * * * *", "UTC"],
  ])("of the schedule %s in %s", (cron, tz) => {
    const times = timetable({ cron, tz }, "test");
    const slots: string[] = [];
    let at = Date.parse("2026-03-24T00:00:00Z");
    for (let count = 0; count < 600; count += 1) {
      at = times.next(at) as number;
      slots.push(slotOfInstant(at));
    }
    expectNoRepeats(slots, times);
  });

  it("of every 5 minutes, and of every 36 hours", () => {
    for (const every of ["5m", "36h"]) {
      const times = timetable({ every }, "test");
      expectNoRepeats(times.upTo(Date.parse("2026-06-19T06:00:00Z"), 400).map(slotOfInstant), times);
    }
  });
});

describe("R10: seed.rotate", () => {
  const topics = ["reliability", "cost", "testing"];

  it("is the same for every run of a slot, whatever else was drawn, and whichever job asks", () => {
    const drawn = seed("post", "2026-06-19");
    drawn.int(0, 9);
    expect(drawn.rotate(topics)).toBe(seed("other", "2026-06-19").rotate(topics));
    expect(seed.rotate(topics, "2026-06-19")).toBe(drawn.rotate(topics));
    expect(seed("post", "2026-06-19").of("tone").rotate(topics)).toBe(drawn.rotate(topics));
    expect(drawn.rotate(topics, "2026-06-20")).not.toBe(drawn.rotate(topics));
  });

  it("a list of one has nothing else: it comes every time", () => {
    expect(["2026-06-19", "2026-06-20"].map((slot) => seed.rotate(["only"], slot))).toEqual(["only", "only"]);
  });

  it("goes on with the changed list, and `not` bridges the day of the change", () => {
    for (let day = 1; day < 28; day += 1) {
      const [today, tomorrow] = [day, day + 1].map((one) => `2026-02-${String(one).padStart(2, "0")}`);
      const last = seed.rotate(topics, today as string);
      for (const changed of [[...topics, "security"], topics.slice(1), ["new", ...topics], [...topics].reverse()])
        expect(seed.rotate(changed, tomorrow as string, { not: last })).not.toBe(last);
    }
    expect(seed.rotate(["only"], "2026-06-19", { not: "only" })).toBe("only");
  });

  it("a text without an order is drawn from: always the same, and every item comes", () => {
    const drawn = Array.from({ length: 60 }, (_, at) => seed.rotate(topics, `commit ${at}`));
    expect(new Set(drawn).size).toBe(3);
    expect(seed.rotate(topics, "commit 1")).toBe(drawn[1]);
    for (const slot of ["2026", "2026-13", "2026-Q5", "2026-W60", "2026-02-31x"]) expect(slotNumber(slot)).toBeNull();
  });

  it("says what is wrong", () => {
    expect(() => seed.rotate([], "2026-06-19")).toThrow(/the list is empty/);
    expect(() => seed.rotate(["a", "b", "a"], "2026-06-19")).toThrow(/has "a" more than once/);
    expect(() => seed.rotate(topics, " ")).toThrow(/slot is " "; give the slot's text/);
    expect(() => seed.rotate(topics, "2026-06-19T06:00Z/slot")).toThrow(/scheduled instant.*timetable\(\{ cron \}\)/);
  });
});
