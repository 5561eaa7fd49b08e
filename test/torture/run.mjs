// npm run torture -- --minutes 5 --seed 7: the fleet of the random-kills test, for as long as you like; then programs that
// went through a bundler, and several copies of the package in one process, thousands of calls each (--calls 5000); then Python
// clients and their service, killed --kills times (200) on SQLite and on PostgreSQL; then the main paths on Node 20, 22 and 24, Bun and Deno.
// --only fleet, bundles, copies, python or runtimes runs one part. Ends with exit code 1 at a violation and says how to repeat it.
import { parseArgs } from "node:util";
import { exerciseBundles } from "../bundles/long.mjs";
import { runFleet } from "../crash/lib/fleet.mjs";
import { cleanUp } from "../crash/lib/processes.mjs";
import { exercisePython } from "../python/long.mjs";
import { exerciseRuntimes } from "../runtimes/long.mjs";
import { exerciseCopies } from "../two-copies/long.mjs";

const PARTS = ["fleet", "bundles", "copies", "python", "runtimes"];
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    seed: { type: "string" },
    calls: { type: "string", default: "5000" },
    kills: { type: "string", default: "200" },
    only: { type: "string", multiple: true, default: PARTS },
  },
});
const minutes = Number(values.minutes);
const calls = Number(values.calls);
const kills = Number(values.kills);
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const isUsable =
  minutes > 0 && Number.isSafeInteger(seed) && [calls, kills].every((one) => Number.isSafeInteger(one) && one > 0);
if (!isUsable || values.only.some((part) => !PARTS.includes(part))) {
  console.error(
    "Usage: npm run torture -- --minutes 5 --seed 7 --calls 5000 --kills 200 --only fleet|bundles|copies|python|runtimes",
  );
  process.exit(2);
}

process.on("exit", cleanUp);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

const violations = [];
if (values.only.includes("fleet")) violations.push(...(await fleet()));
if (values.only.includes("bundles")) violations.push(...(await exerciseBundles({ calls, onBundle: report })));
if (values.only.includes("copies")) violations.push(...(await exerciseCopies({ calls, onScenario: report })));
if (values.only.includes("python"))
  violations.push(...(await exercisePython({ kills, seed, report: (text) => console.log(text) })));
if (values.only.includes("runtimes")) violations.push(...(await exerciseRuntimes({ calls, onRuntime: report })));
if (violations.length > 0) {
  for (const violation of violations) console.error(`VIOLATION ${violation}`);
  const parts = values.only.map((part) => `--only ${part}`).join(" ");
  console.error(
    `Repeat with: npm run torture -- --minutes ${minutes} --seed ${seed} --calls ${calls} --kills ${kills} ${parts}`,
  );
  process.exit(1);
}

async function fleet() {
  const endsAt = Date.now() + minutes * 60_000;
  console.log(`torture: ${minutes} min, seed ${seed}`);
  const sum = await runFleet({
    seed,
    enough: () => Date.now() >= endsAt,
    onRound: ({ rounds, kills, intents, unknown }) =>
      console.log(`round ${rounds}: ${kills} kills, ${intents} intents, ${unknown} held as unknown`),
  });
  const { rounds, kills, intents, effects, unknown } = sum;
  console.log(
    `torture: seed ${seed}, ${rounds} rounds, ${kills} kills, ${intents} intents, ${effects} effects, ${unknown} held as unknown, ${sum.violations.length} violations`,
  );
  return sum.violations;
}

function report(name, wrong) {
  console.log(`${name}: ${wrong.length === 0 ? `ok, ${calls} calls` : wrong.join("; ")}`);
}
