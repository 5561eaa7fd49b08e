/** F4–F9 on the embedded store. */
import { describeKillPoints } from "./lib/kill-points.ts";
import { temporaryFolder } from "./lib/processes.mjs";

describeKillPoints("sqlite", () => `${temporaryFolder()}/ledger.db`);
