/**
 * A fragment for the system prompt of an agent with guarded tools. A prompt that says "if it fails, try again" makes a model
 * repeat a call with other arguments, which is another intent; this one makes it look first. It explains the answers by
 * the very phrases that the guard uses (agents/messages.ts).
 */
import { configError, noSuchOption } from "../core/errors.ts";
import { PHRASES } from "./messages.ts";
import { STATUS_TOOL } from "./status-tool.ts";

export type PromptOutcome = keyof typeof PHRASES;

export interface PromptFragmentOptions {
  /** The names of the guarded tools as the model knows them. Unless given, the fragment speaks of all tools with effects. */
  readonly tools?: readonly string[];
  /** The name of the status tool, or true for its usual name. Without it the fragment says to ask a person. */
  readonly statusTool?: string | boolean;
  /**
   * What your answers say, where you put outcomes into words of your own instead of the guard's: a phrase by outcome. An
   * outcome that is null never reaches the model, and is left out.
   */
  readonly outcomes?: Readonly<Partial<Record<PromptOutcome, string | null>>>;
}

const OPTIONS = ["tools", "statusTool", "outcomes"];

/** What each answer means, and what to do. "Do not repeat it" and "You may call it again" are said in these words only. */
const MEANINGS: Readonly<Record<PromptOutcome, string>> = {
  done: "it was done by an earlier call, and was not done a second time. Take the result that follows as your own. Do not repeat it.",
  inFlight: "an earlier call is still at work on it. Do not repeat it.",
  accepted: "it will be done without you. Do not repeat it, and do not wait for it.",
  queued: "it was accepted before and will be done without you. Do not repeat it.",
  unknown:
    "nobody knows yet whether it happened. Do not repeat it, and say to the user that it is open: a person or a check settles it.",
  conflict:
    "an earlier call for the same thing had other values, and that one stands. Nothing was done by your call. Do not repeat it, and do not change values to get past this. If the earlier call was wrong, say so to the user.",
  rejected:
    "it did not happen, and with these values it will not. Do not repeat it. If you know the right values, call it with them; otherwise say to the user what was refused, and why.",
  failed: "nothing was done. You may call it again, with what was wrong corrected.",
  unreachable:
    "the call was not run now, because nobody could look up whether it was done before. Do not repeat it. Tell the user, and let a person decide when to go on.",
};

export function promptFragment(options: PromptFragmentOptions = {}): string {
  check(options);
  const { tools, statusTool = false, outcomes = {} } = options;
  const status = statusTool === true ? STATUS_TOOL : statusTool;
  const which =
    tools === undefined
      ? "Tools that have an effect outside are"
      : tools.length === 1
        ? `The tool ${tools[0]} is`
        : `The tools ${listOf(tools)} are`;
  const look =
    status === false
      ? "read what its answer says, and where that does not help, ask the user"
      : `look at the outcome: call ${status} with the reference from its answer (nt1_…)`;
  const lines = (Object.keys(PHRASES) as PromptOutcome[]).flatMap((outcome) => {
    const phrase = outcomes[outcome] === undefined ? PHRASES[outcome] : outcomes[outcome];
    return phrase === null ? [] : [`- "${phrase}": ${MEANINGS[outcome]}`];
  });
  return [
    "# Calls that happen once",
    "",
    `${which} guarded: the same call happens once, however often it is made. A call that is made again is answered, not run.`,
    "",
    "Do not repeat a call because it failed, timed out or was not answered.",
    `Before you decide what to do next, ${look}.`,
    "Never change the arguments of a call, and never use another tool, to reach what an answer did not give you.",
    "If the user wants the same thing a second time on purpose, say that a person has to send it again.",
    "",
    "What an answer of these tools means, by the words in it:",
    ...lines,
    "Any other answer is the tool's own. If it is an error, correct what it names, or say to the user what failed.",
    ...(status === false
      ? []
      : [
          "",
          `${status} changes nothing. It answers in the same words. "Done at" means: the call of this reference was done; after a refusal that is the earlier call, not yours. Do not repeat it. "Not known" means: there is no call with this reference; ask the user.`,
        ]),
  ].join("\n");
}

function check(options: PromptFragmentOptions): void {
  const wrong = Object.keys(options ?? {}).find((option) => !OPTIONS.includes(option));
  if (wrong !== undefined) throw noSuchOption("promptFragment", wrong, OPTIONS);
  const { tools, statusTool, outcomes } = options;
  if (tools !== undefined && !(Array.isArray(tools) && tools.length > 0 && tools.every(isWord)))
    throw configError(
      `promptFragment: tools takes the names of the guarded tools, such as ["send_mail"]; leave it out for all of them.`,
    );
  if (statusTool !== undefined && typeof statusTool !== "boolean" && !isWord(statusTool))
    throw configError("promptFragment: statusTool takes the name of the status tool, true or false.");
  for (const [outcome, phrase] of Object.entries(outcomes ?? {})) {
    if (!Object.hasOwn(PHRASES, outcome)) throw noSuchOption("promptFragment: outcomes", outcome, Object.keys(PHRASES));
    if (phrase !== null && phrase !== undefined && !isWord(phrase))
      throw configError(
        `promptFragment: outcomes.${outcome} takes the phrase that your answers have for it, in one line, or null where they never say it.`,
      );
  }
}

/** In one line: a line break would end the rule that it is part of. */
function isWord(text: unknown): boolean {
  return typeof text === "string" && text.trim() !== "" && !/[\p{Cc}\u2028\u2029"]/u.test(text);
}

function listOf(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
