/** Times, ages and keys as people read them. */
import { visible } from "./text.js";
// "nt1_" and ten characters: 50 bits, so that even a ledger of millions rarely has two alike, and short enough to type.
const SHORT_KEY = 14;
export function shortKey(key) {
    return key.slice(0, SHORT_KEY);
}
const UNITS = [
    { letter: "y", name: "year", ms: 365.25 * 86_400_000 },
    { letter: "d", name: "day", ms: 86_400_000 },
    { letter: "h", name: "hour", ms: 3_600_000 },
    { letter: "m", name: "minute", ms: 60_000 },
    { letter: "s", name: "second", ms: 1_000 },
];
/** Rounded down, but for the last percent: 30 days less a blink are 30 days, not 29. */
function largestUnit(exactMs) {
    const ms = exactMs * 1.01;
    const unit = UNITS.find((one) => ms >= one.ms) ?? UNITS[4];
    return { ...unit, count: Math.floor(ms / unit.ms) };
}
/** For tables: "12s", "4m", "3h", "5d". */
export function age(ms) {
    const { count, letter } = largestUnit(Math.max(0, ms));
    return `${count}${letter}`;
}
/** For sentences: "4 minutes". */
export function span(ms) {
    const { count, name } = largestUnit(Math.max(0, ms));
    return plural(count, name);
}
export function relative(at, now) {
    if (Math.abs(now - at) < 1_000)
        return "now";
    return at <= now ? `${span(now - at)} ago` : `in ${span(at - now)}`;
}
/** Local time with its offset: 2026-01-15T10:15:02+01:00. */
export function localIso(at) {
    const date = new Date(at);
    if (Number.isNaN(date.getTime()))
        return "(not a time)";
    const offset = -date.getTimezoneOffset();
    const two = (n) => String(n).padStart(2, "0");
    const shifted = new Date(at + offset * 60_000).toISOString().slice(0, 19);
    const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
    return shifted + zone;
}
export function moment(at, now) {
    return `${localIso(at)} (${relative(at, now)})`;
}
export function plural(count, one, many = `${one}s`) {
    return `${count} ${count === 1 ? one : many}`;
}
export function bytes(count) {
    for (const [unit, size] of [
        ["TB", 1e12],
        ["GB", 1e9],
        ["MB", 1e6],
    ]) {
        if (count >= size)
            return `${(count / size).toFixed(count >= 10 * size ? 0 : 1)} ${unit}`;
    }
    return `${Math.round(count / 1e3)} kB`;
}
/** A value on a command line that is to be copied: quoted for a shell where it needs to be. */
export function shellWord(value) {
    const shown = visible(value);
    return /^[\w@%+=:,./-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}
//# sourceMappingURL=format.js.map