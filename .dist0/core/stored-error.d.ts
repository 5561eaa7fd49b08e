import type { StoredError } from "./record.ts";
/** What the ledger keeps of an error: no stack, no cause, no response body. Never throws, whatever was thrown. */
export declare function toStoredError(error: unknown): StoredError;
/** An Error that reads like the one that was stored. `code` is text, also where it was a number. */
export declare function fromStoredError(stored: StoredError): Error;
