import type { Outcome } from "../core/outcome.ts";
import { type Call } from "./call.ts";
import type { Engine } from "./engine.ts";
export declare function runInTransaction(engine: Engine, call: Call, tx: unknown): Promise<Outcome<unknown>>;
