// Several copies in one process for npm run torture, thousands of calls each. Resolves to what is wrong.
import { runCopies } from "./run.mjs";

const STORES = ["sqlite", "file"];

export async function exerciseCopies({ calls, onScenario }) {
  const wrong = [];
  for (const store of STORES) {
    for (const [scenario, drivers, expected] of [
      ["two copies", 1, [calls, calls]],
      ["the same copy twice", 1, [calls, calls]],
      ["evaluated again", 1, [calls, calls]],
      ["two copies", 2, [calls, 0]],
      ["closed before the other", 2, [calls, calls]],
    ]) {
      const name = `${scenario}, SQLite libraries: ${drivers}, store: ${store}`;
      const found = await runCopies({ scenario, drivers, store, calls }).then(
        (result) => complaints(result, expected, calls),
        (error) => [String(error)],
      );
      onScenario(name, found);
      wrong.push(...found.map((one) => `${name}: ${one}`));
    }
  }
  return wrong;
}

function complaints({ ended, effects, twice }, expected, calls) {
  const found = [];
  const done = ended.map((one) => one.done);
  if (done.join() !== expected.join()) found.push(`${done} calls done, not ${expected} (${JSON.stringify(ended)})`);
  if (effects !== calls) found.push(`${effects} effects of ${calls} intents`);
  if (twice > 0) found.push(`${twice} effects happened twice`);
  return found;
}
