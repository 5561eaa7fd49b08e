/** "did you mean": the nearest word, when it is near enough to be a slip of the finger. */
export declare function nearest(word: string, words: readonly string[]): string | null;
