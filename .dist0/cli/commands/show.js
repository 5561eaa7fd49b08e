import { instantOf } from "../../core/store.js";
import { EXIT } from "../exit.js";
import { findRecord } from "../find-record.js";
import { age, localIso, moment, shortKey, span } from "../format.js";
import { ledgerJson, requireStore } from "../ledger.js";
import { fullRecordJson } from "../record-json.js";
import { actionLabel, leaseLeftMs, paintState, plainWords, standingOf } from "../standing.js";
import { renderTable } from "../table.js";
import { oneLine, padEnd, visible, wrap } from "../text.js";
export const show = {
    name: "show",
    summary: "everything about one record, and what can be done about it",
    usage: ["<key>"],
    about: "For a person who has to decide: how the record stands, when what happened, the stored input and result, the history, and the commands that make sense now. What was sealed by `encrypt` is shown as (sealed): the command has no key for it.",
    flags: {},
    operands: 1,
    examples: [
        ["show nt1_q3v0m2k8ab", "any unique beginning of a key will do"],
        ["show nt1_q3v0m2k8ab --json | jq .record.input", "the whole stored input"],
    ],
    run,
};
async function run(context) {
    const { record } = await findRecord(context, "show");
    const at = instantOf(requireStore(context));
    if (context.args.on("json")) {
        context.json({ ledger: ledgerJson(context.ledger()), record: fullRecordJson(record, at) });
        return EXIT.ok;
    }
    const { bold } = context.paint;
    context.line(`${bold(actionLabel(record))}  ${record.key}`);
    context.line();
    for (const [name, text, paint] of facts(context, record, at))
        fact(context, name, text, paint);
    for (const field of ["input", "draft", "result"])
        payload(context, field, record[field]);
    history(context, record.history);
    const commands = sensible(record, at);
    if (commands.length > 0)
        context.line();
    for (const [what, line] of commands) {
        context.line(bold(what));
        context.line(`  ${context.suggest(line)}`);
    }
    return EXIT.ok;
}
function facts({ paint }, record, at) {
    const { label, inDoubt } = standingOf(record, at);
    const time = (ms) => moment(ms, at.now);
    const optional = (name, value) => (value === null ? [] : [[name, value]]);
    const when = (name, ms) => optional(name, ms === null ? null : time(ms));
    const { error } = record;
    return [
        ["state", label, paintState(label, paint)],
        ["", plainWords(record, at)],
        ...optional("why", inDoubt ? oneLine(record.why ?? "its holder stopped answering after the send mark") : null),
        ...optional("error", error === null
            ? null
            : oneLine(`${error.name}: ${error.message}${error.code === undefined ? "" : ` (${error.code})`}`)),
        ...optional("tenant", record.tenant === "" ? null : oneLine(record.tenant)),
        ...optional("scope", record.scope === null ? null : oneLine(record.scope)),
        ["attempt", `${record.attempt}${record.tries === record.attempt ? "" : `, ${record.tries} in this round`}`],
        ...optional("holder", holderWords(record, at)),
        ["created", time(record.createdAt)],
        ...when("due", record.dueAt),
        ...sentTimes(record).flatMap(([name, ms]) => when(name, ms)),
        ...when("in doubt", record.doubtSince),
        ...when("settled", record.settledAt),
        ["keep", keepWords(record, at)],
    ];
}
/** When the effect may have left. A failed record keeps the times of tries that are known to have come to nothing. */
function sentTimes({ state, firstSentAt, lastSentAt }) {
    if (state === "failed")
        return [];
    if (firstSentAt === lastSentAt)
        return [["sent", lastSentAt]];
    return [
        ["first sent", firstSentAt],
        ["last sent", lastSentAt],
    ];
}
function holderWords(record, at) {
    const left = leaseLeftMs(record, at);
    if (record.holder === null || left === null)
        return null;
    return `${oneLine(record.holder)}, ${left > 0 ? `${age(left)} of its lease left` : "its lease is over"}`;
}
function keepWords(record, at) {
    if (record.settledAt === null) {
        return record.keepMs === null ? "forever once it is settled" : `${span(record.keepMs)} once it is settled`;
    }
    return record.expiresAt === null ? "forever" : `until ${moment(record.expiresAt, at.now)}`;
}
const NAME_WIDTH = 12;
function fact({ line, width, paint }, name, text, brush = (plain) => plain) {
    const [first = "", ...rest] = wrap(text, Math.min(width, 110) - NAME_WIDTH);
    line(paint.dim(padEnd(name, NAME_WIDTH)) + brush(first));
    for (const more of rest)
        line(" ".repeat(NAME_WIDTH) + brush(more));
}
// A person reads a screen or two; --json has the rest.
const PAYLOAD_LINES = 40;
const PAYLOAD_COLUMNS = 1_000;
function payload(context, name, stored) {
    if (stored === null)
        return;
    const lines = payloadLines(stored);
    const compact = lines.map((line) => line.trim()).join(" ");
    if (compact.length <= context.width - NAME_WIDTH) {
        fact(context, name, compact);
        return;
    }
    context.line(context.paint.dim(name));
    for (const line of lines.slice(0, PAYLOAD_LINES)) {
        context.line(`  ${line.length > PAYLOAD_COLUMNS ? `${line.slice(0, PAYLOAD_COLUMNS)}…` : line}`);
    }
    if (lines.length > PAYLOAD_LINES) {
        context.line(`  … ${lines.length - PAYLOAD_LINES} more lines: --json shows them all`);
    }
}
function payloadLines(stored) {
    if ("sealed" in stored)
        return ["(sealed)"];
    if ("omitted" in stored)
        return [`(not stored: ${oneLine(stored.omitted)})`];
    return JSON.stringify(JSON.parse(stored.json), null, 2).split("\n").map(visible);
}
function history({ line, paint, width }, entries) {
    if (entries.length === 0)
        return;
    const columns = [
        { title: "when" },
        { title: "event" },
        { title: "change" },
        { title: "try", align: "right" },
        { title: "by and why", min: 14, wraps: true },
    ];
    const rows = entries.map((entry) => [
        localIso(entry.at).slice(0, 19),
        oneLine(entry.event),
        `${entry.from ?? "new"} → ${entry.to}`,
        String(entry.attempt),
        [entry.by, entry.reason, entry.error]
            .filter((text) => text !== undefined)
            .map(oneLine)
            .join(": "),
    ]);
    line();
    line(paint.bold("History"));
    for (const text of renderTable(columns, rows, { width, paint }))
        line(text);
}
/** The commands that make sense as the record stands. */
function sensible(record, at) {
    const key = shortKey(record.key);
    const { inDoubt, expired } = standingOf(record, at);
    if (inDoubt) {
        return [
            [
                "It happened: settle it, and say what a repeat is to get",
                `resolve ${key} --done --result '{"id":"…"}' --reason '…'`,
            ],
            ["It did not happen: let it run again", `resolve ${key} --not-done --reason '…'`],
            ["It did not happen, and must not be tried again", `resolve ${key} --failed --reason '…'`],
        ];
    }
    if (expired)
        return [["Remove what is past its keep", "sweep"]];
    if (record.state === "failed")
        return [["Bring it back", `retry ${key} --reason '…'`]];
    if (record.state === "confirmed") {
        return [["Send it once more, on purpose", `resend ${key} --reason '…' --actions ./actions.js`]];
    }
    const leased = record.state === "claimed" || record.state === "sent";
    return leased ? [["Look again when its lease is over", `status ${key}`]] : [];
}
//# sourceMappingURL=show.js.map