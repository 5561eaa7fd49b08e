/** Attempts that a shell script makes: the operations of the HTTP service, from the command line. */
import { resolve } from "node:path";
import { isNevertwiceError, messageOf } from "../core/errors.ts";
import type { Absent, Outcome } from "../core/outcome.ts";
import { readJson } from "../core/strict-json.ts";
import type { ActionServices } from "../engine/action.ts";
import { nevertwice, servicesOf } from "../nevertwice.ts";
import type { ClaimedAttempt } from "../serve/attempts.ts";
import { operationsOf } from "../serve/operations.ts";
import { AGENT } from "./agent-flag.ts";
import type { Context, Flags } from "./command.ts";
import { readText } from "./import/foreign-text.ts";
import { openLedger } from "./ledger/open.ts";
import { checkLedger, NO_SECRET_FLAG } from "./ledger/secret-check.ts";
import { ledgerOptions, SECRET_FLAGS } from "./ledger/secret-flags.ts";
import { UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

export type Answer = ClaimedAttempt | Outcome<unknown> | Absent;

/** A script has no heartbeats: what it does may take this long. */
export const SHELL_LEASE = "30m";

/** Of commands that act on the ledger as a program would. */
export const ACTING_FLAGS: Flags = { agent: AGENT, ...SECRET_FLAGS, ...NO_SECRET_FLAG };

export const INTENT_FLAGS: Flags = {
  parts: {
    value: "json",
    about: "the parts of the key as a JSON list, instead of words: '[7,\"welcome\"]'",
  },
  scope: { value: "id", about: "a run, session or thread id: another scope is another intent" },
  "intent-version": { value: "n", about: "1 unless a deliberate resend raised it" },
  input: { value: "json", about: "what is sent, apart from the key, as JSON" },
  "input-file": { value: "file", about: "the same, from a file" },
  free: { value: "fields", about: "fields of the input that may differ in a repeat, with commas" },
  keep: {
    value: "duration",
    about: 'how long the settled record guards its key, default: 30d; "forever"',
  },
  ...ACTING_FLAGS,
};

export const CLAIM_FLAGS: Flags = {
  lease: {
    value: "duration",
    about: `how long it may take without a heartbeat, default: ${SHELL_LEASE}`,
  },
  "on-doubt": {
    value: "what",
    about: "an attempt in doubt: hold (the default), or retry: run it again",
  },
  "resend-within": {
    value: "duration",
    about: "a doubt: send the same again with providerKey, this long",
  },
  attempts: {
    value: "n",
    about: "tries in one round, for what is settled as not-sent, default: 5",
  },
  backoff: { value: "duration", about: "the pause before the second try, default: 1s" },
  "max-backoff": { value: "duration", about: "the longest pause, default: 5m" },
  mark: {
    value: "when",
    about: "manual: it counts as sent from `nevertwice sent` on; default: at once",
  },
  wait: { value: "duration", about: "how long to wait, default: not at all" },
  request: {
    value: "id",
    about: "a random id: the same id again gets the same attempt, after a lost answer",
  },
};

/** Runs one operation on the ledger of the command line, which is made where there is none. */
export async function operate(context: Context, name: string, body: object): Promise<object> {
  const { args, io } = context;
  const options = ledgerOptions(context);
  const store = openLedger(args.text("store"), io);
  const nt = nevertwice({
    store,
    ...options,
    sweep: false,
    onWarning: ({ code, message }) => context.note(oneLine(`${code}: ${message}`)),
  });
  const ended = new AbortController();
  const forget = io.onInterrupt?.(() => ended.abort());
  reportDuplicates(servicesOf(nt), (text) => context.note(oneLine(text)));
  try {
    // These make keys, and write under them.
    if (name === "claim" || name === "enqueue") await checkLedger(servicesOf(nt), { noSecret: args.on("no-secret") });
    const operation = operationsOf(servicesOf(nt)).find((one) => one.name === name);
    return (await operation?.run(body, { gone: () => false, signal: ended.signal })) as object;
  } catch (error) {
    throw asUsageOf(error);
  } finally {
    forget?.();
    await nt.close();
  }
}

/** A second success with another result: most likely two effects. The record has no place for it, so it is said. */
export function reportDuplicates({ engine }: ActionServices, note: (text: string) => void): void {
  engine.services.events.on((event) => {
    if (event.type === "duplicate_detected")
      note(
        `duplicate_detected: ${event.action}: success was reported a second time, with another result: the effect may have happened twice. See: nevertwice show ${event.key}`,
      );
  });
}

/** What is wrong with a word of the command line is found by the operation. */
function asUsageOf(error: unknown): unknown {
  const isInput = isNevertwiceError(error) && (error.code === "INVALID_INPUT" || error.code === "INVALID_KEY");
  return isInput ? new UsageError(error.message, { cause: error }) : error;
}

/** The intent that the words and flags name. */
export function intentOf(context: Context, command: string): Readonly<Record<string, unknown>> {
  const { args } = context;
  const [action, ...words] = args.operands;
  const given = args.text("parts");
  if (action !== undefined && words.length > 0 && given !== undefined)
    throw new UsageError(
      `${command} ${oneLine(action)}: give words or --parts, not both: they are the same key, said twice.`,
    );
  if (action === undefined || words.length > 0 === (given !== undefined))
    throw new UsageError(
      `${command} needs an action and what makes it this intent: nevertwice ${command} send_welcome user-7, or --parts '["user-7"]'.`,
    );
  const version = args.count("intent-version");
  const input = jsonOf(context, "input", "input-file");
  return {
    action,
    parts: given === undefined ? words : parsed(given, "--parts"),
    ...(args.on("scope") && { scope: args.text("scope") }),
    ...(version !== undefined && { version }),
    ...(input !== undefined && { input: input.value }),
    ...(args.on("free") && { free: args.list("free") }),
    ...(args.on("keep") && { keep: args.text("keep") }),
  };
}

/** How the attempt is made, for claim and take. */
export function termsOf({ args }: Context): Readonly<Record<string, unknown>> {
  const [doubt, within] = [args.text("on-doubt"), args.text("resend-within")];
  if (doubt !== undefined && within !== undefined)
    throw new UsageError("give --on-doubt or --resend-within, not both: each says what may be done about a doubt.");
  const attempts = args.count("attempts");
  const [backoff, max] = [args.text("backoff"), args.text("max-backoff")];
  const retry = {
    ...(attempts !== undefined && { attempts }),
    ...(backoff !== undefined && { backoff }),
    ...(max !== undefined && { max }),
  };
  return {
    lease: args.text("lease") ?? SHELL_LEASE,
    ...(doubt !== undefined && { doubt }),
    ...(within !== undefined && { doubt: { resendWithin: within } }),
    ...(Object.keys(retry).length > 0 && { retry }),
    ...(args.on("mark") && { mark: args.text("mark") }),
    ...(args.on("wait") && { wait: args.text("wait") }),
    ...(args.on("request") && { request: args.text("request") }),
  };
}

/** JSON from a flag or from a file; undefined: neither was given. */
export function jsonOf({ args, io }: Context, flag: string, fileFlag: string): { readonly value: unknown } | undefined {
  const [text, file] = [args.text(flag), args.text(fileFlag)];
  if (text !== undefined && file !== undefined) throw new UsageError(`give --${flag} or --${fileFlag}, not both.`);
  if (text !== undefined) return { value: parsed(text, `--${flag}`) };
  if (file === undefined) return undefined;
  const from = `--${fileFlag} ${oneLine(file)}`;
  return { value: parsed(readText(resolve(io.cwd, file), from), from) };
}

function parsed(text: string, from: string): unknown {
  const read = readJson(text);
  if (!read.ok)
    throw new UsageError(
      `${from}: ${read.problem}. A text needs quotes of its own: --${from.replace(/^--/, "")} '"text"'.`,
    );
  if (read.inexact === null) return read.value;
  throw new UsageError(
    `${from}: the number ${oneLine(messageOf(read.inexact))} cannot be held exactly, so that two of them could be taken for one. Give it as text.`,
  );
}

export function tokenOperand({ args }: Context, command: string): string {
  const [token] = args.operands;
  if (token !== undefined && token.trim() !== "") return token;
  throw new UsageError(
    `${command} needs the token that claim or take printed: nevertwice ${command} "$token". It is empty where nothing was claimed.`,
  );
}
