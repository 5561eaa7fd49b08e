/** One timer for all who wait equally long. */
import { expect, it } from "vitest";
import { Patience, QueryTimeout } from "./timeout.ts";

it("who has no answer in time gives up, in the order of coming; who has one does not", async () => {
  const patience = new Patience(20);
  const gaveUp: string[] = [];
  const begin = (name: string) =>
    new Promise<QueryTimeout>((resolve) => {
      const wait = patience.begin((error) => {
        gaveUp.push(name);
        resolve(error);
      });
      if (name.startsWith("answered")) patience.end(wait);
    });
  void begin("answered first");
  const first = begin("first");
  void begin("answered");
  await new Promise((later) => setTimeout(later, 5));
  const second = begin("second");
  expect(await first).toBeInstanceOf(QueryTimeout);
  expect(await first).toMatchObject({ timeoutMs: 20 });
  // The timer went off for the first one; the second has its full time, and is not forgotten.
  await second;
  expect(gaveUp).toEqual(["first", "second"]);
  const third = begin("third");
  await third;
  expect(gaveUp).toEqual(["first", "second", "third"]);
});

it("a program is kept alive while somebody waits, and not longer", () => {
  const patience = new Patience(60_000);
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const [one, other] = [patience.begin(() => {}), patience.begin(() => {})];
  expect(timers()).toBe(before + 1);
  patience.end(one);
  expect(timers()).toBe(before + 1);
  patience.end(other);
  expect(timers()).toBe(before);
  const next = patience.begin(() => {});
  expect(timers()).toBe(before + 1);
  patience.end(next);
  // Twice is once.
  patience.end(next);
  expect(timers()).toBe(before);
});
