/** F3, F9, F12 at once: four workers on overlapping keys, killed at random moments until everything is settled. */
import { afterAll, expect, it } from "vitest";
import { effort } from "../support/effort.mjs";
import { runFleet } from "./lib/fleet.mjs";
import { cleanUp } from "./lib/processes.mjs";

const KILLS = effort(20, 100);
const MAX_ROUNDS = 60;

afterAll(cleanUp);

it("F3 F9: a fleet killed at random moments: no effect twice, nothing acknowledged lost", async () => {
  const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const sum = await runFleet({ seed, enough: ({ kills, rounds }) => kills >= KILLS || rounds >= MAX_ROUNDS });
  console.log(
    `seed ${seed}: ${sum.kills} kills in ${sum.rounds} rounds, ${sum.intents} intents, ${sum.effects} effects, ${sum.unknown} held as unknown`,
  );
  expect(sum.violations).toEqual([]);
  expect(sum.kills).toBeGreaterThanOrEqual(KILLS);
}, 180_000);
