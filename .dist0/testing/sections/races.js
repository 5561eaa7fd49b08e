/** Compare-and-swap under contention, over two connections where the ledger offers them. */
import assert from "node:assert/strict";
import { insert, lostTo, readOne } from "../checks.js";
import { sampleRecord, times } from "../sample-record.js";
export const races = [
    {
        name: "one of many concurrent inserts wins, and every loser sees the winner's record",
        body: async ({ store, second, races: contenders }) => {
            const stores = [store, await second()];
            const records = times(contenders, (index) => sampleRecord({ holder: `holder-${index}` }));
            const results = await Promise.all(records.map(async (record, index) => {
                const [result] = await stores[index % 2].write([{ record, expected: null }]);
                return result;
            }));
            const winner = records.find((_, index) => results[index]?.ok);
            assert.equal(results.filter((result) => result?.ok).length, 1, "exactly one insert wins");
            for (const result of results) {
                if (!result?.ok)
                    assert.deepStrictEqual(lostTo(result, "a lost insert")?.record, winner, "the winner's record");
            }
        },
    },
    {
        name: "one of many concurrent swaps of one version wins",
        body: async ({ store, second, races: contenders }) => {
            const stores = [store, await second()];
            const { version } = await insert(store, sampleRecord());
            const results = await Promise.all(times(contenders, async (index) => {
                const record = sampleRecord({ fence: 1, holder: `holder-${index}` });
                const [result] = await stores[index % 2].write([{ record, expected: version }]);
                return result;
            }));
            assert.equal(results.filter((result) => result?.ok).length, 1, "exactly one swap of a version wins");
        },
    },
    {
        name: "concurrent increments by compare-and-swap lose nothing",
        body: async ({ store, second, races: contenders }) => {
            const stores = [store, await second()];
            const start = await insert(store, sampleRecord());
            await Promise.all(times(contenders, (index) => increment(stores[index % 2], start, contenders)));
            const counted = (await readOne(store, start.record.key))?.record.attempt;
            assert.equal(counted, contenders, `${contenders} increments, ${String(counted)} counted`);
        },
    },
];
/** Each lost swap means that another contender won one, so nobody loses more often than there are contenders. */
async function increment(store, start, contenders) {
    let { record, version } = start;
    for (let tries = 0; tries <= contenders; tries += 1) {
        const [result] = await store.write([{ record: { ...record, attempt: record.attempt + 1 }, expected: version }]);
        if (result?.ok)
            return;
        const current = lostTo(result, "an increment");
        assert.ok(current, "the conflict must carry the current record");
        ({ record, version } = current);
    }
    assert.fail(`an increment lost ${contenders} swaps in a row: some swap conflicted although nobody else had won`);
}
//# sourceMappingURL=races.js.map