/** What `nt.action()` hands out: a function that runs once, and the ways to look at it and to settle it. */
import { configError, isNevertwiceError } from "../core/errors.js";
import { isKey } from "../core/key.js";
import { errorForOutcome } from "../core/outcome.js";
import { makeCall, warnOfCallTimeParts } from "./call.js";
import { causeOf, isRemembered } from "./error-memory.js";
import { checkSignature, resolveDoubt } from "./operate.js";
import { parseInput } from "./standard-schema.js";
import { runInTransaction } from "./transactional.js";
export function createAction(definition, services) {
    const { engine } = services;
    const calls = new Calls(definition, services);
    const attempt = async (input, options = {}) => {
        services.used();
        const made = calls.make(input, options);
        const call = made instanceof Promise ? await made : made;
        const outcome = options.tx === undefined ? engine.outcome(call) : runInTransaction(engine, call, options.tx);
        return (await outcome);
    };
    const run = async (input, options) => resultOrThrow(await attempt(input, options), definition.name);
    const methods = {
        actionName: definition.name,
        attempt,
        async status(target, options = {}) {
            return (await engine.status(await calls.keyOf(target, options)));
        },
        async resend(input, { by, reason, ...options }) {
            services.used();
            checkSignature({ by, reason }, `${definition.name}.resend`);
            if (options.tx !== undefined) {
                throw configError(`${definition.name}.resend: it takes no tx. To run a new version inside a transaction, call the action with { version, tx }.`);
            }
            const outcome = await calls.resendOnce(input, options, async (call) => engine.outcome({ ...call, resend: { by, reason } }));
            return resultOrThrow(outcome, definition.name);
        },
        async resolve(target, resolution, options = {}) {
            const key = await calls.keyOf(target, options);
            return (await resolveDoubt(engine, key, resolution));
        },
        keyOf: async (input, options = {}) => (await calls.make(input, options)).key,
    };
    // `name` of a function is not writable, but it is configurable: stack traces and logs then show the action.
    Object.defineProperty(run, "name", { value: definition.name });
    return Object.assign(run, methods);
}
function resultOrThrow(outcome, action) {
    if (outcome.status === "done")
        return outcome.result;
    const cause = outcome.status === "failed" ? outcome.error : causeOf(outcome);
    // A failure of this very call carries the user's own error: thrown as it came. A remembered one is ours to describe.
    if (outcome.status === "failed" && !isRemembered(cause)) {
        rememberOutcome(cause, outcome);
        throw cause;
    }
    throw errorForOutcome(outcome, action, cause);
}
const outcomes = new WeakMap();
function rememberOutcome(error, outcome) {
    if (typeof error === "object" && error !== null)
        outcomes.set(error, outcome);
}
/** The outcome behind an error that an action threw, the user's own errors included. */
export function outcomeOf(error) {
    if (isNevertwiceError(error))
        return error.outcome;
    return typeof error === "object" && error !== null ? outcomes.get(error) : undefined;
}
// A resend looks for the latest version in steps of this many, and never further than the last.
const VERSIONS_A_LOOK = 16;
const MAX_VERSIONS = 10_000;
class Calls {
    #definition;
    #services;
    /** The versions that resends under way in this process have got, by the key of the first. */
    #resends = new Map();
    constructor(definition, services) {
        this.#definition = definition;
        this.#services = services;
    }
    /** At once where there is no schema to ask: the hot path. */
    make(given, options) {
        const { schema, name } = this.#definition;
        if (schema === undefined)
            return this.#make(given, given, options);
        return parseInput(schema, given, name).then((input) => this.#make(given, input, options));
    }
    #make(given, input, options) {
        const { warnings, ledger } = this.#services.engine.services;
        const call = makeCall(this.#definition, given, input, options, this.#services.defaults);
        warnOfCallTimeParts(this.#definition, input, ledger.instant().now, warnings);
        return call;
    }
    async keyOf(target, options) {
        const key = target?.key;
        if (typeof key === "string" && isKey(key) && Object.keys(target).length === 1)
            return key;
        return (await this.make(target, options)).key;
    }
    /** Clicks at the same instant are one resend: they get the same version, and the engine joins them. */
    async resendOnce(given, options, send) {
        const { key } = await this.make(given, options);
        const joined = this.#resends.get(key);
        const version = joined ?? this.#nextVersion(given, options);
        if (joined === undefined)
            this.#resends.set(key, version);
        try {
            return await send(await this.make(given, { ...options, version: await version }));
        }
        finally {
            if (joined === undefined)
                this.#resends.delete(key);
        }
    }
    /** The version a resend gets: one above the latest, or the latest itself while it is not settled. */
    async #nextVersion(given, options) {
        const first = options.version ?? 1;
        let latest = null;
        for (let from = first; from < first + MAX_VERSIONS; from += VERSIONS_A_LOOK) {
            const versions = Array.from({ length: VERSIONS_A_LOOK }, (_, i) => from + i);
            const calls = await Promise.all(versions.map((version) => this.make(given, { ...options, version })));
            const stored = await Promise.all(calls.map((call) => this.#services.engine.services.ledger.read(call.key)));
            // The last one there, not the first gap: an early version may be past its keep while a later one is in doubt.
            const last = stored.findLastIndex((one) => one !== null);
            latest = stored[last] ?? latest;
            if (last === VERSIONS_A_LOOK - 1)
                continue;
            return latest === null || settledForGood(latest) ? from + last + 1 : latest.record.version;
        }
        throw configError(`${this.#definition.name}: more than ${MAX_VERSIONS} versions of one intent. Put what makes them different into its key.`);
    }
}
function settledForGood(stored) {
    return stored.record.state === "confirmed" || (stored.record.state === "failed" && stored.record.final);
}
//# sourceMappingURL=action.js.map