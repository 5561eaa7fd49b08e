/** Whether two successes under one key were one effect. */
/** The provider's own id decides where both results have one; otherwise the whole result does. None is no evidence. */
export declare function sameEffect(first: unknown, second: unknown): boolean;
