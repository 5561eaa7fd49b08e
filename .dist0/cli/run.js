/** argv in, exit code out. Everything outside comes in through `io`, so that tests see what a person would. */
import { messageOf } from "../core/errors.js";
import { parse } from "./args.js";
import { COMMANDS } from "./commands.js";
import { codeOfError, EXIT, exitOfError } from "./exit.js";
import { shellWord } from "./format.js";
import { commandHelp, overview } from "./help.js";
import { findLedger } from "./ledger.js";
import { packageVersion } from "./package-version.js";
import { choosePaint } from "./paint.js";
import { visible } from "./text.js";
const DEFAULT_WIDTH = 80;
const NARROWEST = 40;
export async function run(argv, io) {
    let opened = null;
    try {
        const { command, args } = parse(argv, COMMANDS);
        const context = contextOf(args, io, () => {
            opened ??= announced(args, io);
            return opened;
        });
        if (args.on("version")) {
            context.line(packageVersion());
            return EXIT.ok;
        }
        if (command === null || args.on("help")) {
            const help = command === null ? overview(COMMANDS, context) : commandHelp(command, context);
            for (const line of help)
                context.line(line);
            return EXIT.ok;
        }
        return await command.run(context);
    }
    catch (error) {
        return report(error, argv, io);
    }
    finally {
        await closeQuietly(opened);
    }
}
function announced(args, io) {
    const ledger = findLedger(args.text("store"), io);
    if (args.on("verbose"))
        io.stderr.write(`nevertwice: the ledger is ${visible(ledger.name)} (${ledger.why})\n`);
    return ledger;
}
function contextOf(args, io, ledger) {
    // A terminal that does not know its size says 0.
    const columns = [io.stdout.columns, Number(io.env.COLUMNS), DEFAULT_WIDTH].find((width) => (width ?? 0) > 0);
    return {
        args,
        io,
        paint: choosePaint(io.stdout.isTTY, io.env),
        width: Math.max(NARROWEST, Math.floor(columns)),
        ledger,
        line: (text = "") => io.stdout.write(`${text}\n`),
        json: (document) => io.stdout.write(`${JSON.stringify(document, null, 2)}\n`),
        note: (text) => io.stderr.write(`nevertwice: ${text}\n`),
        suggest: (line) => `nevertwice ${line}${storeFlag(args.text("store"))}`,
    };
}
/** What was named on this call has to be named on the next one too; a password is not repeated on the screen. */
function storeFlag(store) {
    if (store === undefined)
        return "";
    return ` --store ${/:\/\/[^/]*:[^/]*@/.test(store) ? "…" : shellWord(store)}`;
}
function report(error, argv, io) {
    const message = messageOf(error).split("\n").map(visible).join("\n");
    io.stderr.write(`nevertwice: ${message}\n`);
    if (argv.includes("--verbose"))
        io.stderr.write(`${stackOf(error)}\n`);
    // Who reads stdout as JSON gets JSON, whatever happened.
    if (argv.includes("--json")) {
        io.stdout.write(`${JSON.stringify({ error: { code: codeOfError(error), message } }, null, 2)}\n`);
    }
    return exitOfError(error);
}
function stackOf(error) {
    if (!(error instanceof Error))
        return "";
    const cause = error.cause === undefined ? "" : `\ncaused by: ${stackOf(error.cause) || messageOf(error.cause)}`;
    return `${error.stack ?? error.message}${cause}`;
}
async function closeQuietly(ledger) {
    if (!ledger?.exists)
        return;
    try {
        await ledger.store.close();
    }
    catch {
        // What the command had to say is said; a store that fails to close changes nothing about it.
    }
}
//# sourceMappingURL=run.js.map