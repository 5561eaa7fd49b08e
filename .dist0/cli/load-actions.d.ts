import type { Action } from "../engine/action.ts";
export type AnyAction = Action<unknown, unknown>;
export declare function loadAction(file: string, name: string, cwd: string): Promise<AnyAction>;
/** send-followup → sendFollowup: a name an export can have. */
export declare function identifier(name: string): string;
