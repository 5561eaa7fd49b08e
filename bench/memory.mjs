// A million keys through one process: what the ledger keeps is on disk, not in the process.
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { drive, inFolder } from "./measure.mjs";

const STEP = 100_000;
// Garbage comes and goes; what leaks at a byte a key would show as far more than this over 900 000 keys.
const TOLERATED_MB = 48;

export function memoryBench({ keys }) {
  return inFolder(async (folder) => {
    const nt = nevertwice({ store: `sqlite:${join(folder, "ledger.db")}` });
    const guarded = nt.action("bench", { key: ["id"], run: async () => ({ id: "msg_1" }) });
    const rows = [];
    const resident = [];
    for (let done = 0; done < keys; done += STEP) {
      const { rate } = await drive({ total: STEP, callers: 256, call: (i) => guarded({ id: `key-${done + i}` }) });
      resident.push(process.memoryUsage().rss / 2 ** 20);
      rows.push([
        (done + STEP).toLocaleString("en"),
        resident.at(-1).toFixed(0),
        Math.round(rate).toLocaleString("en"),
      ]);
    }
    await nt.close();
    const grownBy = Math.max(...resident.slice(1)) - resident[0];
    return { rows, grownBy, flat: grownBy <= TOLERATED_MB };
  });
}
