/** The ledger inside the caller's own transaction. */
import assert from "node:assert/strict";
import { assertHolds, insert, lostTo, readOne, wonVersion } from "../checks.js";
import { sampleRecord } from "../sample-record.js";
function transactional(store) {
    return store;
}
export const transactions = [
    {
        name: "what was written inside is there after the commit, and visible inside before it",
        needs: "transaction",
        body: async ({ store, ledger }) => {
            const stored = await ledger.transaction?.(async (tx) => {
                const inside = transactional(store).within(tx);
                const [result] = await inside.write([{ record: sampleRecord(), expected: null }]);
                const written = { record: sampleRecord(), version: wonVersion(result, "an insert inside") };
                assert.deepStrictEqual(await inside.read(["nt1_sample"]), [written], "a transaction sees its own write");
                return written;
            });
            await assertHolds(store, stored, "after the commit");
        },
    },
    {
        name: "a rollback leaves nothing",
        needs: "transaction",
        body: async ({ store, ledger }) => {
            const kept = await insert(store, sampleRecord({ key: "nt1_kept" }));
            const rolledBack = ledger.transaction?.(async (tx) => {
                const puts = [
                    { record: sampleRecord({ key: "nt1_new" }), expected: null },
                    { record: { ...kept.record, fence: 9 }, expected: kept.version },
                ];
                const results = await transactional(store).within(tx).write(puts);
                for (const [index, result] of results.entries())
                    wonVersion(result, `put ${index} inside`);
                throw new Error("the caller's own work failed");
            });
            await assert.rejects(rolledBack, /the caller's own work failed/);
            assert.equal(await readOne(store, "nt1_new"), null, "the insert must be gone");
            await assertHolds(store, kept, "the swap must be undone");
        },
    },
    {
        name: "compares and swaps inside as outside, and a conflict leaves the transaction usable",
        needs: "transaction",
        body: async ({ store, ledger }) => {
            const kept = await insert(store, sampleRecord({ key: "nt1_kept" }));
            await ledger.transaction?.(async (tx) => {
                const inside = transactional(store).within(tx);
                const [lost] = await inside.write([{ record: sampleRecord({ key: "nt1_kept", fence: 9 }), expected: null }]);
                assert.deepStrictEqual(lostTo(lost, "an insert over an existing row"), kept);
                const [won] = await inside.write([{ record: sampleRecord({ key: "nt1_next" }), expected: null }]);
                wonVersion(won, "an insert after the conflict");
            });
            await assertHolds(store, kept, "the refused insert changed the row");
            assert.notEqual(await readOne(store, "nt1_next"), null, "the insert after the conflict was committed");
        },
    },
];
//# sourceMappingURL=transactions.js.map