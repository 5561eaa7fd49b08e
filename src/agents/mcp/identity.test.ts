import { describe, expect, it } from "vitest";
import { counts, type ServerStart, serverIdentity } from "./identity.ts";

const SECRET = "a secret of the ledger";
const start: ServerStart = {
  command: ["npx", "-y", "bank-server"],
  cwd: "/home/ada/shop",
  env: { HOME: "/home/ada", API_TOKEN: "token-of-ada" },
  secret: SECRET,
};
const identity = (change: Partial<ServerStart> = {}) => serverIdentity({ ...start, ...change });
const withEnv = (env: ServerStart["env"], more: Partial<ServerStart> = {}) =>
  identity({ ...more, env: { ...start.env, ...env } });

describe("which server it is", () => {
  it("another command, folder or credential is another server; the order of variables is nothing", () => {
    const all = [
      identity(),
      identity({ command: ["npx", "-y", "other-server"] }),
      identity({ cwd: "/home/ada/other" }),
      withEnv({ API_TOKEN: "token-of-bob" }),
      withEnv({ API_TENANT: "42" }),
      identity({ env: { HOME: "/home/ada" } }),
      identity({ env: { HOME: "/home/ada", API_TOKEN: "" } }),
      identity({ env: { HOME: "/home/ada", API: "_TOKENtoken-of-ada" } }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(identity({ env: { API_TOKEN: "token-of-ada", HOME: "/home/ada", GONE: undefined } })).toBe(identity());
  });

  it("a restart in another shell, terminal, editor or session is the same server", () => {
    const volatile =
      "PWD OLDPWD SHLVL _ TERM TERM_PROGRAM TERM_SESSION_ID COLUMNS SSH_AUTH_SOCK SSH_CONNECTION XDG_SESSION_ID XDG_RUNTIME_DIR XDG_DATA_DIRS DISPLAY WINDOWID TMUX TMUX_PANE npm_config_cache npm_lifecycle_event npm_package_name INIT_CWD PATH VSCODE_PID VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE CLAUDE_CODE_SSE_PORT DBUS_SESSION_BUS_ADDRESS INVOCATION_ID HOSTNAME LANG LC_ALL TMPDIR NEVERTWICE_AGENT NEVERTWICE_STORE COLORTERM WT_SESSION ITERM_SESSION_ID GPG_TTY =C:";
    for (const name of volatile.split(" ")) expect([name, withEnv({ [name]: "another" })]).toEqual([name, identity()]);
  });

  it.each(
    "HOME USER AWS_PROFILE AWS_SESSION_TOKEN GITHUB_TOKEN NPM_TOKEN DATABASE_URL INSTAGRAM_SESSION_ID MEMORY_FILE_PATH XDG_CONFIG_HOME XDG_DATA_HOME PORT NODE_ENV TERMINUS_KEY PWD2 CURSOR_API_KEY CLAUDE_API_KEY SLACK_TEAM_ID SHELLY_TOKEN SSH_HOST SSH_PRIVATE_KEY PROMPTLAYER_API_KEY SNAP_API_TOKEN HOMEBREW_GITHUB_API_TOKEN LISTEN_ADDR HISTORIAN_KEY".split(
      " ",
    ),
  )("%s counts: it may say whose account it is", (name) => {
    expect(counts(name)).toBe(true);
    expect(withEnv({ [name]: "another" })).not.toBe(identity());
  });

  it("the variables of the ledger's own secrets do not count", () => {
    expect(withEnv({ LEDGER_KEY: "k" }, { notCounted: ["LEDGER_KEY"] })).toBe(identity());
  });

  it("a name says it alone, and named variables count exactly, with a name or without", () => {
    const named = { name: "bank" };
    expect(identity({ ...named, command: ["other"], cwd: "/", env: {} })).toBe(identity(named));
    expect(identity({ name: "bank2" })).not.toBe(identity(named));
    expect(identity({ name: "npx" })).not.toBe(identity({ command: ["npx"], cwd: "", env: {} }));
    const exact = { identityEnv: ["API_TOKEN", "TENANT"] };
    expect(withEnv({ OTHER: "1" }, exact)).toBe(identity(exact));
    expect(withEnv({ TENANT: "1" }, exact)).not.toBe(identity(exact));
    expect(withEnv({ SSH_AUTH_SOCK: "1" }, { identityEnv: ["SSH_AUTH_SOCK"] })).not.toBe(
      identity({ identityEnv: ["SSH_AUTH_SOCK"] }),
    );
    expect(withEnv({ TENANT: "1" }, { ...exact, ...named })).not.toBe(identity({ ...exact, ...named }));
    expect(identity({ ...exact, ...named, cwd: "/" })).toBe(identity({ ...exact, ...named }));
  });

  it("no value is in it, and no plain digest of one, with a secret or without", () => {
    for (const secret of [SECRET, undefined]) {
      const text = identity({ secret });
      expect(text).not.toContain("token-of-ada");
      expect(text).not.toContain("/home/ada");
    }
    expect(identity({ secret: undefined })).toBe(identity({ secret: undefined }));
    expect(new Set([identity(), identity({ secret: undefined }), identity({ secret: "another secret" })]).size).toBe(3);
  });
});
