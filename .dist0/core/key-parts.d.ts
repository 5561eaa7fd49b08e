/** Which parts name an intent: a list of field names, or a function of the input. */
export type KeyOption<I> = readonly (keyof I & string)[] | ((input: I) => readonly unknown[]);
/** The parts of an input. Without a key option there is one: the input without its free fields. */
export declare function keyParts<I>(option: KeyOption<I> | undefined, input: I, free: readonly string[], action: string): readonly unknown[];
