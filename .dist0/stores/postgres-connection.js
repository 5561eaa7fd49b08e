/** One round trip, and nothing that outlives the transaction. */
export function beginning(setup) {
    return setup === undefined ? "BEGIN" : `BEGIN; ${setup}`;
}
//# sourceMappingURL=postgres-connection.js.map