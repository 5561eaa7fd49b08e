import { PACKAGE_VERSION } from "../../core/package-version.ts";
import type { Command, Context, Ledger } from "../command.ts";
import { countLedger } from "../ledger/counts.ts";
import { damagedCheck, quarantineAll } from "../ledger/damaged.ts";
import { inspectDisk, inspectModes } from "../ledger/disk.ts";
import {
  type Area,
  type Check,
  inspectStore,
  nodeCheck,
  promises,
  sqliteCheck,
  unavailable,
  waiting,
} from "../ledger/health.ts";
import { fileBehind, ledgerJson, noLedgerYet, requireStore } from "../ledger/open.ts";
import { EXIT, exitOfError } from "../term/exit.ts";
import { plural } from "../term/format.ts";
import { endProgress, showProgress } from "../term/progress.ts";
import { oneLine, padEnd, wrap } from "../term/text.ts";

export const doctor: Command = {
  name: "doctor",
  summary: "is the ledger sound, what does it survive, is somebody needed",
  usage: ["", "--deep", "--quarantine <keys>"],
  about:
    "Checks the ledger's settings, its newest records, the disk under it, and what waits in it: quick on a ledger of any size. --deep reads everything: the structure of the file and every record. A small ledger is always read as a whole. Exit code 0: healthy. 1: a problem was found (✗), a waiting doubt among them. 3: the store is not available. Notes (!) are worth knowing and fail nothing. A record that cannot be read is named: calls for its intent are refused, and all others work. --quarantine sets such a record aside and keeps its bytes. The next call then runs its intent, whether or not it has happened: look into it first.",
  flags: {
    deep: { about: "check the whole ledger: every record is read (a million take some seconds)" },
    quarantine: { value: "keys", about: "set these damaged records aside, and free their keys" },
  },
  operands: 0,
  examples: [
    ["doctor", "a quick look"],
    ["doctor --deep", "after a crash of the disk, a restore or a copy: every record"],
    ["doctor --json || notify-somebody", "from cron"],
    ["doctor --quarantine nt1_…", "give up the guard of a record that cannot be read, by its full key"],
  ],
  run,
};

async function run(context: Context): Promise<number> {
  const ledger = context.ledger();
  if (context.args.on("quarantine")) return quarantine(context);
  const deep = context.args.on("deep");
  showProgress(context.io, deep ? "reading every record …" : "checking …");
  const { areas, code } = await examine(context, ledger, deep);
  endProgress(context.io);
  const problems = countProblems(areas.flatMap(({ checks }) => checks));
  if (context.args.on("json")) {
    context.json({
      ledger: ledgerJson(ledger),
      healthy: problems === 0,
      deep,
      version: PACKAGE_VERSION,
      traits: ledger.exists ? ledger.store.traits : null,
      checks: areas.flatMap(({ title, checks }) => checks.map((check) => ({ area: title, ...check }))),
    });
    return code;
  }
  for (const area of areas) tell(context, area);
  const { green, red } = context.paint;
  const isPartial = areas.some(({ checks }) => checks.some(({ partial }) => partial));
  const healthy = isPartial ? "Healthy in what was read." : "Healthy.";
  context.line(problems === 0 ? green(healthy) : red(`${plural(problems, "problem")} found.`));
  if (isPartial) context.line(`These were quick checks. To read every record: ${context.suggest("doctor --deep")}`);
  return code;
}

async function quarantine(context: Context): Promise<number> {
  const aside = await quarantineAll(requireStore(context), context.args.list("quarantine"));
  if (context.args.on("json")) {
    context.json({ ledger: ledgerJson(context.ledger()), quarantined: aside });
    return EXIT.ok;
  }
  for (const { key, keptIn } of aside) context.line(`${oneLine(key)}: set aside. Its bytes are in ${oneLine(keptIn)}.`);
  context.line(
    "These intents are guarded no more: the next call of each runs it. Put a record back before that if it may have happened.",
  );
  return EXIT.ok;
}

// What a store finds when it compares each row with its checksum: the same rows that the check "damaged" names.
const CHECKSUM_FINDINGS = new Set(["integrity", "checksums"]);

async function examine(context: Context, ledger: Ledger, deep: boolean): Promise<{ areas: Area[]; code: number }> {
  const tenant = context.args.text("tenant");
  const program: Area = {
    title: "program",
    checks: [
      { name: "nevertwice", value: PACKAGE_VERSION, level: "ok" },
      nodeCheck(process.version),
      ...(ledger.name.startsWith("sqlite:") ? sqliteCheck() : []),
    ],
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
    const found = await inspectStore(ledger.store, { quick: !deep });
    // Where the store has compared every record with its checksum, and found them sound, they need not be read again.
    const allRead = deep && found.some(({ name, level }) => CHECKSUM_FINDINGS.has(name) && level === "ok");
    found.push(
      allRead
        ? { name: "damaged", value: "none", level: "ok" }
        : await damagedCheck(ledger.store, context.suggest, deep),
    );
    const counts = await countLedger(ledger.store, tenant, { waiting: !deep });
    const waits: Area = {
      title: "waiting",
      checks: await waiting(ledger.store, counts, { tenant, suggest: context.suggest }),
    };
    const all = areas([...found, ...promises(ledger.store.traits)], disk, waits);
    return { areas: all, code: codeOf(all) };
  } catch (error) {
    return { areas: areas([unavailable(error)], disk), code: exitOfError(error) };
  }
}

function countProblems(checks: readonly Check[]): number {
  const problems = checks.filter(({ level }) => level === "problem");
  const named = problems.some(({ name }) => name === "damaged");
  return problems.filter(({ name }) => !(named && CHECKSUM_FINDINGS.has(name))).length;
}

function codeOf(areas: readonly Area[]): number {
  return areas.some(({ checks }) => checks.some(({ level }) => level === "problem")) ? EXIT.problem : EXIT.ok;
}

async function diskChecks(ledger: Ledger): Promise<Check[]> {
  const named = /^(?:sqlite|file):(.+)$/.exec(ledger.name)?.[1];
  if (named === undefined) return [];
  // The disk that the ledger is on, which need not be the one a link to it is on.
  const file = fileBehind(named);
  return [...inspectModes(file), ...(await inspectDisk(file))];
}

const NAME_WIDTH = 16;

function tell({ line, paint, width }: Context, { title, checks }: Area): void {
  line(paint.bold(title));
  for (const { name, value, level, advice, command } of checks) {
    const mark = { ok: paint.green("✓"), note: paint.yellow("!"), problem: paint.red("✗") }[level];
    const [first = "", ...rest] = wrap(value, Math.min(width, 110) - NAME_WIDTH - 4);
    line(`  ${mark} ${paint.dim(padEnd(name, NAME_WIDTH))}${first}`);
    for (const more of rest) line(" ".repeat(NAME_WIDTH + 4) + more);
    const advised = advice === undefined ? [] : wrap(advice, Math.min(width, 110) - NAME_WIDTH - 6);
    advised.forEach((text, i) => {
      line(`${" ".repeat(NAME_WIDTH + 4)}${i === 0 ? "→ " : "  "}${text}`);
    });
    if (command !== undefined) line(`${" ".repeat(NAME_WIDTH + 6)}${command}`);
  }
  line();
}
