import { keyHex } from "./postgres-key.js";
import { keepClass, movingValues } from "./postgres-row.js";
// Records under way at once. Past that the oldest are forgotten, and their settles send everything again.
const MOST_HELD = 4_096;
export class Lineage {
    #held = new Map();
    /** The key as SQL takes it; converting it costs more than remembering it. */
    hexOf(key) {
        return this.#held.get(key)?.hex ?? keyHex(key);
    }
    keep({ record, version }, hex, moving = null) {
        const { key, state } = record;
        // Settled: nothing is written after it.
        if (state === "confirmed") {
            this.#held.delete(key);
            return;
        }
        this.#held.set(key, { record, rev: version, hex, moving });
        if (this.#held.size > MOST_HELD)
            for (const oldest of this.#held.keys())
                return void this.#held.delete(oldest);
    }
    /** The row's changing columns, where it has all of the record that a plain settle leaves alone; else null. */
    before({ record, expected }, now) {
        const held = this.#held.get(record.key);
        if (held === undefined || held.rev !== expected || !alike(held.record, record))
            return null;
        return held.moving ?? movingValues(held.record, held.rev, now);
    }
}
/** The same objects, not equal ones: a record hands on to the next what a transition does not touch. */
function alike(held, record) {
    return (held.fingerprint === record.fingerprint &&
        held.input === record.input &&
        held.draft === record.draft &&
        held.history === record.history &&
        held.doubted === record.doubted &&
        held.version === record.version &&
        held.createdAt === record.createdAt &&
        held.keepMs === record.keepMs &&
        held.queued === record.queued &&
        held.tenant === record.tenant &&
        keepClass(held) === keepClass(record));
}
//# sourceMappingURL=postgres-lineage.js.map