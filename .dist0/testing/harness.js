import { instantOf } from "../core/store.js";
export const OFFERS = ["reopen", "advance", "corrupt", "transaction"];
export async function onFreshLedger(options, body) {
    const ledger = await options.open();
    const opened = [];
    const second = async () => {
        if (ledger.reopen === undefined)
            return ledger.store;
        const store = await ledger.reopen();
        opened.push(store);
        return store;
    };
    const { offers = [], races = 20 } = options;
    try {
        await body({ ledger, store: ledger.store, offers, races, at: instantOf(ledger.store), second });
    }
    finally {
        for (const store of opened)
            await store.close();
        await ledger.dispose();
    }
}
//# sourceMappingURL=harness.js.map