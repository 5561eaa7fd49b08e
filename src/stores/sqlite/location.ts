/**
 * Where the default ledger lies, so that cron, a shell and a program agree: beside the nearest package.json (or an
 * existing .nevertwice folder), otherwise in the user's state folder. On a disk that does not last it is refused.
 */
import { accessSync, constants, existsSync, lstatSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, sep } from "node:path";
import { configError, messageOf } from "../../core/errors.ts";
import { makePrivateFolder } from "../shared/private-files.ts";

export interface DefaultLocation {
  readonly path: string;
  /** Why there: shown by doctor and --verbose. */
  readonly why: string;
  /** Folders that would have been nearer, and belong to another user. */
  readonly foreign?: readonly string[];
}

export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
  /** The user who runs the program; undefined where the system has no such number. */
  readonly uid?: number | undefined;
}

const FOLDER = ".nevertwice";
const FILE = "ledger.db";

export function surroundings(): Surroundings {
  return { cwd: process.cwd(), env: process.env, platform: process.platform, home: homedir(), uid: process.getuid?.() };
}

export function defaultLocation(around: Surroundings = surroundings()): DefaultLocation {
  refusePassingDisk(around.env);
  const foreign: string[] = [];
  const found = (path: string, why: string) => ({ path, why, ...(foreign.length > 0 && { foreign }) });
  for (let folder = around.cwd; ; folder = dirname(folder)) {
    // A package's own package.json says nothing about the project that runs it.
    const inside = folder.split(sep).includes("node_modules");
    const own = join(folder, FOLDER);
    const isProject = !inside && existsSync(join(folder, "package.json"));
    if (!inside && existsSync(own)) {
      if (!isForeign(own, around.uid)) return found(join(own, FILE), `the nearest ${FOLDER} folder`);
      // A ledger somewhere else would not know what was done: that is for a person to decide.
      if (isProject) throw foreignFolder(own);
      foreign.push(own);
    }
    if (isProject) return found(join(own, FILE), "beside the nearest package.json");
    if (dirname(folder) === folder) break;
  }
  return found(join(stateFolder(around), FILE), "no package.json above this folder: your state folder");
}

/**
 * Whoever can write above this folder could have put it there: to read what is stored, to pass off what was never done
 * as done, or to have files written where a symlink leads. root may do all of that anyway.
 */
function isForeign(folder: string, uid: number | undefined): boolean {
  if (uid === undefined) return false;
  const file = join(folder, FILE);
  const owners = [lstatSync(folder), statSync(folder), lstatSync(file, { throwIfNoEntry: false }), ownerBehind(file)];
  return owners.some((owner) => owner !== undefined && owner.uid !== uid && owner.uid !== ROOT);
}

const ROOT = 0;

function ownerBehind(path: string): { readonly uid: number } | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function foreignFolder(folder: string) {
  return configError(
    `the default ledger would lie in ${folder}, and that folder, a file in it or what it links to belongs to another user. It is not used. If you trust it, name it yourself: nevertwice({ store: "sqlite:${join(folder, FILE)}" }) or NEVERTWICE_STORE; otherwise remove it.`,
  );
}

export function stateFolder({ env, platform, home }: Surroundings): string {
  if (platform === "win32") return join(env.LOCALAPPDATA ?? join(home, "AppData", "Local"), "nevertwice");
  if (platform === "darwin") return join(home, "Library", "Application Support", "nevertwice");
  return join(env.XDG_STATE_HOME ?? join(home, ".local", "state"), "nevertwice");
}

const PASSING: readonly (readonly [variable: string, platform: string])[] = [
  ["AWS_LAMBDA_FUNCTION_NAME", "AWS Lambda"],
  ["VERCEL", "Vercel"],
  ["NETLIFY", "Netlify"],
  ["K_SERVICE", "Cloud Run"],
  ["CLOUD_RUN_JOB", "Cloud Run"],
  ["FUNCTION_TARGET", "Cloud Functions"],
  ["FUNCTIONS_WORKER_RUNTIME", "Azure Functions"],
  ["DYNO", "Heroku"],
];

function refusePassingDisk(env: Surroundings["env"]): void {
  const found = PASSING.find(([variable]) => env[variable]);
  if (found === undefined) return;
  throw configError(
    `this program runs on ${found[1]}, whose disk does not last: an embedded ledger would forget what was done. ${storesThatFit} If the disk does last (a mounted volume), name the file yourself: nevertwice({ store: "sqlite:/mnt/data/ledger.db" }).`,
  );
}

const storesThatFit =
  'Use a store that every instance shares: nevertwice({ store: "postgres://user:password@host/database" }) or "redis://host:6379".';

/** Made with a .gitignore of its own: a ledger does not belong into a commit. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  try {
    if (!existsSync(folder)) {
      makePrivateFolder(folder);
      writeFileSync(join(folder, ".gitignore"), "*\n", { flag: "wx" });
    }
    accessSync(folder, constants.W_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw configError(
      `the default ledger would lie at ${path}, but that folder cannot be written (${messageOf(error)}). ${storesThatFit} Or name a writable file: nevertwice({ store: "sqlite:/var/lib/app/ledger.db" }).`,
      error,
    );
  }
}
