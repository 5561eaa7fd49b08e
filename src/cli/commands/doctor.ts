import type { Command, Context, Ledger } from "../command.ts";
import { inspectDisk, inspectModes } from "../disk.ts";
import { EXIT, exitOfError } from "../exit.ts";
import { plural } from "../format.ts";
import { type Area, type Check, inspectStore, nodeCheck, promises, unavailable, waiting } from "../health.ts";
import { ledgerJson, noLedgerYet } from "../ledger.ts";
import { countLedger } from "../ledger-counts.ts";
import { packageVersion } from "../package-version.ts";
import { endProgress, showProgress } from "../progress.ts";
import { oneLine, padEnd, wrap } from "../text.ts";

export const doctor: Command = {
  name: "doctor",
  summary: "is the ledger sound, what does it survive, is somebody needed",
  usage: [""],
  about:
    "Checks the ledger's settings and every row of it, the disk under it, and what waits in it. Exit code 0: healthy. 1: a problem was found (✗), a waiting doubt among them. 3: the store is not available. Notes (!) are worth knowing and fail nothing.",
  flags: {},
  operands: 0,
  examples: [
    ["doctor", "look at everything"],
    ["doctor --json || notify-somebody", "from cron"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  showProgress(context.io, "looking at every row …");
  const { areas, code } = await examine(context, ledger);
  endProgress(context.io);
  const problems = areas.flatMap(({ checks }) => checks).filter(({ level }) => level === "problem").length;
  if (context.args.on("json")) {
    context.json({
      ledger: ledgerJson(ledger),
      healthy: problems === 0,
      version: packageVersion(),
      traits: ledger.exists ? ledger.store.traits : null,
      checks: areas.flatMap(({ title, checks }) => checks.map((check) => ({ area: title, ...check }))),
    });
    return code;
  }
  for (const area of areas) tell(context, area);
  const { green, red } = context.paint;
  context.line(problems === 0 ? green("Healthy.") : red(`${plural(problems, "problem")} found.`));
  return code;
}

async function examine(context: Context, ledger: Ledger): Promise<{ areas: Area[]; code: number }> {
  const tenant = context.args.text("tenant");
  const program: Area = {
    title: "program",
    checks: [{ name: "nevertwice", value: packageVersion(), level: "ok" }, nodeCheck(process.version)],
  };
  const place: Check[] = [
    { name: "store", value: oneLine(ledger.name), level: "ok" },
    { name: "chosen", value: ledger.why, level: "ok" },
  ];
  const areas = (checks: readonly Check[], ...more: Area[]) => {
    const all = [program, { title: "ledger", checks: [...place, ...checks] }, ...more];
    return all.filter((area) => area.checks.length > 0);
  };
  const disk: Area = { title: "disk", checks: await diskChecks(ledger) };
  if (!ledger.exists) {
    const yet: Check = { name: "exists", value: noLedgerYet(ledger), level: "note" };
    return { areas: areas([yet], disk), code: codeOf([program, disk]) };
  }
  try {
    const found = await inspectStore(ledger.store);
    const counts = await countLedger(ledger.store, tenant);
    const waits: Area = { title: "waiting", checks: await waiting(ledger.store, counts, tenant) };
    const all = areas([...found, ...promises(ledger.store.traits)], disk, waits);
    return { areas: all, code: codeOf(all) };
  } catch (error) {
    return { areas: areas([unavailable(error)], disk), code: exitOfError(error) };
  }
}

function codeOf(areas: readonly Area[]): number {
  return areas.some(({ checks }) => checks.some(({ level }) => level === "problem")) ? EXIT.problem : EXIT.ok;
}

async function diskChecks(ledger: Ledger): Promise<Check[]> {
  const file = /^(?:sqlite|file):(.+)$/.exec(ledger.name)?.[1];
  return file === undefined ? [] : [...inspectModes(file), ...(await inspectDisk(file))];
}

const NAME_WIDTH = 16;

function tell({ line, paint, width }: Context, { title, checks }: Area): void {
  line(paint.bold(title));
  for (const { name, value, level, advice } of checks) {
    const mark = { ok: paint.green("✓"), note: paint.yellow("!"), problem: paint.red("✗") }[level];
    const [first = "", ...rest] = wrap(value, Math.min(width, 110) - NAME_WIDTH - 4);
    line(`  ${mark} ${paint.dim(padEnd(name, NAME_WIDTH))}${first}`);
    for (const more of rest) line(" ".repeat(NAME_WIDTH + 4) + more);
    const advised = advice === undefined ? [] : wrap(advice, Math.min(width, 110) - NAME_WIDTH - 6);
    advised.forEach((text, i) => {
      line(`${" ".repeat(NAME_WIDTH + 4)}${i === 0 ? "→ " : "  "}${text}`);
    });
  }
  line();
}
