/** The user's own module, for what only the action's code can do: derive a key and perform the effect. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { messageOf } from "../core/errors.ts";
import type { Action } from "../engine/action.ts";
import type { Nevertwice } from "../nevertwice.ts";
import { ProblemError, UsageError } from "./term/exit.ts";
import { oneLine } from "./term/text.ts";

export type AnyAction = Action<unknown, unknown>;

/** All actions that a module exports, of the one nevertwice() they were made with. */
export async function loadActions(
  file: string,
  cwd: string,
  given = `--actions ${file}`,
): Promise<{ readonly actions: readonly AnyAction[]; readonly owner: Nevertwice }> {
  const actions = actionsOf(await importModule(file, cwd, given));
  const owners = new Set(actions.map(ownerOf));
  const [owner] = owners;
  if (owner === undefined || owner === null)
    throw new UsageError(
      `${file} exports no action. Export what nt.action() returned: export const sendFollowup = nt.action("send_followup", …)`,
    );
  if (owners.size > 1)
    throw new UsageError(
      `${file} exports actions of ${owners.size} nevertwice() instances. Export those of one, and start a command for each.`,
    );
  return { actions, owner };
}

/** By a registered symbol, not by class: the module may have a copy of nevertwice of its own. */
function ownerOf(action: AnyAction): Nevertwice | null {
  return (action as unknown as Record<symbol, Nevertwice | undefined>)[Symbol.for("nevertwice.owner")] ?? null;
}

/** `missing`: the error where the module exports no such action, if there is a better one than to export it. */
export async function loadAction(
  file: string,
  name: string,
  cwd: string,
  missing: Error | null = null,
): Promise<AnyAction> {
  const actions = actionsOf(await importModule(file, cwd));
  const found = actions.find(({ actionName }) => actionName === name);
  if (found !== undefined) return found;
  if (missing !== null) throw missing;
  const names = [...new Set(actions.map(({ actionName }) => oneLine(actionName)))];
  throw new UsageError(
    names.length === 0
      ? `${file} exports no action. Export what nt.action() returned: export const ${identifier(name)} = nt.action(${JSON.stringify(name)}, …)`
      : `${file} exports no action named ${JSON.stringify(name)}; it has: ${names.join(", ")}.`,
  );
}

/** `given`: as the command line has it, a flag or an operand. */
async function importModule(file: string, cwd: string, given = `--actions ${file}`): Promise<Record<string, unknown>> {
  const path = resolve(cwd, file);
  if (!existsSync(path)) throw new UsageError(`${given}: there is no such file (looked for ${path}).`);
  try {
    return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (error) {
    const code = (error as { code?: unknown } | null)?.code;
    if (code === "ERR_UNKNOWN_FILE_EXTENSION") {
      throw new UsageError(
        `${given}: this Node (${process.version}) cannot load TypeScript. Compile it and name the .js file, or run the command under tsx: npx tsx node_modules/nevertwice/dist/cli/main.js …`,
        { cause: error },
      );
    }
    throw new ProblemError(`${given} could not be loaded: ${messageOf(error)}. Nothing was sent.`, {
      cause: error,
    });
  }
}

/** Exported directly, or one level down in an exported object or array. */
function actionsOf(exported: Record<string, unknown>): AnyAction[] {
  return Object.values(exported).flatMap((value) => {
    if (isAction(value)) return [value];
    const nested = Array.isArray(value) ? value : isPlainObject(value) ? Object.values(value) : [];
    return nested.filter(isAction);
  });
}

/** By shape: the module may have a copy of nevertwice of its own. */
function isAction(value: unknown): value is AnyAction {
  const action = value as Partial<AnyAction>;
  return typeof value === "function" && typeof action.actionName === "string" && typeof action.resend === "function";
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** send-followup → sendFollowup: a name an export can have. */
export function identifier(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  const camel = words.map((word, i) => (i === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join("");
  return /^[A-Za-z]/.test(camel) ? camel : "action";
}
