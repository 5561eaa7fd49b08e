/** The command line, taken apart: flags may stand before or after the command, and a wrong one says what was meant. */
import { parseArgs } from "node:util";
import { UsageError } from "./exit.js";
import { nearest } from "./nearest.js";
import { oneLine } from "./text.js";
export const COMMON_FLAGS = {
    store: { takes: "value", value: "store", about: "the ledger, named as in a program: sqlite:app.db" },
    tenant: { takes: "value", value: "name", about: "only records of this tenant" },
    json: { takes: "nothing", about: "one JSON document on stdout" },
    verbose: { takes: "nothing", about: "say on stderr which ledger is used and why; stacks of errors" },
    help: { takes: "nothing", about: "this help" },
};
export class Args {
    operands;
    #values;
    constructor(operands, values) {
        this.operands = operands;
        this.#values = values;
    }
    on(flag) {
        return this.#values.has(flag);
    }
    /** The last one wins, as everywhere on a command line. */
    text(flag) {
        return this.#values.get(flag)?.at(-1);
    }
    /** Given several times, or with commas. */
    list(flag) {
        const given = this.#values.get(flag) ?? [];
        return given.flatMap((text) => text.split(",")).map((text) => text.trim());
    }
    count(flag) {
        const text = this.text(flag);
        if (text === undefined)
            return undefined;
        const count = Number(text);
        if (/^\d+$/.test(text) && Number.isSafeInteger(count) && count > 0)
            return count;
        throw new UsageError(`--${flag} ${oneLine(text)}: it takes a whole number above zero, for example --${flag} 50.`);
    }
}
export function parse(argv, commands) {
    const { given, words } = tokens(argv, commands);
    const [name, ...operands] = words;
    if (name === "help" || given.some((flag) => flag.name === "help" || flag.raw === "-h")) {
        const topic = name === "help" ? operands[0] : name;
        const args = new Args(operands, new Map([["help", []]]));
        return { command: topic === undefined ? null : named(topic, commands), args };
    }
    const command = name === undefined ? null : named(name, commands);
    const allowed = command === null ? { ...COMMON_FLAGS, version: VERSION } : { ...COMMON_FLAGS, ...command.flags };
    const values = new Map();
    for (const flag of given) {
        const value = check(flag, allowed, command);
        values.set(flag.name, [...(values.get(flag.name) ?? []), ...(value === undefined ? [] : [value])]);
    }
    if (command !== null && operands.length > command.operands)
        throw tooMany(command, operands);
    return { command, args: new Args(operands, values) };
}
const VERSION = { takes: "nothing", about: "the version" };
/** All flags of all commands at once, because the command itself may come last. */
function tokens(argv, commands) {
    const every = Object.assign({}, COMMON_FLAGS, ...commands.map(({ flags }) => flags));
    const options = Object.fromEntries(Object.entries(every).map(([name, { takes }]) => [
        name,
        { type: takes === "nothing" ? "boolean" : "string" },
    ]));
    const parsed = parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
    const given = [];
    for (const token of parsed.tokens) {
        if (token.kind !== "option")
            continue;
        given.push({ name: token.name, raw: token.rawName, value: token.value, inline: token.inlineValue === true });
    }
    return { given, words: parsed.positionals };
}
function named(name, commands) {
    const command = commands.find((one) => one.name === name);
    if (command !== undefined)
        return command;
    const names = commands.map((one) => one.name);
    const meant = nearest(name, [...names, "help"]);
    throw new UsageError(`there is no command "${oneLine(name)}". ${meant === null ? `The commands are: ${names.join(", ")}.` : `Did you mean: nevertwice ${meant}?`} See: nevertwice help`);
}
function check(given, allowed, command) {
    const flag = given.raw.startsWith("--") ? allowed[given.name] : undefined;
    const see = `See: nevertwice help${command === null ? "" : ` ${command.name}`}`;
    if (flag === undefined) {
        const meant = nearest(given.name, Object.keys(allowed));
        const of = command === null ? "" : ` of ${command.name}`;
        throw new UsageError(`${oneLine(given.raw)} is not a flag${of}.${meant === null ? "" : ` Did you mean --${meant}?`} ${see}`);
    }
    if (flag.takes === "nothing") {
        if (given.value === undefined)
            return undefined;
        throw new UsageError(`--${given.name} takes no value. Write just --${given.name}. ${see}`);
    }
    // "--reason --json" is a forgotten reason, not a reason.
    const missing = given.value === undefined || (!given.inline && given.value.startsWith("--"));
    if (missing)
        throw new UsageError(`--${given.name} needs a value: --${given.name} <${flag.value ?? "value"}>. ${see}`);
    return given.value;
}
function tooMany(command, operands) {
    const extra = operands
        .slice(command.operands)
        .map((word) => JSON.stringify(oneLine(word)))
        .join(", ");
    const hint = command.operands === 0 ? "takes flags only" : "takes one key";
    return new UsageError(`${command.name} ${hint}; this is too much: ${extra}. Quote a value that has blanks in it. See: nevertwice help ${command.name}`);
}
//# sourceMappingURL=args.js.map