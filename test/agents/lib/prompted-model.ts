/**
 * A scripted model that does what its system prompt says, and nothing else. It calls the tool, reads the answer, and looks for
 * the rule of the prompt whose phrase the answer has. A prompt that only says "if it fails, do it again" makes it call again
 * with other words, as models do.
 */
export interface Mail {
  readonly to: string;
  readonly body: string;
  readonly amount?: number;
}

export interface Move {
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
}

/** The prompt that S2 warns of. */
export const NUDGE = "You mail people. If a tool fails, redo the same tool until it works.";

const MOST_CALLS = 4;

export class PromptedModel {
  readonly #mail: Mail;
  readonly moves: Move[] = [];
  /** What it says to the user at the end. */
  said = "";

  constructor(mail: Mail) {
    this.#mail = mail;
  }

  /** The next call, or null: it has finished. `answers`: what the tools have answered so far. */
  next(system: string, answers: readonly string[]): Move | null {
    const move = this.#next(system, answers.at(-1));
    if (move !== null) this.moves.push(move);
    return move;
  }

  #next(system: string, last: string | undefined): Move | null {
    if (last === undefined) return this.#call(this.#mail);
    if (this.moves.length >= MOST_CALLS) return null;
    const rule = ruleFor(system, last);
    if (rule !== null) return this.#follow(rule, system, last);
    // The status tool's word for it: what it was told before stands.
    if (/"Done at" means:/.test(system) && /Done at/.test(last)) return null;
    const failed = !/mail_\d/.test(last);
    if (failed && system.includes("redo the same tool"))
      return this.#call({ ...this.#mail, amount: (this.#mail.amount ?? 0) + this.moves.length });
    this.said = failed ? `It failed: ${last}` : "sent";
    return null;
  }

  #follow(rule: string, system: string, last: string): Move | null {
    this.said = rule;
    if (rule.includes("You may call it again")) return this.#call(this.#mail);
    const reference = /nt1_[0-9a-v]{52}/.exec(last)?.[0];
    const status = /call (?<name>\w+) with the reference/.exec(system)?.groups?.name;
    const hasAsked = this.moves.some(({ tool }) => tool === status);
    if (status !== undefined && reference !== undefined && !hasAsked) {
      return { tool: status, input: { reference } };
    }
    return null;
  }

  #call(mail: Mail): Move {
    return { tool: "send_mail", input: { ...mail } };
  }
}

/** The rules are the fragment's own lines: `- "phrase": what it means`. */
function ruleFor(system: string, answer: string): string | null {
  for (const line of system.split("\n")) {
    const { phrase, rule } = /^- "(?<phrase>[^"]+)": (?<rule>.*)$/.exec(line)?.groups ?? {};
    if (phrase !== undefined && answer.includes(phrase)) return rule ?? null;
  }
  return null;
}
