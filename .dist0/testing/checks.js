/** What the sections do to a store over and over, with a failure message that says what the store did wrong. */
import assert from "node:assert/strict";
import { isNevertwiceError } from "../core/errors.js";
import { MINUTE } from "./sample-record.js";
/** What a worker asks for, unless a test asks for something else. */
export const LEASE = { holder: "worker-1", limit: 100, leaseMs: MINUTE, to: "claimed" };
export async function seed(store, records) {
    const results = await store.write(records.map((record) => ({ record, expected: null })));
    assert.equal(results.length, records.length, "write must answer once per put");
    return records.map((record, index) => ({ record, version: wonVersion(results[index], `inserting ${record.key}`) }));
}
export async function insert(store, record) {
    const [stored] = await seed(store, [record]);
    assert.ok(stored);
    return stored;
}
export function wonVersion(result, what) {
    assert.ok(result, `${what}: no result`);
    assert.ok(result.ok, `${what}: refused, though nothing stood in its way`);
    assert.equal(typeof result.version, "number", `${what}: the new version must be a number`);
    return result.version;
}
export function lostTo(result, what) {
    assert.ok(result, `${what}: no result`);
    assert.ok(!result.ok, `${what}: accepted, though it had to be refused`);
    assert.notEqual(result.current, undefined, `${what}: a conflict must carry the current record, or null for none`);
    return result.current;
}
export async function readOne(store, key) {
    const [stored, ...more] = await store.read([key]);
    assert.equal(more.length, 0, "read of one key answered more than once");
    assert.notEqual(stored, undefined, "read must answer null for an absent record, not undefined");
    return stored;
}
export async function assertHolds(store, expected, what) {
    assert.deepStrictEqual(await readOne(store, expected.record.key), expected, what);
}
export async function assertRoundTrip(store, record, what) {
    const stored = await insert(store, record);
    await assertHolds(store, stored, `${what} must come back as written`);
}
export async function assertRefused(call, code, what) {
    const answer = await call.then((value) => ({ value }), (error) => ({ error }));
    assert.ok("error" in answer, `${what}: answered instead of rejecting`);
    assert.ok(isNevertwiceError(answer.error), `${what}: must reject with a NevertwiceError, not ${String(answer.error)}`);
    if (code !== null)
        assert.equal(answer.error.code, code, `${what}: the error's code`);
}
export function keysOf(rows) {
    return rows.map(({ record }) => record.key);
}
export function sortedKeys(rows) {
    return keysOf(rows).sort();
}
//# sourceMappingURL=checks.js.map