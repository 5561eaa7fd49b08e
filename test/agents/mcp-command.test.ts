/** The flags of `nevertwice mcp` that decide who may come in and what the ledger shows. */
import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  COMMAND,
  connect,
  folder,
  httpProxyOf,
  MAIL_SERVER,
  mailServerOnHttp,
  proxied,
  said,
  started,
} from "./lib/mcp.ts";

const mail = { name: "send_mail", arguments: { to: "ada@example.com", body: "Hello" } };

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

  it("says at its start that nothing is prevented", async () => {
    const provider = await startMailProvider();
    const argv = proxied(folder(), [MAIL_SERVER, "stdio", provider.url], undefined, ["--observe"]);
    const { found } = await started(argv, {}, "stderr", /(mode is "observe": every call runs)/);
    expect(found).toContain("every call runs");
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
