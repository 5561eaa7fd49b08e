/**
 * The thread's program as text. The build replaces this file's JavaScript with stores/sqlite/worker.ts and everything that it
 * imports, so that the thread is part of every bundle. A file beside the module would be missing there.
 */
export const THREAD_SOURCE: string = "";
