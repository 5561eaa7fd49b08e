import { describe, expect, it } from "vitest";
import { commandName } from "./command-name.ts";

describe("the name of a command", () => {
  it.each([
    ["npx -y @acme/mail-server", "mail-server"],
    ["npx -y @acme/mail-server@1.2.3 --token hunter2", "mail-server"],
    ["npx --package @acme/tools mail-server", "mail-server"],
    ["node server.js", "server"],
    ["node --env-file .env dist/mail-server.mjs hunter2", "mail-server"],
    ["node --max-old-space-size=512 server.js", "server"],
    ["/usr/local/bin/node ./build/index.js", "index"],
    ["python -m mail_server --key hunter2", "mail_server"],
    ["python3 -u server.py", "server.py"],
    ["uvx --from mail-tools mail-server", "mail-server"],
    ["uv run --with httpx server.py", "server.py"],
    ["uv --directory /srv run server.py", "server.py"],
    ["deno run -A server.ts", "server"],
    ["docker run image", "image"],
    ["docker run -i --rm -e TOKEN=hunter2 image", "image"],
    ["docker run -e TOKEN=hunter2 ghcr.io/acme/mail hunter2", "mail"],
    ["docker run --env TOKEN=hunter2 --name hunter2 acme/mail:1.2", "mail:1.2"],
    ["docker run --env=TOKEN=hunter2 image", "image"],
    ["docker run -eTOKEN=hunter2 image", "image"],
    ["docker run -ite TOKEN=hunter2 image", "docker"],
    ["docker exec -e TOKEN=hunter2 mailbox mail-server", "mailbox"],
    ["podman run --secret hunter2 image", "image"],
    ["env TOKEN=hunter2 node server.js", "server"],
    ["TOKEN=hunter2 node server.js", "server"],
    ["env -u HOME TOKEN=hunter2 npx -y mail-server", "mail-server"],
    ["cross-env TOKEN=hunter2 npx mail-server", "mail-server"],
    ["doppler run --token hunter2 -- node server.js", "server"],
    ["./mail-server --token hunter2", "mail-server"],
    ["C:\\tools\\mail-server.exe --token hunter2", "mail-server.exe"],
    ["npx mcp-remote https://ana:hunter2@h/sse", "mcp-remote"],
  ])("%s → %s", (line, name) => {
    expect(commandName(line.split(" "))).toBe(name);
  });

  it.each([
    ["a flag that is not known may take the next word", ["npx", "--unheard-of", "hunter2", "mail-server"], "npx"],
    ["code on the command line", ["node", "-e", "hunter2()"], "node"],
    ["a line of shell code", ["bash", "-c", "TOKEN=hunter2 node server.js"], "bash"],
    ["a script's URL with a token", ["deno", "run", "https://h/x.ts?token=hunter2"], "deno"],
    ["a script's URL with a password", ["deno", "run", "https://ana:hunter2@h"], "deno"],
    ["a token in place of the package", ["npx", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"], "npx"],
    ["an assignment only", ["TOKEN=hunter2"], "command"],
    ["nothing", [], "command"],
  ])("where it is not certain which word runs, it is the launcher's: %s", (_, command, name) => {
    expect(commandName(command)).toBe(name);
  });
});
