/** A damaged record read as absent would let its effect happen again. */
import assert from "node:assert/strict";
import { isNevertwiceError } from "../../core/errors.js";
import { assertRefused, insert } from "../checks.js";
import { filledRecord } from "../sample-record.js";
export const corruption = [
    {
        name: "a damaged record is noticed, never read as absent",
        needs: "corrupt",
        body: async ({ store, ledger }) => {
            await insert(store, filledRecord());
            await ledger.corrupt?.("nt1_filled");
            await assertRefused(store.read(["nt1_filled"]), null, "reading a damaged record");
        },
    },
    {
        name: "a damaged record is not overwritten by an insert",
        needs: "corrupt",
        body: async ({ store, ledger }) => {
            await insert(store, filledRecord());
            await ledger.corrupt?.("nt1_filled");
            const won = await store.write([{ record: filledRecord({ holder: "second" }), expected: null }]).then(([result]) => result?.ok === true, (error) => !isNevertwiceError(error));
            assert.equal(won, false, "the insert must be refused, or reject with a NevertwiceError");
        },
    },
];
//# sourceMappingURL=corruption.js.map