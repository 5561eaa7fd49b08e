/** The kills of the Python client in full: 200 on SQLite, and 200 on a PostgreSQL started for it. */
import { startAll } from "../../scripts/services/start-all.mjs";
import { temporaryFolder } from "../crash/lib/processes.mjs";
import { killPython } from "./kills.mjs";

/** @param {{ kills: number, seed: number, report: (text: string) => void }} options */
export async function exercisePython({ kills, seed, report }) {
  const { addresses, close } = await startAll(["postgres"]);
  const violations = [];
  try {
    const stores = { sqlite: `sqlite:${temporaryFolder()}/ledger.db`, postgres: addresses.NEVERTWICE_TEST_POSTGRES };
    for (const [name, store] of Object.entries(stores)) {
      const sum = await killPython({
        store,
        kills,
        seed,
        onKill: (sofar) => sofar % 50 === 0 && report(`${name}: ${sofar} kills`),
      });
      report(
        `python on ${name}: seed ${seed}, ${sum.kills} kills (${sum.ofService} of the service), ${sum.intents} intents, ${sum.effects} effects, ${sum.done} done, ${sum.unknown} held as unknown, ${sum.violations.length} violations`,
      );
      violations.push(...sum.violations.map((one) => `python on ${name}: ${one}`));
    }
    return violations;
  } finally {
    await close();
  }
}
