import { doctor } from "./commands/doctor.js";
import { ls } from "./commands/ls.js";
import { migrate } from "./commands/migrate.js";
import { resend } from "./commands/resend.js";
import { resolve } from "./commands/resolve.js";
import { retry } from "./commands/retry.js";
import { show } from "./commands/show.js";
import { stats } from "./commands/stats.js";
import { status } from "./commands/status.js";
import { sweep } from "./commands/sweep.js";
export const COMMANDS = [ls, show, status, resolve, retry, resend, sweep, stats, doctor, migrate];
//# sourceMappingURL=commands.js.map