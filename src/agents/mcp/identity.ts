/**
 * What tells one server from another on the same ledger: its command line, its working folder and the environment it is
 * started with, since credentials come by environment. `--name` says it instead.
 */
import { createHmac, scryptSync } from "node:crypto";

/**
 * Variables that differ from one start of the same server to the next, or between two terminals. If they counted, a proxy
 * that is started again in the middle of a call would run the call again. Every other variable counts: to mix up two accounts
 * would be worse than to run a call again. A star stands for the rest of a name.
 */
const NOT_COUNTED: readonly { readonly names: string; readonly why: string }[] = [
  {
    why: "the state of a shell",
    names:
      "PWD OLDPWD SHLVL _ SHELL SHELLOPTS BASHOPTS BASH_* ZSH_* ZDOTDIR FISH_* HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL HISTIGNORE HISTTIMEFORMAT PROMPT PROMPT_COMMAND PS1 PS2 PS4 RPROMPT LINES COLUMNS LS_COLORS LSCOLORS LESS LESSOPEN LESSCLOSE PAGER MANPAGER STARSHIP_* POSH_* P9K_*",
  },
  {
    why: "the terminal",
    names:
      "TERM TERM_* TERMINAL TERMINAL_* TERMINFO* COLORTERM COLORFGBG COLOR NO_COLOR FORCE_COLOR CLICOLOR* VTE_VERSION WINDOWID GPG_TTY ITERM_* LC_TERMINAL* KITTY_* WEZTERM_* ALACRITTY_* GHOSTTY_* KONSOLE_* GNOME_TERMINAL_* WT_SESSION WT_PROFILE_ID ConEmu* ANSICON* TMUX TMUX_* STY WINDOW ZELLIJ* WARP_IS_LOCAL_SHELL_SESSION WARP_USE_SSH_WRAPPER SHELL_SESSION_*",
  },
  {
    why: "the login and the desktop. XDG's own folders (XDG_CONFIG_HOME …) count: accounts may lie in them",
    names:
      "DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_SESSION_* XDG_RUNTIME_DIR XDG_CURRENT_DESKTOP ORIGINAL_XDG_CURRENT_DESKTOP XDG_SEAT* XDG_VTNR XDG_MENU_PREFIX XDG_*_DIRS XDG_ACTIVATION_TOKEN XDG_GREETER_* DBUS_SESSION_BUS_* DBUS_STARTER_* DESKTOP_SESSION DESKTOP_STARTUP_ID GDMSESSION GDM_* SESSION_MANAGER SESSIONNAME GNOME_* KDE_* GTK_* GIO_* GDK_* QT_* IM_CONFIG_PHASE SECURITYSESSIONID XPC_* __CF* COMMAND_MODE LaunchInstanceID WINDOWPATH WSL_INTEROP WSLENV",
  },
  {
    why: "a remote login and its agent. What an SSH server takes (SSH_HOST, SSH_USER …) counts",
    names:
      "SSH_AUTH_SOCK SSH_AGENT_PID SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_ASKPASS* SSH_SOCKET_DIR SSH_ORIGINAL_COMMAND MOSH_* GPG_AGENT_INFO KRB5CCNAME",
  },
  {
    why: "the service manager or the container that starts it",
    names:
      "INVOCATION_ID JOURNAL_STREAM MANAGERPID SYSTEMD_* NOTIFY_SOCKET LISTEN_FDS LISTEN_FDNAMES LISTEN_PID WATCHDOG_PID WATCHDOG_USEC MEMORY_PRESSURE_* HOSTNAME",
  },
  {
    why: "what npx and other runners and version managers set; where programs are found",
    names:
      "PATH Path npm_* INIT_CWD NODE NODE_PATH NODE_OPTIONS PROJECT_CWD BERRY_BIN_FOLDER PNPM_* COREPACK_* NVM_* FNM_* VOLTA_* ASDF_* MISE_* __MISE_* DIRENV_* VIRTUAL_ENV* PYENV_* CONDA_PREFIX* CONDA_DEFAULT_ENV CONDA_SHLVL CONDA_PROMPT_MODIFIER CONDA_EXE CONDA_PYTHON_EXE UV UV_RUN_* MANPATH INFOPATH HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY NIX_* IN_NIX_SHELL",
  },
  {
    why: "temporary folders, and what an AppImage mounts under another name at each start",
    names:
      "TMPDIR TMP TEMP APPDIR APPIMAGE ARGV0 OWD LD_LIBRARY_PATH GSETTINGS_SCHEMA_DIR GST_* PERLLIB SNAP SNAP_COOKIE SNAP_CONTEXT SNAP_REVISION SNAP_VERSION SNAP_DATA SNAP_COMMON SNAP_USER_* SNAP_LIBRARY_PATH",
  },
  {
    why: "the editor or agent that starts it",
    names:
      "VSCODE_* CURSOR_TRACE_ID ELECTRON_* CHROME_DESKTOP TERMINAL_EMULATOR INSIDE_EMACS NVIM NVIM_* VIM VIMRUNTIME MYVIMRC EDITOR VISUAL GIT_ASKPASS GIT_EDITOR GIT_PAGER ZED_TERM ZED_ENVIRONMENT CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SSE_PORT CLAUDE_CODE_SESSION_ID CODEX_SANDBOX* GEMINI_CLI",
  },
  { why: "the language of messages", names: "LANG LANGUAGE LC_*" },
  { why: "nevertwice's own settings", names: "NEVERTWICE_*" },
];

const NOT_COUNTED_NAME = new RegExp(
  `^(?:${NOT_COUNTED.flatMap(({ names }) => names.split(" "))
    .map((name) => name.replaceAll("*", ".*"))
    .join("|")})$`,
);

export function counts(variable: string): boolean {
  // Windows keeps the folder of each drive in variables such as "=C:".
  return !variable.startsWith("=") && !NOT_COUNTED_NAME.test(variable);
}

type Environment = Readonly<Record<string, string | undefined>>;

export interface ServerStart {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Environment;
  /** Says alone which server it is. */
  readonly name?: string | undefined;
  /** Exactly these variables count. */
  readonly identityEnv?: readonly string[] | undefined;
  /** Of the proxy, not of the server: the variables that hold the ledger's secrets. */
  readonly notCounted?: readonly string[];
  readonly secret?: string | undefined;
}

/** A text without any value of a variable in it. */
export function serverIdentity(start: ServerStart): string {
  const { command, cwd, name, secret } = start;
  const base = name === undefined ? ["command", ...command] : ["name", name];
  const names = countedNames(start);
  if (name !== undefined && names.length === 0) return JSON.stringify(base);
  const values = names.map((variable) => [variable, start.env[variable] ?? null]);
  const text = JSON.stringify([base, name === undefined ? cwd : null, values]);
  return JSON.stringify([...base, digest(text, JSON.stringify(base), secret)]);
}

function countedNames({ env, name, identityEnv, notCounted = [] }: ServerStart): readonly string[] {
  if (identityEnv !== undefined) return [...new Set(identityEnv)].sort();
  if (name !== undefined) return [];
  return Object.keys(env)
    .filter((variable) => env[variable] !== undefined && counts(variable) && !notCounted.includes(variable))
    .sort();
}

// Without a secret a digest is all there is against guessing a value, so that it is a slow one. About 50 ms, once.
const SLOW = { N: 2 ** 14, r: 8, p: 1 };

function digest(text: string, salt: string, secret: string | undefined): string {
  if (secret !== undefined) return createHmac("sha256", secret).update(text).digest("base64url");
  return scryptSync(text, `nevertwice/mcp-identity\0${salt}`, 32, SLOW).toString("base64url");
}
