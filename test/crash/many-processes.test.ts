/** F12, F1: eight processes on one file. Every effect once, no lock error reaches a caller, nobody starves. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { effort } from "../support/effort.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { viewLedger } from "./lib/recovery.mjs";

const RIVAL = fileURLToPath(new URL("./rival.mjs", import.meta.url));
const PROCESSES = 8;

afterAll(cleanUp);

interface Race {
  readonly intents: number;
  readonly atOnce: number;
  readonly open: boolean;
}

/** All processes start calling at the same word; resolves when the last is done. */
async function race({ intents, atOnce, open }: Race) {
  const folder = temporaryFolder();
  const effects = `${folder}/effects`;
  writeFileSync(effects, "");
  const shared = { ledger: `${folder}/ledger.db`, effects, intents, atOnce, open };
  const rivals = Array.from({ length: PROCESSES }, (_, me) => startProgram(RIVAL, { ...shared, me }));
  await Promise.all(rivals.map((rival) => rival.event("ready")));
  for (const rival of rivals) rival.tell("go");
  const ran = await Promise.all(rivals.map(async (rival) => (await rival.event("ran")).ran as number));
  await Promise.all(rivals.map((rival) => rival.exited));
  const complaints = rivals.flatMap((rival) =>
    rival.said.filter((one) => one.event === "threw" || one.event === "odd"),
  );
  const lines = readFileSync(effects, "utf8").trim().split("\n");
  return { ran: ran.sort((a, b) => a - b), complaints, lines, after: await viewLedger(shared.ledger) };
}

function median(sorted: readonly number[]): number {
  return sorted[sorted.length >> 1] as number;
}

it.each([
  { name: "one call at a time each", atOnce: 1, intents: effort(600, 2_400), open: true },
  { name: "sixteen calls at a time each", atOnce: 16, intents: effort(1_200, 4_800), open: true },
])("eight processes, $name: every effect once, no lock error, fair shares", async ({ name, ...options }) => {
  const { ran, complaints, lines, after } = await race(options);
  console.log(`${name}: executions per process ${ran.join(", ")}`);
  expect(complaints).toEqual([]);
  expect(lines.length).toBe(options.intents);
  expect(new Set(lines).size).toBe(options.intents);
  expect(after.bad).toEqual([]);
  expect(after.records.filter((record) => record.state === "confirmed").length).toBe(options.intents);
  expect(ran.reduce((sum, one) => sum + one)).toBe(options.intents);
  expect(ran[0]).toBeGreaterThanOrEqual(median(ran) / 4);
});

it("eight processes make one ledger at the same moment", async () => {
  for (const intents of [1, 8, 40]) {
    const { complaints, lines } = await race({ intents, atOnce: 8, open: false });
    expect(complaints).toEqual([]);
    expect(lines.sort()).toEqual(Array.from({ length: intents }, (_, i) => `i${i}`).sort());
  }
});
