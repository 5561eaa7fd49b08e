import type { Outcome } from "../core/outcome.ts";
import type { Call } from "./call.ts";
import type { ExecutionServices } from "./execution.ts";
export declare function runUnguarded(services: ExecutionServices, call: Call): Promise<Outcome<unknown>>;
