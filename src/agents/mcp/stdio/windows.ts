/**
 * How a command is started on Windows. npx, npm and most programs from npm are batch files there (npx.cmd), which only cmd.exe
 * can run. It reads its line by other rules than programs read theirs, so that each argument is quoted for both.
 */
import { configError } from "../../../core/errors.ts";

export interface Spawning {
  readonly file: string;
  readonly args: readonly string[];
  /** The arguments are quoted already. */
  readonly windowsVerbatimArguments?: true;
}

export interface WindowsPlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  isFile(path: string): boolean;
}

export function windowsSpawning([program = "", ...args]: readonly string[], place: WindowsPlace): Spawning {
  const found = programFile(program, place);
  if (found === null || !/\.(?:cmd|bat)$/i.test(found)) return { file: found ?? program, args };
  const line = [found, ...args].map((word) => forBatch(word, program)).join(" ");
  const shell = variable(place.env, "ComSpec") ?? "cmd.exe";
  return { file: shell, args: ["/d", "/s", "/c", `"${line}"`], windowsVerbatimArguments: true };
}

/** As cmd.exe finds it, but for the folder that it is started in: a program put there would be taken for npx. */
function programFile(program: string, { env, cwd, isFile }: WindowsPlace): string | null {
  const isPath = /[\\/]/.test(program);
  const folders = isPath ? [null] : (variable(env, "Path") ?? "").split(";").map(unquoted).filter(Boolean);
  const endings = (variable(env, "PATHEXT") ?? ".COM;.EXE;.BAT;.CMD").split(";").filter(Boolean);
  const hasEnding = endings.some((ending) => program.toLowerCase().endsWith(ending.toLowerCase()));
  for (const folder of folders) {
    const base = folder === null ? absolute(program, cwd) : `${folder.replace(/[\\/]+$/, "")}\\${program}`;
    for (const path of [...(hasEnding ? [base] : []), ...endings.map((ending) => base + ending.toLowerCase())])
      if (isFile(path)) return path;
  }
  return null;
}

function absolute(program: string, cwd: string): string {
  return /^(?:[a-z]:|[\\/])/i.test(program) ? program : `${cwd}\\${program.replace(/^\.[\\/]/, "")}`;
}

function unquoted(text: string): string {
  return text.replace(/^"|"$/g, "");
}

/** Names of variables are the same in any case. */
function variable(env: WindowsPlace["env"], name: string): string | undefined {
  const found = Object.keys(env).find((one) => one.toLowerCase() === name.toLowerCase());
  return found === undefined ? undefined : env[found];
}

/**
 * In quotes for the program, and each character that cmd.exe acts on behind a caret, the quotes too: it then expands no %NAME%
 * and ends no command. The batch file hands the quoted text on, where the quotes keep & | < > from acting. A quote inside would
 * end them there, and a line end the command: no quoting is safe for both.
 */
function forBatch(word: string, program: string): string {
  if (/["\r\n\0]/.test(word))
    throw configError(
      `the MCP server could not be started (${program}): on Windows it is a batch file, and an argument with a quote or a line end cannot be handed to it safely. Start the program itself (node and its script), or give the value by an environment variable.`,
    );
  const quoted = `"${word.replace(/\\+$/, (slashes) => slashes + slashes)}"`;
  return quoted.replace(/[()\][%!^"`<>&|;, *?]/g, "^$&");
}
