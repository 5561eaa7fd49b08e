/** F1, F3, F9, F12 on the JSONL ledger: many processes on one file, alive and killed at random. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { effort } from "../support/effort.mjs";
import { runFleet } from "./lib/fleet.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { viewLedger } from "./lib/recovery.mjs";

const RIVAL = fileURLToPath(new URL("./rival.mjs", import.meta.url));
const PROCESSES = 6;
const KILLS = effort(10, 40);

afterAll(cleanUp);

async function race(intents: number, atOnce: number, open: boolean) {
  const folder = temporaryFolder();
  const effects = `${folder}/effects`;
  writeFileSync(effects, "");
  const shared = { ledger: `${folder}/ledger.jsonl`, effects, intents, atOnce, open };
  const rivals = Array.from({ length: PROCESSES }, (_, me) => startProgram(RIVAL, { ...shared, me }));
  await Promise.all(rivals.map((rival) => rival.event("ready")));
  for (const rival of rivals) rival.tell("go");
  await Promise.all(rivals.map((rival) => rival.event("ran")));
  await Promise.all(rivals.map((rival) => rival.exited));
  const complaints = rivals.flatMap((rival) =>
    rival.said.filter((one) => one.event === "threw" || one.event === "odd"),
  );
  const lines = readFileSync(effects, "utf8").trim().split("\n").sort();
  return { complaints, lines, after: await viewLedger(shared.ledger) };
}

const intended = (intents: number) => Array.from({ length: intents }, (_, i) => `i${i}`).sort();

it.each([
  { name: "one call at a time each", intents: 300, atOnce: 1 },
  { name: "sixteen calls at a time each", intents: 1_500, atOnce: 16 },
])(
  "F12: six processes on one JSONL file, $name: every effect once, no lock error",
  async ({ intents, atOnce }) => {
    const { complaints, lines, after } = await race(intents, atOnce, true);
    expect(complaints).toEqual([]);
    expect(lines).toEqual(intended(intents));
    expect(after.bad).toEqual([]);
    expect(after.records.filter((record) => record.state === "confirmed").length).toBe(intents);
  },
  120_000,
);

it("six processes make one JSONL ledger at the same moment", async () => {
  for (const intents of [1, 8, 40]) {
    const { complaints, lines } = await race(intents, 8, false);
    expect(complaints).toEqual([]);
    expect(lines).toEqual(intended(intents));
  }
}, 120_000);

it("F3 F9: a fleet on a JSONL file killed at random moments: no effect twice, nothing acknowledged lost", async () => {
  const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const ledger = `${temporaryFolder()}/ledger.jsonl`;
  const sum = await runFleet({ seed, ledger, enough: ({ kills, rounds }) => kills >= KILLS || rounds >= 30 });
  console.log(
    `JSONL, seed ${seed}: ${sum.kills} kills, ${sum.intents} intents, ${sum.effects} effects, ${sum.unknown} unknown`,
  );
  expect(sum.violations).toEqual([]);
  expect(sum.kills).toBeGreaterThanOrEqual(KILLS);
}, 240_000);
