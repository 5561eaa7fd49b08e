export interface Limits {
    readonly depth: number;
    readonly nodes: number;
    readonly bytes: number;
}
/** A key names an intent: what needs more room than this is content, not a name. */
export declare const KEY_LIMITS: Limits;
export declare const INPUT_LIMITS: Limits;
/** Strict RFC 8785, for key parts. */
export declare function canonicalKey(value: unknown, path: string): string;
/** Kinder, for inputs that must match on a repeat. `skip` names top-level fields to leave out, unread. */
export declare function canonicalInput(value: unknown, path: string, skip?: readonly string[]): string;
/**
 * The present top-level fields of a plain object in canonical order, each with its canonical text; null when the input
 * is no plain object. The text of a free field that cannot be compared is null.
 */
export declare function canonicalFields(input: unknown, path: string, free: readonly string[]): readonly (readonly [name: string, text: string | null])[] | null;
/** The kinder canonical form of an input as plain data that a strict reader accepts. */
export declare function prepareInput(input: unknown, path: string, skip: readonly string[]): unknown;
export declare function preparedText(part: unknown): string | undefined;
