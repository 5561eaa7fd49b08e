/** The commands, in the order the help shows them. */
import type { Command } from "./command.ts";
import { claim } from "./commands/claim.ts";
import { doctor } from "./commands/doctor.ts";
import { each } from "./commands/each.ts";
import { enqueue } from "./commands/enqueue.ts";
import { forget } from "./commands/forget.ts";
import { heartbeat, sent } from "./commands/heartbeat.ts";
import { importLedger } from "./commands/import.ts";
import { ls } from "./commands/ls.ts";
import { mcp } from "./commands/mcp.ts";
import { migrate } from "./commands/migrate.ts";
import { prevented } from "./commands/prevented.ts";
import { requests } from "./commands/requests.ts";
import { resend } from "./commands/resend.ts";
import { resolve } from "./commands/resolve.ts";
import { retry } from "./commands/retry.ts";
import { run } from "./commands/run.ts";
import { runs } from "./commands/runs.ts";
import { serve } from "./commands/serve.ts";
import { settle } from "./commands/settle.ts";
import { show } from "./commands/show.ts";
import { stats } from "./commands/stats.ts";
import { status } from "./commands/status.ts";
import { sweep } from "./commands/sweep.ts";
import { take } from "./commands/take.ts";
import { worker } from "./commands/worker.ts";

export const COMMANDS: readonly Command[] = [
  ls,
  show,
  status,
  resolve,
  retry,
  resend,
  requests,
  forget,
  worker,
  each,
  sweep,
  stats,
  prevented,
  doctor,
  migrate,
  run,
  runs,
  importLedger,
  serve,
  claim,
  sent,
  heartbeat,
  settle,
  enqueue,
  take,
  mcp,
];
