/** nevertwice/schedule: what jobs are made of, for programs that need the parts. */
export type { Job, JobContext, JobOptions, JobRun, PlanContext } from "./job.ts";
export type { CatchUp } from "./job-loop.ts";
export { type Seed, seed } from "./seed.ts";
export { type Per, slotOf } from "./slot.ts";
export { slotOfInstant, type Timetable, type TimetableOptions, timetable } from "./timetable.ts";
