/** Thousands at once: a statement for hundreds of intents, inside the caller's transaction or out of it. */
import { configError } from "../core/errors.ts";
import type { Put, PutResult, Stored, TransactionView } from "../core/store.ts";
import type { Call } from "./call.ts";
import { Coalescer } from "./coalescer.ts";
import type { Enqueued } from "./enqueue.ts";

// A statement of a store holds no more rows; outside a transaction the coalescer cuts its own batches of these.
const TOGETHER = 500;

export type Inputs<I> = Iterable<I> | AsyncIterable<I>;

/** Results in the order of the inputs. What was queued before an error stays queued: running it again is harmless. */
export async function inChunks<I, R>(
  inputs: Inputs<I>,
  where: string,
  work: (chunk: readonly I[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const results: R[] = [];
  let chunk: I[] = [];
  for await (const input of iterate(inputs, where)) {
    chunk.push(input);
    if (chunk.length < TOGETHER) continue;
    results.push(...(await work(chunk)));
    chunk = [];
  }
  if (chunk.length > 0) results.push(...(await work(chunk)));
  return results;
}

/** Whatever yields inputs: an array, a generator, a stream in object mode. */
export function iterate<I>(inputs: Inputs<I>, where: string): AsyncIterable<I> | Iterable<I> {
  const given = inputs as Partial<Iterable<I> & AsyncIterable<I>> | null;
  const iterable =
    typeof given?.[Symbol.asyncIterator] === "function" || typeof given?.[Symbol.iterator] === "function";
  if (iterable && typeof inputs !== "string") return inputs;
  throw configError(`${where}: the inputs are not iterable. Give an array, a generator, or a stream of objects.`);
}

/** Writes of one tick share a statement, on the caller's own connection too. It takes one statement at a time. */
export function sharingStatements(view: TransactionView): TransactionView {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  };
  const writes = new Coalescer<Put, PutResult>({
    flush: (puts) => inTurn(() => view.write(puts)),
    maxBatch: TOGETHER,
    maxInFlight: 1,
    // After an error the transaction is over, for all of them.
    splittable: () => false,
  });
  const reads = new Coalescer<string, Stored | null>({
    flush: (keys) => inTurn(() => view.read(keys)),
    maxBatch: TOGETHER,
    maxInFlight: 1,
    splittable: () => false,
  });
  return {
    ...view,
    read: (keys) => Promise.all(keys.map((key) => reads.submit(key, key))),
    write: (puts) => Promise.all(puts.map((put) => writes.submit(put.record.key, put))),
  };
}

/** In a line each has to be there before the next; otherwise all at once, sharing statements. */
export async function oneByOneOrTogether(
  calls: readonly Call[],
  inLine: boolean,
  enqueueOne: (call: Call) => Promise<Enqueued<unknown>>,
): Promise<Enqueued<unknown>[]> {
  if (!inLine) return Promise.all(calls.map(enqueueOne));
  const results: Enqueued<unknown>[] = [];
  for (const call of calls) results.push(await enqueueOne(call));
  return results;
}
