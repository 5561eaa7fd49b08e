/** nevertwice/runs: the types of runs and their steps; nt.run() is where they begin. */
export type { DoneSteps } from "./done-steps.ts";
export { type RunId, type RunOptions, runAction } from "./run.ts";
export {
  type Sequence,
  type SequenceOptions,
  type StepOf,
  type SubjectStatus,
  sequenceAction,
} from "./sequence.ts";
export type { SequenceStep } from "./sequence-list.ts";
export { type StepInput, stepAction } from "./step-records.ts";
export type { Run, StepOptions } from "./steps.ts";
