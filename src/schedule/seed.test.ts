import { describe, expect, it } from "vitest";
import { seed } from "./seed.ts";

const TOPICS = ["reliability", "cost", "testing", "security", "design"];

describe("R3: a seed per job and slot", () => {
  it("draws the same in every process: these values are part of the contract", () => {
    const drawn = seed("post", "2026-06-19");
    expect(drawn.hex).toBe("1220ccd87285c76589b867a0b9d49e5fa9cd08ac8518bde652ab881433c9070c");
    expect([drawn.int(0, 999), drawn.pick(["a", "b", "c", "d", "e"]), drawn.of("tone").int(0, 999)]).toEqual([
      428,
      "e",
      746,
    ]);
  });

  it("two runs of one slot draw alike, whatever else they do; another slot or job draws otherwise", () => {
    const draw = (job: string, slot: string) => {
      const s = seed(job, slot);
      return [s.pick(TOPICS), s.shuffle(TOPICS), s.int(1, 1_000_000), s.fraction()];
    };
    expect(draw("post", "2026-06-19")).toEqual(draw("post", "2026-06-19"));
    expect(draw("post", "2026-06-20")).not.toEqual(draw("post", "2026-06-19"));
    expect(draw("news", "2026-06-19")).not.toEqual(draw("post", "2026-06-19"));
    expect(seed("a:b", "c").hex).not.toBe(seed("a", "b:c").hex);
  });

  it("a purpose has draws of its own, which do not depend on what was drawn before", () => {
    const one = seed("post", "s");
    one.pick(TOPICS);
    expect(one.of("tone").int(0, 1e9)).toBe(seed("post", "s").of("tone").int(0, 1e9));
    expect(one.of("tone").hex).not.toBe(one.of("topic").hex);
  });

  it("picks every topic about equally often over many slots", () => {
    const counts = new Map<string, number>();
    for (let slot = 0; slot < 5_000; slot += 1) {
      const topic = seed("post", `slot ${slot}`).pick(TOPICS);
      counts.set(topic, (counts.get(topic) ?? 0) + 1);
    }
    // 1 000 each on average; five standard deviations are 141.
    for (const topic of TOPICS) expect(Math.abs((counts.get(topic) ?? 0) - 1_000)).toBeLessThan(142);
  });

  it("shuffles a copy, and loses nothing", () => {
    const list = Object.freeze([1, 2, 3, 4, 5, 6, 7, 8]);
    const shuffled = seed("j", "s").shuffle(list);
    expect([...shuffled].sort()).toEqual(list);
    expect(shuffled).not.toEqual(list);
  });

  it("says what is wrong", () => {
    expect(() => seed("", "s")).toThrow('seed: job is ""; give a text that is not blank.');
    expect(() => seed("j", "s").pick([])).toThrow("seed.pick: the list is empty");
    expect(() => seed("j", "s").int(3, 1)).toThrow("two whole numbers, the smaller one first");
  });
});
