import type { WorkerRequest } from "./sqlite-worker.ts";
type Unnumbered<T> = T extends WorkerRequest ? Omit<T, "id"> : never;
export declare class SqliteThread {
    #private;
    constructor(options: {
        path: string;
        busyMs: number;
    });
    get busy(): boolean;
    get alive(): boolean;
    request<T>(request: Unnumbered<WorkerRequest>): Promise<T>;
    close(): Promise<void>;
}
export {};
