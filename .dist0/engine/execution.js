/**
 * One attempt, from its claim to its settlement: (prepare → mark) → run → settle. What ends here is always written to
 * the ledger before the caller hears of it.
 */
import { classify } from "../core/classify.js";
import { formatDuration } from "../core/duration.js";
import { configError, isNevertwiceError, NevertwiceError, rejectedMark } from "../core/errors.js";
import { backoffMs } from "../core/policy.js";
import { providerKey } from "../core/provider-key.js";
import { toStoredError } from "../core/stored-error.js";
import { transition } from "../core/transition.js";
import { runAs } from "./context.js";
import { DEFAULT_LIMITS, losesMeaningAsJson } from "./payloads.js";
import { Pulse } from "./pulse.js";
import { sameEffect } from "./same-effect.js";
export function execute(services, call, claimed, input) {
    const { leaseMs, timeoutMs } = call.definition.policy;
    const pulse = new Pulse(services.heart, { leaseMs, timeoutMs, stored: claimed });
    return new Execution(services, call, pulse, input).run();
}
class Execution {
    #services;
    #call;
    #pulse;
    #input;
    #startedAt;
    #marking = null;
    /** The attempt has ended as far as its caller knows: what still runs may not begin to send. */
    #over = false;
    constructor(services, call, pulse, input) {
        this.#services = services;
        this.#call = call;
        this.#pulse = pulse;
        this.#input = input;
        this.#startedAt = services.clock.monotonic();
    }
    /** The plain way (nothing to prepare, no time lost) goes straight to the effect: it is in every call. */
    run() {
        if (this.#record.state === "sent" && this.#record.draft === null && this.#hasRoom())
            return this.#effect(undefined);
        return this.#roundabout().finally(() => this.#pulse.end());
    }
    async #roundabout() {
        const { prepare } = this.#call.definition;
        const kept = this.#services.payloads.load(this.#record, "draft");
        let draft = kept.value;
        // A draft that could not be stored is made again; the plan lets only those resend it who asked to run it again.
        if (prepare && (this.#record.state === "claimed" || kept.omitted !== undefined)) {
            const prepared = await this.#prepare(prepare);
            if ("end" in prepared)
                return prepared.end;
            draft = prepared.draft;
        }
        if (!this.#hasRoom() && !(await this.#pulse.renew()))
            return this.#tooLate();
        return this.#effect(draft);
    }
    get #record() {
        return this.#pulse.stored.record;
    }
    async #prepare(prepare) {
        const { timeoutMs } = this.#call.definition.policy;
        this.#pulse.limit(timeoutMs);
        const context = this.#context();
        const ended = await this.#pulse.race(begin(() => runAs(context, () => prepare(this.#input, context))));
        if (ended.kind === "threw")
            return { end: await this.#beforeMark(ended.error) };
        if (ended.kind === "timeout")
            return { end: await this.#notSent(this.#timeoutError("prepare"), null) };
        if (ended.kind === "lease-lost")
            return { end: await this.#tooLate() };
        // The time of the mark is not the time of prepare: a slow store must not cut an effect that has not begun.
        this.#pulse.limit(Number.POSITIVE_INFINITY);
        const marked = this.#mayHaveLeft() || (await this.#mark(ended.value));
        return marked ? { draft: ended.value } : { end: await this.#tooLate() };
    }
    /** Durable before the first byte leaves. */
    async #mark(draft) {
        const { policy } = this.#call.definition;
        const { record } = this.#pulse.stored;
        const bound = { tenant: record.tenant, key: record.key, fence: record.fence };
        const applied = await this.#services.ledger.apply(this.#pulse.stored, {
            type: "mark",
            hold: this.#pulse.hold,
            leaseMs: policy.leaseMs,
            timeoutMs: policy.timeoutMs,
            draft: this.#services.payloads.store(draft, "draft", DEFAULT_LIMITS.inputBytes, bound),
        });
        if (applied.ok)
            this.#pulse.stored = applied.stored;
        return applied.ok;
    }
    /** F16: an event loop that stood still may have slept through its lease; then nothing may be sent any more. */
    #hasRoom() {
        const { lease } = this.#record;
        const at = this.#services.ledger.instant();
        return (lease !== null && lease.epoch === at.epoch && lease.until - at.steady >= this.#call.definition.policy.timeoutMs);
    }
    /**
     * The lease is gone and nothing was sent under it. While the record is still ours that is a fact worth telling: the
     * attempt counts, and the next one waits its turn. Taken over meanwhile: the fact is refused, and the record is looked at again.
     */
    async #tooLate() {
        this.#leaseLost();
        return this.#notSent(new NevertwiceError("LEASE_LOST", "the process stood still past its lease; nothing was sent.", {
            key: this.#call.key,
        }), null);
    }
    async #effect(draft) {
        const { definition } = this.#call;
        this.#pulse.limit(definition.policy.timeoutMs);
        const context = this.#context();
        const work = begin(() => runAs(context, () => definition.run(this.#input, context, draft)));
        const ended = await this.#pulse.race(work);
        this.#pulse.end();
        this.#over = true;
        // Whether the effect may have left is known only when a send mark under way has its answer; no other is begun.
        if (this.#marking !== null)
            await this.#marking.catch(() => { });
        if (ended.kind === "returned")
            return await this.#succeeded(ended.value);
        if (ended.kind === "threw")
            return this.#mayHaveLeft() ? this.#afterMark(ended.error) : this.#beforeMark(ended.error);
        return this.#interrupted(ended, work);
    }
    async #interrupted(why, work) {
        this.#welcomeLateSuccess(work);
        if (!this.#mayHaveLeft()) {
            return why.kind === "timeout" ? this.#notSent(this.#timeoutError("run"), null) : this.#tooLate();
        }
        if (why.kind === "timeout") {
            return this.#doubt(`no answer within ${formatDuration(this.#call.definition.policy.timeoutMs)}`, null);
        }
        this.#leaseLost();
        return this.#doubt("its lease was lost while it ran", null);
    }
    #mayHaveLeft() {
        return this.#record.state === "sent";
    }
    #succeeded(value) {
        const unmarked = this.#call.definition.manual && this.#marking === null;
        if (unmarked || !this.#mayHaveLeft())
            return this.#returnedWithoutMark();
        const { ledger, events, untold } = this.#services;
        const { key, definition } = this.#call;
        this.#warnOfOddResult(value);
        const event = { type: "confirm", hold: this.#pulse.hold, result: this.#resultPayload(value) };
        const done = { status: "done", key, result: value, replayed: false, attempt: this.#record.attempt };
        return ledger.apply(this.#pulse.stored, event).then((applied) => {
            if (!applied.ok)
                return this.#secondSuccess(value, applied.stored);
            const ms = this.#services.clock.monotonic() - this.#startedAt;
            events.emit({ type: "executed", action: definition.name, key, attempt: done.attempt, ms });
            const { record } = applied.stored;
            return { kind: "done", outcome: { ...done, at: record.settledAt ?? record.updatedAt }, stored: applied.stored };
        }, (error) => {
            if (!storeIsDown(error))
                throw error;
            // It happened, and that is what the caller must hear. The ledger is told as soon as it listens again.
            events.emit({ type: "confirm_delayed", action: definition.name, key });
            untold.add({ key, event });
            return { kind: "done", outcome: { ...done, at: ledger.instant().now }, stored: null };
        });
    }
    #resultPayload(value) {
        const { tenant, key, fence } = this.#record;
        return this.#services.payloads.store(value, "result", DEFAULT_LIMITS.resultBytes, { tenant, key, fence });
    }
    /** Somebody else's success is on record already: one effect seen twice, or two effects. */
    #secondSuccess(value, stored) {
        const { events, payloads } = this.#services;
        const { key, definition } = this.#call;
        const record = stored?.record;
        const first = record ? payloads.load(record, "result").value : undefined;
        if (record?.state === "confirmed" && !sameEffect(first, value)) {
            events.emit({ type: "duplicate_detected", action: definition.name, key });
        }
        const at = record?.settledAt ?? this.#services.ledger.instant().now;
        const known = record?.state === "confirmed";
        const outcome = {
            status: "done",
            key,
            // Settled without a result, by a person or with one that could not be stored: ours is as true.
            result: known && first !== undefined ? first : value,
            replayed: known,
            attempt: this.#record.attempt,
            at,
        };
        return { kind: "done", outcome, stored };
    }
    async #returnedWithoutMark() {
        try {
            if (this.#mayHaveLeft() || (await this.#mark(undefined)))
                await this.#doubt("run returned without ctx.sent(), so the effect may have happened unmarked", null);
        }
        catch (error) {
            // Not to be taken for a store that was down before the effect, which an action may answer by running it.
            if (!storeIsDown(error))
                throw error;
        }
        throw configError(`${this.#call.definition.name}: mark is "manual" and run returned without ctx.sent(). Call \`await ctx.sent()\` right before the effect; this attempt (${this.#call.key}) is held as unknown until somebody resolves it.`);
    }
    async #afterMark(error) {
        const verdict = this.#verdict(error);
        switch (verdict.kind) {
            case "doubt":
                return this.#doubt(verdict.why, error);
            case "rejected":
                return this.#settleFailed(verdict.cause, { retryAt: null, final: true });
            case "refused":
                return this.#settleFailed(verdict.cause, { retryAt: null, final: false });
            case "not-sent":
                return this.#notSent(verdict.cause, verdict.retryAfterMs);
        }
    }
    /** Whatever it is, it was thrown before the send mark: surely nothing happened. */
    async #beforeMark(error) {
        if (isNevertwiceError(error) && error.code === "LEASE_LOST")
            return this.#tooLate();
        const verdict = this.#verdict(error);
        if (verdict.kind === "rejected" || rejectedMark(error)) {
            return this.#settleFailed(verdict.kind === "rejected" ? verdict.cause : error, { retryAt: null, final: true });
        }
        if (verdict.kind === "refused")
            return this.#settleFailed(verdict.cause, { retryAt: null, final: false });
        return verdict.kind === "not-sent"
            ? this.#notSent(verdict.cause, verdict.retryAfterMs)
            : this.#notSent(error, null);
    }
    #verdict(error) {
        const own = this.#ownVerdict(error);
        if (own === "not-sent")
            return { kind: "not-sent", retryAfterMs: null, cause: error };
        if (own === "rejected")
            return { kind: "rejected", cause: error };
        if (own === "doubt")
            return { kind: "doubt", why: "the action calls this error doubt" };
        return classify(error, this.#services.ledger.instant().now);
    }
    /** A classify that throws has said nothing, and nothing certain is known. */
    #ownVerdict(error) {
        try {
            return this.#call.definition.classify?.(error);
        }
        catch {
            return "doubt";
        }
    }
    #notSent(error, retryAfterMs) {
        const { policy } = this.#call.definition;
        const { tries } = this.#record;
        if (tries >= policy.attempts)
            return this.#settleFailed(error, { retryAt: null, final: false });
        const { ledger, random } = this.#services;
        const retryAt = ledger.instant().now + backoffMs(policy, tries, retryAfterMs, random);
        return this.#settleFailed(error, { retryAt, final: false });
    }
    async #settleFailed(error, { retryAt, final }) {
        const event = { type: "not-sent", hold: this.#pulse.hold, error: toStoredError(error), retryAt, final };
        const stored = await this.#tell(event);
        if ("moved" in stored)
            return { kind: "moved", stored: stored.moved };
        if (stored.record.state === "unknown")
            return { kind: "unknown", stored, error };
        const { key, definition } = this.#call;
        this.#services.events.emit({ type: "failed", action: definition.name, key, attempt: this.#record.attempt, final });
        return { kind: "failed", stored, error, final, retryAt };
    }
    async #doubt(why, error) {
        const stored = await this.#tell({
            type: "doubt",
            hold: this.#pulse.hold,
            why,
            error: error === null ? null : toStoredError(error),
        });
        if ("moved" in stored)
            return { kind: "moved", stored: stored.moved };
        const { key, definition } = this.#call;
        this.#services.events.emit({ type: "unknown", action: definition.name, key, attempt: this.#record.attempt, why });
        return { kind: "unknown", stored, error };
    }
    /** A store that is down now is told later; the caller hears the same truth meanwhile. */
    async #tell(event) {
        const { ledger, untold } = this.#services;
        try {
            const applied = await ledger.apply(this.#pulse.stored, event);
            return applied.ok ? applied.stored : { moved: applied.stored };
        }
        catch (error) {
            if (!storeIsDown(error))
                throw error;
            untold.add({ key: this.#call.key, event });
            const change = transition(this.#record, event, ledger.instant());
            return change.ok ? { record: change.record, version: this.#pulse.stored.version } : { moved: this.#pulse.stored };
        }
    }
    #leaseLost() {
        const { key, definition } = this.#call;
        this.#services.events.emit({ type: "lease_lost", action: definition.name, key, attempt: this.#record.attempt });
    }
    /** F26: the caller has gone, the answer came after all. */
    #welcomeLateSuccess(work) {
        const { ledger, events, payloads } = this.#services;
        const { key, definition } = this.#call;
        const hold = this.#pulse.hold;
        const tell = async (value) => {
            const current = await ledger.read(key);
            const applied = await ledger.apply(current, { type: "confirm", hold, result: this.#resultPayload(value) });
            if (applied.ok)
                events.emit({ type: "settled", action: definition.name, key, as: "done", how: "late-success" });
            else if (applied.stored && !sameEffect(payloads.load(applied.stored.record, "result").value, value)) {
                events.emit({ type: "duplicate_detected", action: definition.name, key });
            }
        };
        // A late failure proves nothing, and a store that is down leaves the doubt standing, where a person sees it.
        work.then(tell).catch(() => { });
    }
    #warnOfOddResult(value) {
        const odd = losesMeaningAsJson(value);
        if (odd === null)
            return;
        const { name } = this.#call.definition;
        this.#services.warnings.warn("RESULT_NOT_PLAIN", name, `action ${name}: run returned a ${odd}, which cannot be stored: a repeat would get an empty object. Return plain data, such as the provider's id.`);
    }
    #timeoutError(phase) {
        return new DOMException(`${phase} took longer than ${formatDuration(this.#call.definition.policy.timeoutMs)}.`, "TimeoutError");
    }
    #context() {
        const { policy, manual } = this.#call.definition;
        const { key, attempt, fence } = this.#record;
        const pulse = this.#pulse;
        return {
            key,
            attempt,
            fence,
            get signal() {
                return pulse.signal;
            },
            providerKey: (format) => providerKey(key, format),
            deadline: this.#services.ledger.instant().now + policy.timeoutMs,
            sent: manual ? () => this.#markedByHand() : async () => { },
            log: this.#services.logger,
        };
    }
    #markedByHand() {
        this.#marking ??= this.#markOrThrow();
        return this.#marking;
    }
    async #markOrThrow() {
        // A resend was marked as it was claimed.
        const marked = !this.#over && (this.#mayHaveLeft() || (await this.#mark(undefined)));
        // F16: the loop may have stood still while the mark was written. A permission that comes after the lease is none.
        if (marked && (this.#hasRoom() || (await this.#pulse.renew())))
            return;
        throw new NevertwiceError("LEASE_LOST", "the send mark was refused or came too late: this attempt no longer holds its lease. Nothing may be sent.", { key: this.#call.key });
    }
}
function storeIsDown(error) {
    return isNevertwiceError(error) && error.code === "STORE_UNAVAILABLE";
}
/** A promise of the work, whatever it is made of; a native one is passed on as it is. */
function begin(work) {
    try {
        return Promise.resolve(work());
    }
    catch (error) {
        return Promise.reject(error);
    }
}
//# sourceMappingURL=execution.js.map