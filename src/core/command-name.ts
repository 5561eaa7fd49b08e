/**
 * A short name for a command line, for people who read the ledger: npx -y @acme/mail-server → mail-server. It is the
 * program, package, image or script that runs, and never the value of a flag or of a variable: those may be secrets, and
 * the name is stored in the clear. Where it is not certain which word that is, the name is the launcher's.
 */
import { redact } from "./redact.ts";

const LONGEST = 60;
// A line of shell code is none.
const PLAIN_WORD = /^[\w@.:+-]+$/;

/** A program that runs another one: which words may stand between the two. */
interface Launcher {
  /** Words that are part of the launcher: docker run. */
  readonly words?: string;
  /** Flags without a value. */
  readonly bare?: string;
  /** Flags whose value is the next word. */
  readonly valued?: string;
  /** The flag whose value is what runs: python -m module. */
  readonly names?: string;
}

const JS_BARE =
  "-y --yes --no -q --quiet -s --silent --no-install --prefer-offline --prefer-online --offline --ignore-existing --bun -b";
const CONTAINER: Launcher = {
  words: "run exec container compose",
  bare: "-i -t -it -ti -d -q -P -T --rm --init --interactive --tty --detach --privileged --read-only --no-healthcheck --quiet --publish-all --no-deps --build",
  valued:
    "-e --env --env-file -v --volume -p --publish --name --network --net --network-alias --mount -w --workdir -u --user --entrypoint -h --hostname -l --label --platform --pull --cpus -c --cpu-shares -m --memory --restart --add-host --cap-add --cap-drop --security-opt --dns --ip --log-driver --log-opt --gpus --shm-size --tmpfs --ulimit --userns --device --secret -f --file --project-name --context -H --host --config --log-level --pid --ipc --stop-signal --stop-timeout --link --group-add --expose --cidfile",
};
const PYTHON: Launcher = { bare: "-u -B -E -I -s -S -O -OO -q -v -b", valued: "-W -X", names: "-m" };
const SHELL: Launcher = { bare: "-e -u -x -l -i -eu -ex -eux -eo -euo", valued: "-o" };
const LAUNCHERS: ReadonlyMap<string, Launcher> = new Map<string, Launcher>([
  [
    "node",
    {
      bare: "--inspect --inspect-brk --watch --enable-source-maps --no-warnings --trace-warnings --experimental-strip-types --experimental-transform-types --no-deprecation --use-system-ca --preserve-symlinks",
      valued:
        "-r --require --import --loader --experimental-loader --env-file --env-file-if-exists -C --conditions --max-old-space-size --title",
    },
  ],
  ["npx", { bare: JS_BARE, valued: "-p --package --registry --cache --userconfig -w --workspace" }],
  ["bunx", { bare: JS_BARE, valued: "-p --package" }],
  ["npm", { words: "exec x run run-script", bare: JS_BARE, valued: "--prefix -w --workspace --package" }],
  ["pnpm", { words: "exec dlx run", bare: JS_BARE, valued: "-C --dir --filter --package" }],
  ["yarn", { words: "exec dlx run", bare: JS_BARE, valued: "--cwd -p --package" }],
  ["bun", { words: "x run", bare: `${JS_BARE} --watch --hot`, valued: "--cwd --env-file -r --preload" }],
  [
    "deno",
    {
      words: "run task",
      bare: "-A --allow-all --allow-net --allow-read --allow-write --allow-env --allow-run --allow-sys --allow-ffi --no-prompt --no-check --quiet -q --node-modules-dir --unstable --cached-only",
      valued: "-c --config --import-map --lock",
    },
  ],
  ["tsx", { words: "watch", valued: "--tsconfig --env-file" }],
  [
    "uv",
    {
      words: "run tool",
      bare: "--isolated --no-cache -n -q --quiet --offline --no-project --frozen --locked --no-sync",
      valued:
        "--from --with --with-editable --with-requirements -p --python --directory --project --index-url --index --extra --group --env-file",
      names: "-m",
    },
  ],
  ["uvx", { bare: "--isolated --no-cache -n -q --quiet --offline", valued: "--from --with -p --python --index-url" }],
  ["pipx", { words: "run", bare: "-q --quiet", valued: "--spec --python --index-url" }],
  ["python", PYTHON],
  ["python3", PYTHON],
  ["py", PYTHON],
  ["docker", CONTAINER],
  ["podman", CONTAINER],
  ["nerdctl", CONTAINER],
  ["sh", SHELL],
  ["bash", SHELL],
  ["zsh", SHELL],
  ["env", { bare: "-i -0 -", valued: "-u --unset -C --chdir" }],
  ["cross-env", {}],
  ["dotenv", { valued: "-e -v -p -c" }],
  ["dotenvx", { words: "run", valued: "-f --env-file -e --env" }],
  ["doppler", { words: "run", valued: "-p --project -c --config -t --token" }],
  ["op", { words: "run", bare: "--no-masking", valued: "--env-file --account" }],
  ["sudo", { bare: "-E -n -H -S", valued: "-u --user -g --group" }],
  ["nohup", {}],
  ["nice", { valued: "-n" }],
  ["cmd", { words: "/c /C" }],
  ["nevertwice", { words: "mcp" }],
]);

export function commandName(command: readonly string[]): string {
  for (const word of [wordThatRuns(command), command[0]]) {
    const name = word === undefined || redact(word) !== word ? "" : shortName(word);
    if (PLAIN_WORD.test(name) && redact(name) === name) return name;
  }
  return "command";
}

/** Undefined: a flag that is not known stands before it, and its value could be taken for the name. */
function wordThatRuns(command: readonly string[]): string | undefined {
  let launcher: Launcher | undefined;
  let at = 0;
  for (; at < command.length; at += 1) {
    const word = command[at] as string;
    if (isAssignment(word) || word === "--") continue;
    if (!word.startsWith("-") || word === "-") {
      const known = LAUNCHERS.get(programOf(word));
      if (known === undefined && !has(launcher?.words, word)) return word;
      if (known !== undefined) launcher = known;
      continue;
    }
    if (has(launcher?.names, word)) return command[at + 1];
    if (has(launcher?.valued, word)) at += 1;
    // --flag=value and -fvalue stand in one word; any other flag may take the next one.
    else if (!has(launcher?.bare, word) && !word.includes("=")) return undefined;
  }
  return undefined;
}

function has(list: string | undefined, word: string): boolean {
  return list?.split(" ").includes(word) ?? false;
}

function isAssignment(word: string): boolean {
  return /^[A-Za-z_][\w.-]*=/.test(word);
}

function programOf(word: string): string {
  return lastPart(word).replace(/\.(exe|cmd|bat)$/i, "");
}

function lastPart(word: string): string {
  return (
    word
      .replace(/[?#].*$/s, "")
      .split(/[/\\]/)
      .at(-1) ?? ""
  );
}

function shortName(word: string): string {
  return lastPart(word)
    .replace(/@[^@/]*$|\.[cm]?[jt]s$/g, "")
    .slice(0, LONGEST);
}
