/** The command line, taken apart: flags may stand before or after the command, and a wrong one says what was meant. */
import { parseArgs } from "node:util";
import { nearest } from "../core/nearest.ts";
import { unstorableIn } from "../core/storable-text.ts";
import { Args } from "./args.ts";
import type { Command, Flag, Flags } from "./command.ts";
import { UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

export const COMMON_FLAGS: Flags = {
  store: { value: "store", about: "the ledger, named as in a program: sqlite:app.db" },
  tenant: { value: "name", about: "only records of this tenant" },
  json: { about: "one JSON document on stdout" },
  verbose: { about: "say on stderr which ledger is used and why; stacks of errors" },
  help: { about: "this help" },
};

export interface Invocation {
  /** Null: none was named. */
  readonly command: Command | null;
  readonly args: Args;
}

interface Given {
  readonly name: string;
  readonly raw: string;
  readonly value: string | undefined;
  readonly inline: boolean;
}

export function parse(argv: readonly string[], commands: readonly Command[]): Invocation {
  const { given, words, behindDashes } = tokens(argv, commands);
  const [name, ...operands] = words;
  if (name === "help" || given.some((flag) => flag.name === "help" || flag.raw === "-h")) {
    const topic = name === "help" ? operands[0] : name;
    const args = new Args(operands, new Map([["help", []]]));
    return { command: topic === undefined ? null : named(topic, commands), args };
  }
  const command = name === undefined ? null : named(name, commands);
  const allowed = command === null ? { ...COMMON_FLAGS, version: VERSION } : { ...COMMON_FLAGS, ...command.flags };
  const values = new Map<string, string[]>();
  for (const flag of given) {
    const value = check(flag, allowed, command);
    values.set(flag.name, [...(values.get(flag.name) ?? []), ...(value === undefined ? [] : [value])]);
  }
  if (command !== null && operands.length > command.operands) throw tooMany(command, operands);
  return { command, args: new Args(operands, values, behindDashes) };
}

/** What the same thing is called in code, or by another command. */
const OTHER_WORDS = new Map([["provider-id", ["result-id"]]]);

const VERSION: Flag = { about: "the version" };

/**
 * All flags of all commands at once, because the command itself may come last; once it is known, its own flags are what
 * they are there, since a name may take a value in one command and none in another.
 */
function tokens(argv: readonly string[], commands: readonly Command[]) {
  const every: Flags = Object.assign({}, COMMON_FLAGS, ...commands.map(({ flags }) => flags));
  const [name] = tokensOf(argv, every).positionals;
  const own = commands.find((one) => one.name === name)?.flags ?? {};
  const parsed = tokensOf(argv, { ...every, ...own });
  const given: Given[] = [];
  for (const token of parsed.tokens) {
    if (token.kind !== "option") continue;
    given.push({ name: token.name, raw: token.rawName, value: token.value, inline: token.inlineValue === true });
  }
  const dashes = parsed.tokens.find(({ kind }) => kind === "option-terminator");
  const behindDashes = dashes === undefined ? [] : argv.slice(dashes.index + 1);
  return { given, words: parsed.positionals, behindDashes };
}

function tokensOf(argv: readonly string[], flags: Flags) {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  return parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true });
}

function named(name: string, commands: readonly Command[]): Command {
  const command = commands.find((one) => one.name === name);
  if (command !== undefined) return command;
  const names = commands.map((one) => one.name);
  const meant = nearest(name, [...names, "help"]);
  throw new UsageError(
    `there is no command "${oneLine(name)}". ${meant === null ? `The commands are: ${names.join(", ")}.` : `Did you mean: nevertwice ${meant}?`} See: nevertwice help`,
  );
}

function check(given: Given, allowed: Flags, command: Command | null): string | undefined {
  const flag = given.raw.startsWith("--") ? allowed[given.name] : undefined;
  const see = `See: nevertwice help${command === null ? "" : ` ${command.name}`}`;
  if (flag === undefined) {
    const meant =
      OTHER_WORDS.get(given.name)?.find((word) => word in allowed) ?? nearest(given.name, Object.keys(allowed));
    const of = command === null ? "" : ` of ${command.name}`;
    // `settle --as done` is of another command; here the word itself is the flag.
    const word = given.name === "as" ? (given.value ?? "") : "";
    if (word in allowed && word !== "")
      throw new UsageError(`--as is not a flag${of}. Write --${oneLine(word)}. ${see}`);
    throw new UsageError(
      `${oneLine(given.raw)} is not a flag${of}.${meant === null ? "" : ` Did you mean --${meant}?`} ${see}`,
    );
  }
  if (flag.value === undefined) {
    if (given.value === undefined) return undefined;
    throw new UsageError(`--${given.name} takes no value. Write just --${given.name}. ${see}`);
  }
  // "--reason --json" is a forgotten reason, not a reason.
  const missing = given.value === undefined || (!given.inline && given.value.startsWith("--"));
  if (missing) throw new UsageError(`--${given.name} needs a value: --${given.name} <${flag.value}>. ${see}`);
  const unstorable = unstorableIn(given.value ?? "");
  if (unstorable !== null) throw new UsageError(`--${given.name}: ${unstorable}. Leave that character out. ${see}`);
  // An unset variable in a script: taken as it is, it would mean the records that have no tenant.
  if (given.name === "tenant" && given.value?.trim() === "") {
    throw new UsageError(
      `--tenant is empty: the variable it comes from may not be set. Give a name, or leave --tenant out. ${see}`,
    );
  }
  return given.value;
}

function tooMany(command: Command, operands: readonly string[]): UsageError {
  const extra = operands
    .slice(command.operands)
    .map((word) => JSON.stringify(oneLine(word)))
    .join(", ");
  const takes = command.operands === 0 ? "takes flags only" : `takes one ${command.operand ?? "key"}`;
  const instead = command.beyondOperands?.(operands) ?? "Quote a value that has blanks in it.";
  return new UsageError(
    `${command.name} ${takes}; unexpected arguments: ${extra}. ${instead} See: nevertwice help ${command.name}`,
  );
}
