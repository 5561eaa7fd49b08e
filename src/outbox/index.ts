export type { EachOptions } from "../engine/each.ts";
export type { EachProgress, EachReport, EachTrouble } from "../engine/each-tally.ts";
export type { Enqueued, EnqueueOptions } from "../engine/enqueue.ts";
export { createQueue, type QueueOptions, type Task, type WorkQueue } from "./work-queue.ts";
export { createWorker, type Worker, type WorkerEvent, type WorkerServices, type WorkerStatus } from "./worker.ts";
export type { WorkerOptions } from "./worker-options.ts";
