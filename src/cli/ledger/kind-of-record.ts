/**
 * Records that no nt.action() made: slots of jobs, steps of runs and sequences, notes. No module can export an action for
 * them, so `resend` cannot have their effect again. What their own API offers instead is said here.
 */
import { entryOf } from "../../core/entry-name.ts";
import { isNote } from "../../core/note.ts";
import type { LedgerRecord } from "../../core/record.ts";
import { shellWord, shortKey } from "../term/format.ts";
import { oneLine } from "../term/text.ts";

export interface Kind {
  /** "a slot of the job \"digest\"" */
  readonly what: string;
  /** How its work is done once more, on purpose; or why there is nothing to do. */
  readonly again: string;
  /** False: a note, of which nothing ever runs. */
  readonly runs: boolean;
  /** Who runs it once it is pending; null: as for an action. */
  readonly next: string | null;
}

type Suggest = (line: string) => string;

/** Null: a record of an action. */
export function kindOf(record: LedgerRecord, suggest: Suggest): Kind | null {
  const { action } = record;
  const { kind, name } = entryOf(action);
  if (isNote(action) && kind === "action") return note("a note that the ledger keeps for itself");
  switch (kind) {
    case "job":
      return slotOfJob(name, record, suggest);
    case "plan":
      return planOfJob(name, suggest);
    case "since":
      return note(`the time at which the job ${quoted(name)} was first seen`);
    case "run":
      return run(name);
    case "step":
    case "branch":
      return stepOfRun(name, record, suggest);
    case "sequence":
      return stepOfSequence(name, record);
    case "action":
      return null;
  }
}

function slotOfJob(name: string, record: LedgerRecord, suggest: Suggest): Kind {
  const given = inputOf(record).slot;
  const slot = typeof given === "string" ? given : "<slot>";
  const command = (named: string) =>
    suggest(`run --job ${shellWord(name)} --slot ${shellWord(named)}`).concat(" -- <command>");
  return {
    what: `a slot of the job ${quoted(name)}`,
    again: `A slot runs once. To do its work once more on purpose, run the command under a slot of another name: ${command(`${slot} again`)}; for a job in code, call what its run function calls.`,
    runs: true,
    next: `The next call for this slot will run it: ${command(slot)}, or job.runAt(…) in the program.`,
  };
}

function planOfJob(name: string, suggest: Suggest): Kind {
  return {
    what: `the plan of a slot of the job ${quoted(name)}`,
    again: `A plan is made once per slot and read by every run of it. The slots: ${suggest(`ls --action ${shellWord(`job:${name}`)}`)}`,
    runs: true,
    next: "The next run of its slot will make it.",
  };
}

function note(what: string): Kind {
  return { what, again: "There is nothing in it to run.", runs: false, next: null };
}

function run(name: string): Kind {
  return {
    what: `a run of ${quoted(name)}`,
    again: `A run is made once per id. To do it once more on purpose, call nt.run(${quoted(name)}, …) with another id, or with a higher version.`,
    runs: true,
    next: `The next call of nt.run(${quoted(name)}, …) with its id will go on with it.`,
  };
}

function stepOfRun(name: string, record: LedgerRecord, suggest: Suggest): Kind {
  const { scope } = record;
  const of = scope === null ? "" : `: ${suggest(`show ${shortKey(scope)}`)}`;
  const { step, path } = inputOf(record);
  const places = Array.isArray(path) ? (path as unknown[]) : [];
  return {
    what: `${typeof step === "string" ? `the step ${quoted([...places, step].join(" › "))}` : "a step"} of a run of ${quoted(name)}`,
    again: `A step belongs to its run${of}. To do it once more on purpose, call nt.run(${quoted(name)}, …) with another id, or with a higher version.`,
    runs: true,
    next: `The next call of nt.run(${quoted(name)}, …) with the run's id will run it.`,
  };
}

function stepOfSequence(name: string, record: LedgerRecord): Kind {
  const { step, subject } = inputOf(record);
  const named = typeof step === "string" && typeof subject === "string";
  return {
    what: named
      ? `the step ${quoted(step)} of the sequence ${quoted(name)} for ${quoted(subject)}`
      : `a step of the sequence ${quoted(name)}`,
    again:
      "A step is taken once per subject. To do it once more on purpose, start a sequence of another name for the subject.",
    runs: true,
    next: null,
  };
}

function quoted(name: string): string {
  return JSON.stringify(oneLine(name));
}

interface Named {
  readonly slot?: unknown;
  readonly step?: unknown;
  readonly path?: unknown;
  readonly subject?: unknown;
}

function inputOf({ input }: LedgerRecord): Named {
  if (input === null || !("json" in input)) return {};
  return (JSON.parse(input.json) as Named | null) ?? {};
}
