/** Time and chance, handed in so that tests can hold them. */
import { performance } from "node:perf_hooks";
// Node's timers overflow above 2^31 - 1 ms and would fire at once.
const LONGEST_TIMER_MS = 2_147_483_647;
export const systemClock = {
    monotonic: () => performance.now(),
    after(ms, run, background = false) {
        const handle = setTimeout(run, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
        if (background)
            handle.unref();
        return { cancel: () => clearTimeout(handle) };
    },
};
export function sleep(clock, ms) {
    return new Promise((done) => {
        clock.after(ms, done);
    });
}
//# sourceMappingURL=clock.js.map