/** What the engine tells those who watch. No event carries an input, a result or a key part (K6). */
export class Events {
    #listeners = new Set();
    on(listener) {
        this.#listeners.add(listener);
        return () => {
            this.#listeners.delete(listener);
        };
    }
    emit(event) {
        for (const listener of this.#listeners) {
            unharmed("an event listener", () => listener(event));
        }
    }
}
/** A watcher's bug must not touch the effect it watches, nor stay hidden; an async one fails later, and likewise. */
function unharmed(who, call) {
    const tell = (error) => process.emitWarning(`nevertwice: ${who} threw: ${String(error)}`, { type: "NevertwiceWarning" });
    try {
        const answer = call();
        if (answer instanceof Promise)
            answer.catch(tell);
    }
    catch (error) {
        tell(error);
    }
}
// An action with thousands of bad keys warns once, not thousands of times.
const MAX_REMEMBERED = 1_000;
/** Each warning is said once per action and code. */
export class Warnings {
    #events;
    #sink;
    #said = new Set();
    constructor(events, sink) {
        this.#events = events;
        this.#sink = sink;
    }
    said(code, action) {
        return this.#said.has(`${code} ${action}`);
    }
    warn(code, action, message) {
        if (this.said(code, action) || this.#said.size >= MAX_REMEMBERED)
            return;
        this.#said.add(`${code} ${action}`);
        this.#events.emit({ type: "warning", code, action, message });
        const sink = this.#sink;
        if (sink)
            unharmed("onWarning", () => sink({ code, action, message }));
        else
            process.emitWarning(message, { type: "NevertwiceWarning", code: `NEVERTWICE_${code}` });
    }
}
//# sourceMappingURL=events.js.map