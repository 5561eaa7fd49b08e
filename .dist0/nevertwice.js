/** Puts the engine together over a store: what `nevertwice()` returns. */
import { randomBytes } from "node:crypto";
import { durationMs } from "./core/duration.js";
import { configError } from "./core/errors.js";
import { policyWarnings } from "./core/policy.js";
import { sealer } from "./core/seal.js";
import { createAction } from "./engine/action.js";
import { systemClock } from "./engine/clock.js";
import { silentLogger } from "./engine/context.js";
import { defineAction } from "./engine/definition.js";
import { Engine } from "./engine/engine.js";
import { Events, Warnings } from "./engine/events.js";
import { Ledger } from "./engine/ledger.js";
import { resolveDoubt, retryFailed } from "./engine/operate.js";
import { Payloads } from "./engine/payloads.js";
import { Heart } from "./engine/pulse.js";
import { Sweeper, SweepLoop } from "./engine/sweeper.js";
import { Untold } from "./engine/untold.js";
import { openStore } from "./open-store.js";
const OPTIONS = new Set("store tenant secret encrypt logger onWarning sweep".split(" "));
const DEFAULT_SWEEP = "30s";
// A sweep reads the ledger: more often than this it would be a load of its own.
const SHORTEST_SWEEP_MS = 10;
export function nevertwice(options = {}) {
    checkOptions(options);
    return new Instance(options);
}
function checkOptions(options) {
    for (const option of Object.keys(options)) {
        if (!OPTIONS.has(option)) {
            throw configError(`nevertwice(): there is no option ${JSON.stringify(option)}. The options are: ${[...OPTIONS].join(", ")}.`);
        }
    }
    const { tenant } = options;
    if (tenant !== undefined && (typeof tenant !== "string" || tenant.trim() === "")) {
        throw configError(`nevertwice(): tenant is ${JSON.stringify(tenant)}; give a name that is not blank, or leave it out.`);
    }
}
class Instance {
    store;
    #engine;
    #defaults;
    #definitions = new Map();
    #adHoc = new Map();
    #sweeper;
    #loop;
    #services;
    #closing = null;
    constructor(options) {
        this.store = openStore(options.store);
        this.#defaults = { tenant: options.tenant ?? "", secret: options.secret };
        const events = new Events();
        const clock = systemClock;
        const random = Math.random;
        const ledger = new Ledger({ store: this.store, clock, events, random });
        this.#engine = new Engine({
            ledger,
            clock,
            random,
            events,
            payloads: new Payloads(options.encrypt === undefined ? null : sealer(options.encrypt)),
            warnings: new Warnings(events, options.onWarning),
            logger: options.logger ?? silentLogger,
            untold: new Untold(ledger, clock),
            heart: new Heart(ledger, clock),
            newHolder: holderIds(),
        });
        this.#sweeper = new Sweeper(this.#engine, this.#definitions, this.#defaults);
        const everyMs = options.sweep === false ? null : sweepInterval(options.sweep ?? DEFAULT_SWEEP);
        const onError = (error) => this.#engine.services.logger.warn(`nevertwice: a sweep failed: ${String(error)}`);
        this.#loop = everyMs === null ? null : new SweepLoop({ sweeper: this.#sweeper, clock, everyMs, random, onError });
        this.#services = { engine: this.#engine, defaults: this.#defaults, used: () => this.#used() };
    }
    #used() {
        this.#engine.requireOpen();
        this.#loop?.start();
    }
    // The overloads differ only in what they infer; behind them stands one function.
    action = ((name, options) => this.#define(name, options));
    #define(name, options) {
        const definition = defineAction(name, options);
        if (this.#definitions.has(name)) {
            throw configError(`action ${JSON.stringify(name)} is defined twice. Its name is part of every key: two kinds of effect under one name would take each other for repeats.`);
        }
        this.#definitions.set(name, definition);
        for (const warning of policyWarnings(definition.policy, name)) {
            this.#engine.services.warnings.warn(warning.code, name, warning.message);
        }
        return createAction(definition, this.#services);
    }
    async once(name, parts, run, options = {}) {
        if (typeof run !== "function")
            throw configError(`once(${JSON.stringify(name)}, …): the third argument must be the function that has the effect.`);
        const { scope, version, tenant, wait, tx, ...policy } = options;
        const definition = defineAction(name, {
            ...policy,
            key: () => parts,
            run: (_input, context) => run(context),
        });
        this.#warnOnce(definition);
        const given = { scope, version, tenant, wait, tx };
        const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
        return createAction(definition, this.#services)(undefined, set);
    }
    status({ key }) {
        return this.#engine.status(key);
    }
    resolve({ key }, resolution) {
        return resolveDoubt(this.#engine, key, resolution);
    }
    retry({ key }, signature) {
        return retryFailed(this.#engine, key, signature);
    }
    sweep() {
        return this.#sweeper.tick();
    }
    on(listener) {
        return this.#engine.services.events.on(listener);
    }
    close() {
        this.#closing ??= this.#close();
        return this.#closing;
    }
    async #close() {
        const idle = this.#engine.close();
        await this.#loop?.stop();
        await idle;
        const { untold } = this.#engine.services;
        untold.stop();
        if (untold.size > 0)
            await untold.tick();
        await this.store.close();
    }
    #warnOnce(definition) {
        if (this.#adHoc.has(definition.name))
            return;
        this.#adHoc.set(definition.name, definition);
        for (const warning of policyWarnings(definition.policy, definition.name)) {
            this.#engine.services.warnings.warn(warning.code, definition.name, warning.message);
        }
    }
}
function sweepInterval(every) {
    const ms = durationMs(every, "nevertwice(): sweep");
    if (ms >= SHORTEST_SWEEP_MS)
        return ms;
    throw configError(`nevertwice(): sweep is ${ms}ms; give at least ${SHORTEST_SWEEP_MS}ms, or false to sweep only when sweep() is called.`);
}
/** Random ids at a counter's price: one draw of 96 random bits per process, one number per claim. */
function holderIds() {
    const prefix = `${randomBytes(12).toString("base64url")}.`;
    let count = 0;
    return () => {
        count += 1;
        return prefix + count.toString(36);
    };
}
//# sourceMappingURL=nevertwice.js.map