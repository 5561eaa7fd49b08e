/** nevertwice/runs: the types of runs and their steps; nt.run() is where they begin. */
export { type RunId, type RunOptions, runAction } from "./run.ts";
export { type Run, type StepInput, type StepOptions, stepAction } from "./steps.ts";
