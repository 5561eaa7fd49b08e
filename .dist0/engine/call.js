/** One caller's wish, with everything that follows from its input: key, fingerprint, policy. */
import { callTimeSuspicions, partsDiffer } from "../core/call-time.js";
import { durationMs } from "../core/duration.js";
import { configError } from "../core/errors.js";
import { printInput, toFingerprint } from "../core/fingerprint.js";
import { deriveKey } from "../core/key.js";
import { keyParts } from "../core/key-parts.js";
import { DEFAULT_LIMITS } from "./payloads.js";
const OPTIONS = new Set(["scope", "version", "tenant", "wait", "tx"]);
export function makeCall(definition, given, input, options, defaults) {
    for (const option in options) {
        if (!OPTIONS.has(option)) {
            throw configError(`${definition.name}: there is no call option ${JSON.stringify(option)}. The options are: ${[...OPTIONS].join(", ")}.`);
        }
    }
    const tenant = options.tenant ?? defaults.tenant;
    const version = options.version ?? 1;
    const scope = options.scope ?? null;
    const parts = keyParts(definition.key, input, definition.free, definition.name);
    return {
        definition,
        key: deriveKey({ tenant, action: definition.name, version, scope, parts, secret: defaults.secret }),
        tenant,
        version,
        scope,
        input,
        given,
        print: printInput(input, definition.free, defaults.secret),
        waitMs: options.wait === undefined ? definition.policy.waitMs : durationMs(options.wait, `${definition.name}: wait`),
    };
}
// The key function is run twice for the first few inputs only: enough to catch a random part, too little to cost.
const CHECKED_CALLS = 3;
const checked = new WeakMap();
/** K5: says so when a part of the key looks made at call time, which would defeat the whole thing. */
export function warnOfCallTimeParts(definition, input, now, warnings) {
    const seen = checked.get(definition) ?? 0;
    if (seen >= CHECKED_CALLS || warnings.said("CALL_TIME_KEY", definition.name))
        return;
    checked.set(definition, seen + 1);
    const parts = keyParts(definition.key, input, definition.free, definition.name);
    const again = typeof definition.key === "function" ? keyParts(definition.key, input, definition.free, definition.name) : parts;
    const fix = "Derive every part from the intent (ids, a template, day(at)), never from the call; otherwise each retry gets a new key and runs again.";
    if (partsDiffer(parts, again)) {
        warnings.warn("CALL_TIME_KEY", definition.name, `action ${definition.name}: its key function gave two different keys for one input. ${fix}`);
        return;
    }
    const names = Array.isArray(definition.key) ? definition.key : undefined;
    // Without an input (once) the parts are all that was handed in: an id among them was not made by a key function.
    const [first] = callTimeSuspicions({ parts, names, input: input === undefined ? parts : input, now });
    if (first) {
        const which = first.name === null ? `part ${first.part + 1} of its key` : `the key field ${JSON.stringify(first.name)}`;
        warnings.warn("CALL_TIME_KEY", definition.name, `action ${definition.name}: ${which} looks made at call time (${first.why}). ${fix}`);
    }
}
/** What the ledger is told about the call when it claims; the input is bound to the fence the claim will get. */
export function intentOf(call, current, payloads) {
    const { key, tenant, version, scope, definition } = call;
    const fence = (current?.fence ?? 0) + 1;
    return {
        key,
        tenant,
        action: definition.name,
        version,
        scope,
        fingerprint: toFingerprint(call.print),
        input: payloads.store(call.given, "input", DEFAULT_LIMITS.inputBytes, { tenant, key, fence }),
        keepMs: definition.policy.keepMs,
    };
}
//# sourceMappingURL=call.js.map