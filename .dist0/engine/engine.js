/**
 * From a call to its outcome: look, claim, run, settle, and wait where another attempt holds the intent. What to do next
 * is decided by core's plan; this file only carries it out, inside the caller's wait budget.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.js";
import { differing, isComparable } from "../core/fingerprint.js";
import { outcomeOfRecord } from "../core/outcome.js";
import { nextStep } from "../core/plan.js";
import { backoffMs } from "../core/policy.js";
import { expired } from "../core/record.js";
import { toStoredError } from "../core/stored-error.js";
import { intentOf } from "./call.js";
import { rememberedError, withCause } from "./error-memory.js";
import { execute } from "./execution.js";
import { Flights } from "./flights.js";
import { askProbe } from "./probe.js";
import { ReplayCache } from "./replay-cache.js";
import { parseInput } from "./standard-schema.js";
import { runUnguarded } from "./unguarded.js";
import { WaitBudget } from "./wait-budget.js";
// Every turn of the loop changes the record, waits or returns; a call that turns this often is being starved.
const MAX_TURNS = 10_000;
// About the last forty calls count.
const REPEAT_WEIGHT = 0.05;
const MOSTLY_REPEATS = 0.5;
export class Engine {
    services;
    #flights = new Flights();
    #replays = new ReplayCache();
    #closed = false;
    /** The share of repeats among the last calls that had to ask the ledger. */
    #repeats = 0;
    constructor(services) {
        this.services = services;
    }
    /** Begins no call any more, and waits for those under way. */
    async close() {
        this.#closed = true;
        await this.#flights.idle();
    }
    /** A closed store must not be taken for one that is down, which an action may answer by running unguarded. */
    requireOpen() {
        if (!this.#closed)
            return;
        throw new NevertwiceError("STORE_UNAVAILABLE", "this nevertwice() is closed, and nothing was run. Call before close(), or make a new one.");
    }
    /** Runs the intent, or joins whoever runs it in this process. */
    outcome(call) {
        const flight = this.#flights.get(call.key);
        if (flight !== undefined)
            return this.#join(call, flight);
        this.requireOpen();
        const known = this.#replays.get(call.key, this.services.ledger.instant().now);
        // Confirmed never changes: nothing to wait for, and nothing to ask.
        if (known !== null)
            return this.#conflictWith(call, known) ?? this.#answer(call, known.record);
        return this.#flights.start(call.key, call.print, () => this.#drive(call));
    }
    async #join(call, flight) {
        const differs = differing(flight.fingerprint(), call.print, call.definition.free);
        if (differs.guarded.length > 0)
            return this.#conflict(call, differs.guarded);
        const { clock } = this.services;
        const startedAt = clock.monotonic();
        const joined = await flight.join(clock, call.waitMs);
        const waitMs = call.waitMs - (clock.monotonic() - startedAt);
        // The flight itself only waited for another process, and ran out of patience before this caller does.
        if (joined?.status === "in_flight" && waitMs > 0)
            return this.outcome({ ...call, waitMs });
        if (joined !== null)
            return this.#joined(call, joined, differs.free);
        this.services.events.emit({ type: "in_flight", action: call.definition.name, key: call.key });
        return this.#inFlightNow(call);
    }
    /** What the ledger says, without touching anything. */
    async status(key) {
        this.requireOpen();
        const stored = await this.services.ledger.read(key);
        return stored === null ? { status: "absent", key } : this.describe(stored.record);
    }
    describe(record) {
        return outcomeOfRecord(record, this.services.ledger.instant(), {
            result: (of) => this.services.payloads.load(of, "result"),
            error: (of) => rememberedError(of),
        });
    }
    /** Settles a doubt from the ledger alone, as the sweeper does: with the stored input, and only as the policy allows. */
    async settle(call, stored) {
        // A caller of this process is at it already, with patience of its own.
        if (this.#flights.get(call.key) !== undefined)
            return this.describe(stored.record);
        return this.#flights.start(call.key, call.print, () => this.#turns(call, stored, false, new WaitBudget(this.services, 0), true));
    }
    async #drive(call) {
        const budget = new WaitBudget(this.services, call.waitMs);
        const outcome = await (this.#mostlyRepeats() ? this.#lookFirst(call, budget) : this.#claimFirst(call, budget));
        this.#learn(outcome.status === "done" && outcome.replayed);
        return outcome;
    }
    async #lookFirst(call, budget) {
        let seen = null;
        try {
            seen = await this.services.ledger.read(call.key);
        }
        catch (error) {
            // Down: the claim that follows says so, or runs unguarded where the action asked for that.
            if (!isStoreDown(error))
                throw error;
        }
        // The plain way of a repeat.
        if (seen?.record.state === "confirmed" && !expired(seen.record, this.services.ledger.instant().now)) {
            return this.#conflictWith(call, seen) ?? this.#answer(call, seen.record);
        }
        return this.#turns(call, seen, true, budget);
    }
    /** The plain way of a first call, without the detours of a turn: claim, run, settle. */
    async #claimFirst(call, budget) {
        const { failOpen } = call.definition.policy;
        if (failOpen)
            return this.#turns(call, null, true, budget);
        const applied = await this.#applyClaim(call, null, true);
        if (!applied.ok)
            return this.#turns(call, applied.stored, true, budget);
        const end = await execute(this.services, call, applied.stored, call.input);
        if (end.kind === "done")
            return end.outcome;
        const turned = await this.#after(call, end, budget);
        return "outcome" in turned ? turned.outcome : this.#turns(call, turned.stored, turned.fresh, budget);
    }
    /** Whether the store may guard such an action is asked first; once it may, there is nothing to wait for. */
    #applyClaim(call, stored, newRound) {
        const { ledger } = this.services;
        const admission = ledger.admits(call.definition.policy.doubt.kind);
        if (admission === null)
            return ledger.apply(stored, this.#claimOf(call, newRound));
        return admission.then(() => ledger.apply(stored, this.#claimOf(call, newRound)));
    }
    #claimOf(call, newRound) {
        const { payloads, newHolder } = this.services;
        const { definition } = call;
        const holder = newHolder();
        return (current) => {
            // Another input got in between: its record is not ours to claim, and the next turn reports the conflict.
            if (current !== null && this.#differsFrom(call, current) !== null)
                return null;
            return {
                type: "claim",
                intent: intentOf(call, current, payloads),
                to: definition.manual || definition.prepare ? "claimed" : "sent",
                holder,
                leaseMs: definition.policy.leaseMs,
                newRound,
                ...call.resend,
            };
        };
    }
    /** `settling`: only end the doubt. What turns out not to have happened is left to the next call. */
    async #turns(call, seen, newRound, budget, settling = false) {
        let stored = seen;
        let fresh = newRound;
        for (let turn = 0; turn < MAX_TURNS; turn += 1) {
            const conflict = this.#conflictWith(call, stored);
            if (conflict !== null)
                return conflict;
            if (settling && stored && stored.record.state !== "unknown")
                return this.#answer(call, stored.record);
            const turned = await this.#turn(call, stored, fresh, budget);
            if ("outcome" in turned)
                return turned.outcome;
            stored = turned.stored;
            fresh = turned.fresh;
        }
        throw new NevertwiceError("STORE_UNAVAILABLE", `${call.definition.name}: its record kept changing under this call. Call again.`, { key: call.key });
    }
    /**
     * A first call is best claimed blindly: one write. A repeat is best read: no write at all. Which of the two calls are
     * is learned from the last few.
     */
    #mostlyRepeats() {
        return this.#repeats > MOSTLY_REPEATS;
    }
    #learn(repeat) {
        this.#repeats += REPEAT_WEIGHT * ((repeat ? 1 : 0) - this.#repeats);
    }
    async #turn(call, stored, fresh, budget) {
        const at = this.services.ledger.instant();
        const inDoubt = stored?.record.state === "unknown" ? stored.record : null;
        const sameBytes = inDoubt !== null && this.#sameBytes(call, inDoubt);
        const step = nextStep(stored?.record ?? null, {
            policy: call.definition.policy,
            at,
            newRound: fresh,
            sameBytes,
        });
        switch (step.do) {
            case "answer":
                return { outcome: this.#answer(call, stored.record) };
            case "claim":
                return this.#claim(call, stored, fresh, budget);
            case "resend":
                return this.#resend(call, stored, step.permit, fresh, budget);
            case "lapse": {
                const applied = await this.services.ledger.apply(stored, { type: "lapse" });
                if (applied.ok)
                    this.#emitUnknown(applied.stored.record);
                return { stored: applied.stored, fresh };
            }
            case "probe":
                return this.#probe(call, stored, step.quietForMs, fresh);
            case "wait-for-holder":
                if (!(await budget.change(this.services.ledger, call.key)))
                    return { outcome: this.#answer(call, stored.record) };
                return { stored: await this.services.ledger.read(call.key), fresh };
            case "wait":
                if (!(await budget.pause(step.ms)))
                    return { outcome: this.#answer(call, stored.record) };
                return { stored: await this.services.ledger.read(call.key), fresh };
        }
    }
    async #claim(call, stored, fresh, budget) {
        try {
            const applied = await this.#applyClaim(call, stored, fresh);
            if (!applied.ok)
                return { stored: applied.stored, fresh };
            return this.#after(call, await execute(this.services, call, applied.stored, call.input), budget);
        }
        catch (error) {
            if (call.definition.policy.failOpen && isStoreDown(error))
                return { outcome: await runUnguarded(this.services, call) };
            throw error;
        }
    }
    async #resend(call, stored, permit, fresh, budget) {
        const { ledger, newHolder } = this.services;
        const { leaseMs } = call.definition.policy;
        const applied = await ledger.apply(stored, {
            type: "resend",
            permit,
            holder: newHolder(),
            leaseMs,
            newRound: fresh,
        });
        if (!applied.ok)
            return { stored: applied.stored, fresh };
        const input = permit.because === "provider-key" ? await this.#inputToResend(call, applied.stored) : call.input;
        return this.#after(call, await execute(this.services, call, applied.stored, input), budget);
    }
    /** What follows from an attempt's end: an outcome, or another turn inside the budget. */
    async #after(call, end, budget) {
        const { policy } = call.definition;
        switch (end.kind) {
            case "done":
                return { outcome: end.outcome };
            case "moved":
                return { stored: end.stored, fresh: false };
            case "failed": {
                const pauseMs = end.retryAt === null ? null : end.retryAt - this.services.ledger.instant().now;
                if (pauseMs !== null && (await budget.pause(pauseMs)))
                    return { stored: end.stored, fresh: false };
                const { error, final, retryAt } = end;
                return { outcome: { status: "failed", key: call.key, error, final, ...(retryAt !== null && { retryAt }) } };
            }
            case "unknown": {
                const { tries } = end.stored.record;
                const pauseMs = backoffMs(policy, tries, null, this.services.random);
                const settling = policy.doubt.kind !== "hold" && tries < policy.attempts;
                if (settling && (await budget.pause(pauseMs)))
                    return { stored: end.stored, fresh: false };
                return { outcome: withCause(this.describe(end.stored.record), end.error) };
            }
        }
    }
    async #probe(call, stored, quietForMs, fresh) {
        const { ledger, payloads, events } = this.services;
        const { record } = stored;
        const answer = await askProbe(this.services, call, record);
        if (answer.as === "unknown")
            return { outcome: this.#answer(call, record) };
        const bound = { tenant: record.tenant, key: record.key, fence: record.fence };
        const fact = answer.as === "done"
            ? { as: "done", result: payloads.store(answer.result, "result", 1 << 20, bound) }
            : answer;
        const applied = await ledger.apply(stored, { type: "probed", fence: record.fence, quietForMs, answer: fact });
        if (applied.ok)
            events.emit({ type: "settled", action: record.action, key: record.key, as: answer.as, how: "probe" });
        return { stored: applied.stored, fresh };
    }
    #answer(call, record) {
        const outcome = this.describe(record);
        const { events } = this.services;
        const action = call.definition.name;
        if (outcome.status === "done") {
            this.#replays.put({ record, version: 0 });
            events.emit({ type: "replayed", action, key: call.key, attempt: record.attempt });
            const { free } = differing(record.fingerprint, call.print, call.definition.free);
            return free.length > 0 ? { ...outcome, differs: free } : outcome;
        }
        if (outcome.status === "in_flight")
            events.emit({ type: "in_flight", action, key: call.key });
        return outcome;
    }
    #joined(call, outcome, freeDiffers) {
        if (outcome.status !== "done")
            return outcome;
        this.services.events.emit({
            type: "replayed",
            action: call.definition.name,
            key: call.key,
            attempt: outcome.attempt,
        });
        return { ...outcome, replayed: true, ...(freeDiffers.length > 0 && { differs: freeDiffers }) };
    }
    async #inFlightNow(call) {
        const outcome = await this.status(call.key);
        if (outcome.status !== "absent")
            return outcome;
        // Not in the ledger yet: the claim itself is still on its way.
        const { now } = this.services.ledger.instant();
        return { status: "in_flight", key: call.key, since: now, until: now + call.definition.policy.leaseMs };
    }
    #conflictWith(call, stored) {
        const differs = stored === null ? null : this.#differsFrom(call, stored.record);
        return differs === null ? null : this.#conflict(call, differs);
    }
    /** The guarded fields that make the record another input's; null: it is ours to go on with. */
    #differsFrom(call, record) {
        if (expired(record, this.services.ledger.instant().now))
            return null;
        const { guarded } = differing(record.fingerprint, call.print, call.definition.free);
        // Known not to have happened, and nobody is at it: the corrected input may go ahead.
        if (guarded.length === 0 || (record.state === "failed" && !record.final))
            return null;
        return guarded;
    }
    #conflict(call, differs) {
        this.services.events.emit({ type: "conflict", action: call.definition.name, key: call.key, differs });
        return { status: "conflict", key: call.key, differs };
    }
    /** A resend under the provider's key must carry the bytes of the first send, reworded free fields or not. */
    #sameBytes(call, record) {
        const { payloads } = this.services;
        if (call.definition.prepare && payloads.load(record, "draft").omitted !== undefined)
            return false;
        if (payloads.load(record, "input").omitted === undefined)
            return true;
        // Not stored, or sealed for others: only this call's own input is left, and it must be known to be the same.
        return (isComparable(record.fingerprint) &&
            differing(record.fingerprint, call.print, call.definition.free).free.length === 0);
    }
    /** An input that cannot be had any more (the schema has changed) gives the claim back: the doubt is what it was. */
    async #inputToResend(call, stored) {
        try {
            return await this.#originalInput(call, stored.record);
        }
        catch (error) {
            const { fence, holder } = stored.record;
            const hold = { fence, holder: holder };
            const event = { type: "not-sent", hold, error: toStoredError(error), retryAt: null, final: false };
            await this.services.ledger.apply(stored, event);
            throw error;
        }
    }
    async #originalInput(call, record) {
        if (differing(record.fingerprint, call.print, call.definition.free).free.length === 0)
            return call.input;
        const given = this.services.payloads.load(record, "input").value;
        const { schema, name } = call.definition;
        return schema === undefined ? given : parseInput(schema, given, name);
    }
    #emitUnknown(record) {
        const { action, key, attempt, why } = record;
        this.services.events.emit({ type: "unknown", action, key, attempt, why: why ?? "" });
    }
}
function isStoreDown(error) {
    return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
}
//# sourceMappingURL=engine.js.map