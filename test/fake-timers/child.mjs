/**
 * The scenario in a process whose timers are faked: by node:test, or by functions that never call back. Before or after the
 * package is loaded. Writes what happened as one line of JSON.
 */
import { mock } from "node:test";
import { scenario } from "./scenario.mjs";

const { store, fake, loaded } = JSON.parse(process.argv[2]);

const FAKES = {
  "node:test": () => mock.timers.enable(),
  "node:test, setTimeout alone": () => mock.timers.enable({ apis: ["setTimeout"] }),
  "process.nextTick that never runs": () => {
    // What Node itself has under way keeps its own: as in a Jest environment, where the tests' process object is a copy.
    const real = process.nextTick;
    process.nextTick = function nextTick(run, ...args) {
      if (/nevertwice|dist\//.test(new Error().stack.split("\n")[2] ?? "")) return;
      real.call(process, run, ...args);
    };
  },
};

if (loaded === "after") FAKES[fake]();
const nevertwice = await import("nevertwice");
if (loaded === "before") FAKES[fake]();
console.log(JSON.stringify(await scenario(nevertwice, store)));
// Mocked timers of drivers may be left.
process.exit(0);
