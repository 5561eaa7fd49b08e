// npm run torture -- --minutes 5 --seed 7: the fleet of the random-kills test, for as long as you like. Ends with exit
// code 1 at the first violation and says how to repeat it.
import { parseArgs } from "node:util";
import { runFleet } from "../crash/lib/fleet.mjs";
import { cleanUp } from "../crash/lib/processes.mjs";

const { values } = parseArgs({ options: { minutes: { type: "string", default: "5" }, seed: { type: "string" } } });
const minutes = Number(values.minutes);
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
if (!(minutes > 0) || !Number.isSafeInteger(seed)) {
  console.error("Usage: npm run torture -- --minutes 5 --seed 7");
  process.exit(2);
}

const endsAt = Date.now() + minutes * 60_000;
process.on("exit", cleanUp);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

console.log(`torture: ${minutes} min, seed ${seed}`);
const sum = await runFleet({
  seed,
  enough: () => Date.now() >= endsAt,
  onRound: ({ rounds, kills, intents, unknown }) =>
    console.log(`round ${rounds}: ${kills} kills, ${intents} intents, ${unknown} held as unknown`),
});
const { rounds, kills, intents, effects, unknown, violations } = sum;
console.log(
  `torture: seed ${seed}, ${rounds} rounds, ${kills} kills, ${intents} intents, ${effects} effects, ${unknown} held as unknown, ${violations.length} violations`,
);
if (violations.length > 0) {
  for (const violation of violations) console.error(`VIOLATION ${violation}`);
  console.error(`Repeat with: npm run torture -- --minutes ${minutes} --seed ${seed}`);
  process.exit(1);
}
