/** F4–F9 on PostgreSQL: its clients are killed, at each point of an attempt and at random moments. */
import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { effort } from "../support/effort.mjs";
import { runFleet } from "./lib/fleet.mjs";
import { describeKillPoints } from "./lib/kill-points.ts";

const KILLS = effort(8, 40);
const MAX_ROUNDS = 30;

const { url } = await freshDatabase();
/** A schema of its own: a ledger of its own. */
const newLedger = () => `${url}?schema=t_${randomBytes(6).toString("hex")}`;

describeKillPoints("postgres", newLedger);

it("F3 F9: a fleet killed at random moments: no effect twice, nothing acknowledged lost", async () => {
  const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const enough = ({ kills, rounds }: { kills: number; rounds: number }) => kills >= KILLS || rounds >= MAX_ROUNDS;
  const sum = await runFleet({ seed, ledger: newLedger(), enough });
  console.log(`seed ${seed}: ${sum.kills} kills, ${sum.intents} intents, ${sum.effects} effects, ${sum.unknown} held`);
  expect(sum.violations).toEqual([]);
  expect(sum.kills).toBeGreaterThanOrEqual(KILLS);
}, 180_000);
