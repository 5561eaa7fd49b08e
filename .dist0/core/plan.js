import { expired, leaseAlive } from "./record.js";
import { quietInMs, windowOver } from "./transition.js";
export function nextStep(record, situation) {
    const { at, newRound, policy } = situation;
    if (record === null || expired(record, at.now))
        return { do: "claim" };
    switch (record.state) {
        case "pending": {
            const early = record.queued ? (record.dueAt ?? 0) - at.now : 0;
            if (early > 0)
                return { do: "wait", ms: early };
            return newRound || record.tries < policy.attempts ? { do: "claim" } : { do: "answer" };
        }
        case "claimed":
            return leaseAlive(record, at) ? { do: "wait-for-holder" } : { do: "claim" };
        case "sent":
            return leaseAlive(record, at) ? { do: "wait-for-holder" } : { do: "lapse" };
        case "confirmed":
            return { do: "answer" };
        case "failed":
            return record.final ? { do: "answer" } : { do: "claim" };
        case "unknown":
            return settleStep(record, situation);
    }
}
function settleStep(record, { policy, at, newRound, sameBytes }) {
    const triesLeft = newRound || record.tries < policy.attempts;
    if (policy.doubt.kind === "hold")
        return { do: "answer" };
    if (policy.doubt.kind === "retry") {
        return triesLeft ? { do: "resend", permit: { because: "asked-for" } } : { do: "answer" };
    }
    const { resendWithinMs, probe } = policy.doubt;
    if (resendWithinMs !== null && triesLeft && sameBytes && !windowOver(record, resendWithinMs, at)) {
        return { do: "resend", permit: { because: "provider-key", windowMs: resendWithinMs } };
    }
    if (probe === null)
        return { do: "answer" };
    const early = quietInMs(record, probe.quietForMs, at);
    return early > 0 ? { do: "wait", ms: early } : { do: "probe", quietForMs: probe.quietForMs };
}
//# sourceMappingURL=plan.js.map