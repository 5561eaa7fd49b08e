/** D7: Python clients and the service, killed at random moments. `npm run torture -- --only python` kills 200 on each store. */
import { afterAll, expect, it } from "vitest";
import { cleanUp, temporaryFolder } from "../crash/lib/processes.mjs";
import { freshDatabase } from "../services/addresses.ts";
import { effort } from "../support/effort.mjs";
import { killPython } from "./kills.mjs";

const KILLS = Number(process.env.NEVERTWICE_PYTHON_KILLS ?? effort(6, 24));
const database = await freshDatabase();

afterAll(cleanUp);

it.each([
  ["SQLite", `sqlite:${temporaryFolder()}/ledger.db`],
  ["PostgreSQL", database.url],
])(
  "D7: Python clients and the service on %s, killed at random: no effect twice, every gap is unknown",
  async (_, store) => {
    const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const sum = await killPython({ store, kills: KILLS, seed });
    console.log(
      `seed ${seed}: ${sum.kills} kills (${sum.ofService} of the service), ${sum.intents} intents, ${sum.effects} effects, ${sum.done} done, ${sum.unknown} held as unknown`,
    );
    expect(sum.violations).toEqual([]);
    expect(sum.kills).toBeGreaterThanOrEqual(KILLS);
    expect(sum.done).toBeGreaterThan(0);
  },
  900_000,
);
