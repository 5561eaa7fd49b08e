/** The flags of `nevertwice mcp` that decide who may come in and what the ledger shows. */
import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  COMMAND,
  connect,
  connectHttp,
  folder,
  httpProxyOf,
  MAIL_SERVER,
  mailServerOnHttp,
  proxied,
  said,
  started,
} from "./lib/mcp.ts";

const mail = { name: "send_mail", arguments: { to: "ada@example.com", body: "Hello" } };

const STATE_SERVER = fileURLToPath(new URL("./lib/state-server.mjs", import.meta.url));

/** What the proxy says to the person who started it is heard. */
async function connectHeard(argv: readonly string[]) {
  const transport = new StdioClientTransport({ command: process.execPath, args: [...argv], stderr: "pipe" });
  let heard = "";
  transport.stderr?.on("data", (more: Buffer) => {
    heard += String(more);
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, stderr: () => heard };
}

async function refusal(...argv: string[]): Promise<string> {
  const env = { ...process.env, SHORT: "x", BAD_KEY: "not a key", EMPTY: "" };
  const ended = promisify(execFile)(process.execPath, [COMMAND, "mcp", ...argv], { cwd: folder(), env });
  const { code, stderr } = await ended.then(
    () => ({ code: 0, stderr: "" }),
    (error: { code: number; stderr: string }) => error,
  );
  expect(code).toBe(2);
  return stderr;
}

describe("nevertwice mcp --listen", () => {
  const url = ["--url", "http://127.0.0.1:9/mcp"];
  const listen = [...url, "--listen", "0"];

  it("takes origins and hosts by name, and says what is wrong with others", async () => {
    for (const origin of ["*", "null", "app.example.com", "https://*.example.com", "https://app.example.com/path"]) {
      expect(await refusal(...listen, "--allow-origin", origin)).toContain("it takes an origin by name");
    }
    expect(await refusal(...listen, "--allow-host", "proxy:80")).toContain("it takes a host name without a port");
    expect(await refusal(...listen, "--max-body", "0")).toContain("it takes a whole number above zero");
    expect(await refusal(...listen, "--body-timeout", "soon")).toContain('"soon" is not a duration');
  });

  it("its flags are refused where there is no HTTP: on stdio, and for mcp serve", async () => {
    expect(await refusal(...url, "--allow-origin", "https://a.example")).toContain("--allow-origin belong to --listen");
    expect(await refusal("serve", "--listen", "8080")).toContain(
      "--listen belong to the proxy: mcp serve speaks on stdio",
    );
  });

  it("a page in a browser calls tools only where its origin is allowed, and says what it sends", async () => {
    const provider = await startMailProvider();
    const server = await mailServerOnHttp(provider.url);
    const proxy = await httpProxyOf(server, folder(), undefined, ["--allow-origin", "https://app.example.com"]);
    const post = async (headers: Record<string, string>) => {
      const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: mail });
      return (await fetch(proxy.url, { method: "POST", headers, body })).status;
    };
    expect(await post({ origin: "https://evil.example", "content-type": "application/json" })).toBe(403);
    expect(await post({ origin: "https://app.example.com", "content-type": "text/plain" })).toBe(415);
    // The server's own answer to a call without a session.
    expect(await post({ origin: "https://app.example.com", "content-type": "application/json" })).not.toBe(403);
    expect(provider.mails).toHaveLength(0);
  });
});

