/** nevertwice/outbox: the types of queued work; nt.queue(), nt.worker() and an action's enqueue() are where it begins. */
export type { EachOptions } from "../engine/each.ts";
export type { EachProgress, EachReport, EachTrouble } from "../engine/each-tally.ts";
export type { Enqueued, EnqueueOptions } from "../engine/enqueue.ts";
export type { QueueOptions, Task, WorkQueue } from "./work-queue.ts";
export type { Worker, WorkerEvent, WorkerStatus } from "./worker.ts";
export type { WorkerOptions } from "./worker-options.ts";
