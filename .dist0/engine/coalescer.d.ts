/**
 * Callers of the same tick share one round trip and one commit. A lone caller pays exactly one round trip: no timer is
 * held to wait for company. A batch that fails for the sake of one row is split, so that its neighbours succeed.
 */
export interface CoalescerOptions<Request, Response> {
    readonly keyOf: (request: Request) => string;
    readonly flush: (batch: readonly Request[]) => Promise<readonly Response[]>;
    readonly maxBatch: number;
    /** Batches under way at once: two keep the store busy while the next batch gathers. */
    readonly maxInFlight: number;
    /** Whether a failed batch may succeed in halves; false for a store that is down altogether. */
    readonly splittable: (error: unknown) => boolean;
}
export declare class Coalescer<Request, Response> {
    #private;
    constructor(options: CoalescerOptions<Request, Response>);
    submit(request: Request): Promise<Response>;
}