describe("nevertwice mcp --observe", () => {
  it.each(["--observe", "config"])(
    "%s: every call is made and answered as the server does, and counted",
    async (by) => {
      const provider = await startMailProvider();
      const place = folder();
      const [config, flags] =
        by === "config" ? [{ mode: "observe", guard: "intent" }, []] : [undefined, [by, "--guard", "intent"]];
      const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], config, flags);
      const { client, close } = await connect(argv);
      for (const id of [1, 2, 3]) expect(said(await client.callTool(mail))).toBe(`sent mail_${id}`);
      await close();
      const counting = promisify(execFile)(process.execPath, [
        ...[COMMAND, "prevented", "--json", "--store", `sqlite:${join(place, "ledger.db")}`],
      ]);
      expect(JSON.parse((await counting).stdout)).toMatchObject({
        prevented: 0,
        observed: 2,
        entries: [{ cause: "done", observed: 2 }],
      });
    },
  );

  it.each(["--observe", "config"])("%s over HTTP: the same, for each session, and said at the start", async (by) => {
    const provider = await startMailProvider();
    const place = folder();
    const [config, flags] =
      by === "config" ? [{ mode: "observe", guard: "intent" }, []] : [undefined, [by, "--guard", "intent"]];
    const { child, url } = await httpProxyOf(await mailServerOnHttp(provider.url), place, config, flags);
    for (const id of [1, 2, 3]) {
      const { client } = await connectHttp(url);
      expect(said(await client.callTool(mail))).toBe(`sent mail_${id}`);
      await client.close();
    }
    expect(provider.mails).toHaveLength(3);
    child.kill("SIGTERM");
    await once(child, "close");
    const counting = promisify(execFile)(process.execPath, [
      ...[COMMAND, "prevented", "--json", "--store", `sqlite:${join(place, "ledger.db")}`],
    ]);
    expect(JSON.parse((await counting).stdout)).toMatchObject({
      prevented: 0,
      observed: 2,
      entries: [{ cause: "done", observed: 2 }],
    });
    const listen = ["--url", "http://127.0.0.1:9/mcp", "--listen", "0", "--observe"];
    const store = ["--store", `sqlite:${join(place, "other.db")}`];
    await started([COMMAND, "mcp", ...store, ...listen], {}, "stderr", /(mode is "observe": every call runs)/);
  });

  it("says at its start that nothing is prevented", async () => {
    const provider = await startMailProvider();
    const argv = proxied(folder(), [MAIL_SERVER, "stdio", provider.url], undefined, ["--observe"]);
    const { found } = await started(argv, {}, "stderr", /(mode is "observe": every call runs)/);
    expect(found).toContain("every call runs");
  });
});

describe("nevertwice mcp --only", () => {
  const call = async (client: Client, name: string, args: object = {}) =>
    said(await client.callTool({ name, arguments: { ...args } }));

  it.each(["stdio", "http"])(
    "over %s: the named tools are guarded, whatever they say; all others pass",
    async (over) => {
      const place = folder();
      const flags = ["--only", "toggle, read", "--guard", "intent"];
      const http = async () => {
        const { found } = await started([STATE_SERVER, "http", place], {}, "stdout", /^(\d+)$/);
        return (await httpProxyOf(`http://127.0.0.1:${found}/mcp`, place, undefined, flags)).url;
      };
      const { client } =
        over === "stdio"
          ? await connect(proxied(place, [STATE_SERVER, "stdio", place], undefined, flags))
          : await connectHttp(await http());
      const lamp = { lamp: "hall" };
      expect(await call(client, "toggle", lamp)).toBe("on");
      expect(await call(client, "toggle", lamp)).toMatch(/^Already done at .*\non$/s);
      // By its own word it only reads, and would pass.
      expect(await call(client, "read")).toBe('{"hall":"on"}');
      for (const task of ["task 1", "task 2", "task 3"]) expect(await call(client, "next_task")).toBe(task);
      const values = { path: "a", content: "v1" };
      for (let time = 0; time < 2; time += 1) expect(await call(client, "write", values)).toBe("wrote v1");
      expect(await call(client, "read")).toMatch(/^Already done at .*\n\{"hall":"on"\}$/s);
      expect(readFileSync(join(place, "effects.log"), "utf8").trimEnd().split("\n")).toEqual([
        "toggle hall → on",
        ...["task 1", "task 2", "task 3"].map((task) => `next_task → ${task}`),
        ...Array(2).fill("write a → wrote v1"),
      ]);
      const { stdout } = await promisify(execFile)(process.execPath, [
        ...[COMMAND, "ls", "--json", "--store", `sqlite:${join(place, "ledger.db")}`],
      ]);
      const { records } = JSON.parse(stdout) as { records: { action: string }[] };
      expect(records.map(({ action }) => action.split("/").at(-1)).sort()).toEqual(["read", "toggle"]);
    },
  );

  it("one that the server does not have is said once its list is known", async () => {
    const place = folder();
    const { client, stderr } = await connectHeard(
      proxied(place, [STATE_SERVER, "stdio", place], undefined, ["--only", "togle"]),
    );
    await client.listTools();
    await expect
      .poll(stderr)
      .toMatch(/the config names "togle", and the server has no such tool\. It has: write, toggle/);
    expect(stderr()).toMatch(/only these tools are guarded: togle/);
  });
});

