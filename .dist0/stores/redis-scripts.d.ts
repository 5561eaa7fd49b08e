export interface Script {
    readonly text: string;
    readonly sha: string;
}
/** KEYS: records. */
export declare const READ: Script;
/**
 * KEYS: an index per bucket, then the records in the order of their buckets. ARGV: how many buckets, the channel, how many
 * rows each bucket has, then seven values a row: the version expected ('': none), the row, its index entry, and the
 * scores it has in 'a', in its state's list and in 'q' ('': not there), and when it expires ('': never).
 * Answers a row each: 1, or the row that was in the way (nil: none).
 */
export declare const WRITE: Script;
/**
 * KEYS: indexes. ARGV: '' or 'REV', how many to look at in each, what is wanted ('': any): how the key begins, the scope as
 * JSON, how the tenant begins, how the action ends; then from, to and offset for each index. Answers for each how many it
 * saw, the last score and how many it saw of that, and the members that are wanted with their scores.
 */
export declare const RANGE: Script;
/**
 * Queued work that is due, the longest due first over all the indexes given. What is handed out is put aside for a
 * moment, so that two workers never race for one record; who dies meanwhile only delays it by that moment.
 * KEYS: indexes. ARGV: how many, how long to put aside ('': only look), where 'q' begins, how far to look in each, how
 * the entry's tenant begins ('': any), then how its action may end (none: any). Answers members and the time they were due.
 */
export declare const DUE: Script;
/** KEYS: an index, then records. ARGV: their entries. Takes those out of the index whose record is gone; answers how many. */
export declare const TIDY: Script;
/** KEYS: an index. ARGV: from which rank, to which. Answers members; 'a' has the lowest scores, so its ranks come first. */
export declare const WALK: Script;
/**
 * KEYS: an index. ARGV: from which rank, to which. Answers how many members it saw, then for each tenant and action and
 * state a text, a count and the oldest dueAt or doubtSince. The records are not named in KEYS: a count taken while a slot
 * moves may miss those under way, and nothing is decided by it.
 */
export declare const COUNT: Script;
/** KEYS: an index. ARGV: where 'o' begins. Answers how many leases are over. */
export declare const LAPSED: Script;
