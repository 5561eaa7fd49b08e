export function instantOf(store) {
    if (store.instant)
        return store.instant();
    const now = store.now();
    return { now, steady: now, epoch: "" };
}
//# sourceMappingURL=store.js.map