describe("nevertwice mcp --once-more-tool", () => {
  it("a model asks, a person grants by the command, and the next identical call is made once", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const config = { statusTool: true, tools: { send_mail: { key: ["to"], free: ["body"] } } };
    const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], config, ["--once-more-tool"]);
    const { client } = await connect(argv);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["nevertwice_status", "nevertwice_once_more"]),
    );
    expect(said(await client.callTool(mail))).toBe("sent mail_1");
    const store = ["--store", `sqlite:${join(place, "ledger.db")}`];
    const command = async (...words: string[]) =>
      (await promisify(execFile)(process.execPath, [COMMAND, ...words, ...store])).stdout;
    const repeated = said(await client.callTool(mail));
    const [, reference = ""] = /ask for it with nevertwice_once_more \{"reference":"(nt1_\w{52})"/.exec(repeated) ?? [];
    const ask = { name: "nevertwice_once_more", arguments: { reference, reason: "she wants two" } };
    expect(said(await client.callTool(ask))).toMatch(/^Your request is noted, and nothing was run/);
    expect(said(await client.callTool(mail))).toMatch(/^Already done at/);
    expect(await command("requests")).toContain("she wants two");
    await command("resend", reference, "--reason", "yes", "--by", "kim");
    expect(said(await client.callTool(mail))).toBe("sent mail_2");
    expect(said(await client.callTool(mail))).toMatch(/^Already done at .*sent mail_2/s);
    expect(provider.mails).toHaveLength(2);
  });
});

describe("nevertwice mcp --secret-env --encrypt-env", () => {
  it("seals what the ledger keeps, and a repeat is still a repeat after a restart", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const env = { LEDGER_SECRET: randomBytes(32).toString("base64"), LEDGER_KEYS: randomBytes(32).toString("base64") };
    const flags = ["--secret-env", "LEDGER_SECRET", "--encrypt-env", "LEDGER_KEYS", "--guard", "intent"];
    const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], undefined, flags);
    const first = await connect(argv, env);
    expect(said(await first.client.callTool(mail))).toBe("sent mail_1");
    await first.close();
    const rotated = { ...env, LEDGER_KEYS: `${randomBytes(32).toString("hex")}, ${env.LEDGER_KEYS}` };
    const second = await connect(argv, rotated);
    expect(said(await second.client.callTool(mail))).toMatch(/^Already done at .*sent mail_1/s);
    await second.close();
    const file = readFileSync(join(place, "ledger.db")).toString("latin1");
    expect(file).toContain("ntseal1.");
    for (const plain of ["ada@example.com", "sent mail_1"]) expect(file).not.toContain(plain);
    expect(provider.mails).toHaveLength(1);
  });

  it("a variable that is not set, or holds no secret or key, is refused at the start", async () => {
    const server = ["--", "true"];
    expect(await refusal("--secret-env", "NO_SUCH", ...server)).toContain(
      "--secret-env NO_SUCH: that variable is not set",
    );
    expect(await refusal("--encrypt-env", "EMPTY", ...server)).toContain(
      "--encrypt-env EMPTY: that variable is not set",
    );
    expect(await refusal("--secret-env", "SHORT", ...server)).toContain("at least 16 bytes");
    expect(await refusal("--encrypt-env", "BAD_KEY", ...server)).toContain(
      "the key is neither bytes nor base64 or hex",
    );
  });
});

it("what a name suggests of money is noted once, and in the words of a config", () => {
  const place = folder();
  const bank = fileURLToPath(new URL("./lib/bank-server.mjs", import.meta.url));
  const lines = [
    ["initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c", version: "1" } }],
    ["tools/list", {}],
    ["tools/call", { name: "pay", arguments: { account: 7 } }],
  ].map(([method, params], id) => JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  const argv = proxied(place, [bank, join(place, "paid")]);
  const { stderr } = spawnSync(process.execPath, argv, {
    cwd: place,
    input: `${lines.join("\n")}\n`,
    encoding: "utf8",
  });
  expect(stderr.match(/suggests that it moves money/g)).toHaveLength(1);
  expect(stderr).not.toMatch(/keepFor|KEEP_SHORT/);
});
