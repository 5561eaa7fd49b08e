/** Servers of one command that differ by their environment, behind proxies on one ledger. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startMailProvider } from "./lib/mail-provider.ts";
import { connect, folder, MAIL_SERVER, proxied, said } from "./lib/mcp.ts";

const mail = { name: "send_mail", arguments: { to: "ada", body: "Hello" } };
const config = { tools: { send_mail: { key: ["to"] } } };

async function story(flags: readonly string[] = []) {
  const [provider, place] = [await startMailProvider(), folder()];
  const call = async (env: Record<string, string>) => {
    const { client, close } = await connect(proxied(place, [MAIL_SERVER, "stdio", provider.url], config, flags), env);
    const text = said(await client.callTool(mail));
    await close();
    return text;
  };
  return { provider, place, call };
}

it("two accounts by environment never share; a restart from another terminal is the same server, and no value is in the ledger", async () => {
  const { provider, place, call } = await story();
  const [ada, bob] = [{ API_TOKEN: "token-of-ada-4711" }, { API_TOKEN: "token-of-bob-4712" }];
  expect(await call(ada)).toBe("sent mail_1");
  expect(await call(bob)).toBe("sent mail_2");
  const elsewhere = { TERM: "other", SHLVL: "9", SSH_AUTH_SOCK: "/tmp/other", npm_config_cache: "/tmp/x", TMUX: "1" };
  expect(await call({ ...ada, ...elsewhere })).toMatch(/^Already done at .*sent mail_1/s);
  expect(await call({ ...bob, ...elsewhere })).toMatch(/^Already done at .*sent mail_2/s);
  expect(provider.mails).toHaveLength(2);
  const kept = readdirSync(place)
    .map((file) => readFileSync(join(place, file), "latin1"))
    .join("");
  expect(kept).not.toMatch(/token-of-(ada|bob)/);
});

it("--name says alone which server it is, and --identity-env says which variables count", async () => {
  const named = await story(["--name", "mail"]);
  expect(await named.call({ API_TOKEN: "old" })).toBe("sent mail_1");
  expect(await named.call({ API_TOKEN: "rotated" })).toMatch(/^Already done/);
  const exact = await story(["--identity-env", "TENANT,REGION"]);
  expect(await exact.call({ TENANT: "a", API_TOKEN: "old" })).toBe("sent mail_1");
  expect(await exact.call({ TENANT: "a", API_TOKEN: "rotated" })).toMatch(/^Already done/);
  expect(await exact.call({ TENANT: "b" })).toBe("sent mail_2");
});
