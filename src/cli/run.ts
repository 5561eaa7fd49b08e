/** argv in, exit code out. Everything outside comes in through `io`, so that tests see what a person would. */
import { isNevertwiceError, messageOf } from "../core/errors.ts";
import { PACKAGE_VERSION } from "../core/package-version.ts";
import { redact } from "../core/redact.ts";
import type { Args } from "./args.ts";
import type { Context, Io, Ledger } from "./command.ts";
import { parse } from "./command-line.ts";
import { findLedger } from "./ledger/open.ts";
import { COMMANDS } from "./registry.ts";
import { codeOfError, EXIT, exitOfError, UsageError } from "./term/exit.ts";
import { inFlags } from "./term/flag-words.ts";
import { shellWord } from "./term/format.ts";
import { commandHelp, overview } from "./term/help.ts";
import { choosePaint } from "./term/paint.ts";
import { harmlessJson, visible } from "./term/text.ts";

const DEFAULT_WIDTH = 80;
const NARROWEST = 40;

export async function run(argv: readonly string[], io: Io): Promise<number> {
  let opened: Ledger | null = null;
  let parsed: Args | null = null;
  try {
    const { command, args } = parse(argv, COMMANDS);
    parsed = args;
    const context = contextOf(args, io, () => {
      opened ??= announced(args, io);
      return opened;
    });
    if (args.on("version")) {
      context.line(PACKAGE_VERSION);
      return EXIT.ok;
    }
    if (command === null || args.on("help")) {
      const help = command === null ? overview(COMMANDS, context) : commandHelp(command, context);
      for (const line of help) context.line(line);
      return EXIT.ok;
    }
    return await command.run(context);
  } catch (error) {
    return report(error, argv, io, parsed);
  } finally {
    await closeQuietly(opened);
  }
}

function announced(args: Args, io: Io): Ledger {
  const ledger = findLedger(args.text("store"), io);
  if (args.on("verbose"))
    io.stderr.write(`nevertwice: the ledger is ${visible(redact(ledger.name))} (${ledger.why})\n`);
  return ledger;
}

function contextOf(args: Args, io: Io, ledger: () => Ledger): Context {
  // A terminal that does not know its size says 0.
  const columns = [io.stdout.columns, Number(io.env.COLUMNS), DEFAULT_WIDTH].find(
    (width) => (width ?? 0) > 0,
  ) as number;
  return {
    args,
    io,
    paint: choosePaint(io.stdout.isTTY, io.env),
    width: Math.max(NARROWEST, Math.floor(columns)),
    ledger,
    line: (text = "") => io.stdout.write(`${text}\n`),
    json: (document) => io.stdout.write(`${harmlessJson(document)}\n`),
    note: (text) => io.stderr.write(`nevertwice: ${redact(ofThisLedger(text, args))}\n`),
    suggest: (line, store = args.text("store")) =>
      `nevertwice ${line}${tenantFlag(line, args.text("tenant"))}${storeFlag(store)}`,
  };
}

const COMMAND =
  /nevertwice (?:show|ls|status|resolve|retry|resend|sweep|doctor)\b(?: nt1_\w+| --[a-z-]+(?: "[^"]*"| '[^']*')?)*/g;

/** The library does not know how the command was told which ledger it is: commands in its messages get that here. */
function ofThisLedger(text: string, args: Args | null): string {
  const [store, tenant] = [args?.text("store"), args?.text("tenant")];
  const named = store === undefined ? " --tenant " : " --store ";
  return text.replace(COMMAND, (line, at: number) => {
    const isNamed = text.slice(at).split("\n", 1)[0]?.includes(named);
    return isNamed ? line : `${line}${tenantFlag(line, tenant)}${storeFlag(store)}`;
  });
}

/** What was named on this call has to be named on the next one too; a password is not repeated on the screen. */
function storeFlag(store: string | undefined): string {
  if (store === undefined) return "";
  return ` --store ${visible(redact(store)) === store ? shellWord(store) : "…"}`;
}

/** Some lines repeat the filters of this call, the tenant among them. */
function tenantFlag(line: string, tenant: string | undefined): string {
  return tenant === undefined || line.includes(" --tenant ") ? "" : ` --tenant ${shellWord(tenant)}`;
}

function report(error: unknown, argv: readonly string[], io: Io, args: Args | null): number {
  const isOption = error instanceof UsageError && isNevertwiceError(error.cause);
  const said = isOption && args !== null ? inFlags(error.message, args.flags) : messageOf(error);
  const message = redact(ofThisLedger(said, args)).split("\n").map(visible).join("\n");
  io.stderr.write(`nevertwice: ${message}\n`);
  if (argv.includes("--verbose")) io.stderr.write(`${redact(stackOf(error)).split("\n").map(visible).join("\n")}\n`);
  // Who reads stdout as JSON gets JSON, whatever happened.
  if (argv.includes("--json")) {
    io.stdout.write(`${harmlessJson({ error: { code: codeOfError(error), message } })}\n`);
  }
  return exitOfError(error);
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const cause = error.cause === undefined ? "" : `\ncaused by: ${stackOf(error.cause) || messageOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

async function closeQuietly(ledger: Ledger | null): Promise<void> {
  if (!ledger?.exists) return;
  try {
    await ledger.store.close();
  } catch {
    // What the command had to say is said; a store that fails to close changes nothing about it.
  }
}
