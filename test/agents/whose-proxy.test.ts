/**
 * Two users with two sessions each behind the proxy, as the command is started: on stdio, on HTTP, and on stdio in front of a URL. All
 * share one ledger. Told apart by token, header, claim, environment, working folder or --scope.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { describe, expect, it } from "vitest";
import { startMailProvider } from "./lib/mail-provider.ts";
import {
  bridged,
  connect,
  connectHttp,
  folder,
  httpProxyOf,
  MAIL_SERVER,
  mailServerOnHttp,
  proxied,
  said,
} from "./lib/mcp.ts";
import { bySession, byUser, MAIL, noAnswerGoesAstray, type Party } from "./lib/whose.ts";

const config = { tools: { send_mail: { key: ["to"], free: ["body"] } } };

let issued = 0;

/** As after a refresh: other times, another id, another signature. */
function jwt(claims: object): string {
  issued += 1;
  const times = { iat: 1_700_000_000 + issued, exp: 4_000_000_000 + issued, jti: `token-${issued}` };
  const part = (json: object) => Buffer.from(JSON.stringify(json)).toString("base64url");
  return `Bearer ${part({ alg: "HS256", typ: "JWT" })}.${part({ ...claims, ...times })}.signature-${issued}`;
}

/** Vitest shortens what an object says. */
const named = <W extends { readonly what: string }>(ways: readonly W[]) => ways.map((way) => [way.what, way] as const);

const ISSUER = "https://id.example";

/** Calls of one connection, one after the other. */
async function told(client: Client, times: number): Promise<string[]> {
  const all: string[] = [];
  for (let time = 0; time < times; time += 1)
    all.push(said(await client.callTool({ name: "send_mail", arguments: MAIL })));
  await client.close();
  return all;
}

describe("on HTTP: each request of a user in a session of its own, through one proxy", () => {
  const byDefault =
    /^nevertwice: callers are told apart by issuer and subject of their token \(JWT\), otherwise by their credential/;
  const ways: readonly {
    readonly what: string;
    readonly headers: (party: Party) => Record<string, string>;
    readonly principal?: readonly string[];
    readonly note: RegExp;
  }[] = [
    {
      what: "two opaque bearers",
      headers: ({ user }) => ({ authorization: `Bearer token-of-${user}` }),
      note: byDefault,
    },
    { what: "two API keys", headers: ({ user }) => ({ "x-api-key": user }), note: byDefault },
    { what: "two cookies", headers: ({ user }) => ({ cookie: `id=${user}` }), note: byDefault },
    {
      what: "two subjects of JWTs, refreshed for each request, with cookies that change",
      headers: ({ user }) => ({ authorization: jwt({ iss: ISSUER, sub: user }), cookie: `seen=${issued}` }),
      note: byDefault,
    },
    {
      what: "one subject of two issuers",
      headers: ({ user }) => ({ authorization: jwt({ iss: `https://${user}.example`, sub: "1" }) }),
      note: byDefault,
    },
    {
      what: "--principal X-User-Id: another token of the app for each request",
      principal: ["X-User-Id"],
      headers: ({ user }) => ({ authorization: jwt({ iss: ISSUER, sub: "the app" }), "x-user-id": user }),
      note: /^nevertwice: callers are told apart by X-User-Id; those without any of them are one caller$/,
    },
    {
      what: "--principal claim:email: JWTs of one subject, refreshed for each request",
      principal: ["claim:email"],
      headers: ({ user }) => ({ authorization: jwt({ iss: ISSUER, sub: "the app", email: `${user}@example.com` }) }),
      note: /^nevertwice: callers are told apart by claim:email; those without any of them are one caller$/,
    },
    {
      what: "--principal twice: a tenant in a header, and one subject in both",
      principal: ["X-Tenant", "claim:sub"],
      headers: ({ user }) => ({ authorization: jwt({ iss: ISSUER, sub: "1" }), "x-tenant": user }),
      note: /^nevertwice: callers are told apart by X-Tenant, claim:sub; those without any of them are one caller$/,
    },
  ];

  it.each(named(ways))("%s", async (_, { headers, principal = [], note }) => {
    const [provider, place] = [await startMailProvider(), folder()];
    const server = await mailServerOnHttp(provider.url);
    const flags = principal.flatMap((name) => ["--principal", name]);
    const { url, lines } = await httpProxyOf(server, place, config, flags);
    expect(lines.filter((line) => note.test(line))).toHaveLength(1);
    const ask = async (party: Party, times: number) =>
      told((await connectHttp(url, { headers: headers(party) })).client, times);
    await noAnswerGoesAstray(ask, provider, byUser);
  });

  it("without a credential all are one caller, as the proxy says at its start", async () => {
    const [provider, place] = [await startMailProvider(), folder()];
    const { url, lines } = await httpProxyOf(await mailServerOnHttp(provider.url), place, config);
    expect(lines.join("\n")).toContain("those without a credential are one caller. --principal says it differently");
    await noAnswerGoesAstray(
      async (_, times) => told((await connectHttp(url)).client, times),
      provider,
      () => "anybody",
    );
  });
});

describe("on stdio: a process for each request, on one ledger", () => {
  interface Start {
    readonly flags?: readonly string[];
    readonly env?: Record<string, string>;
    readonly cwd?: string;
  }

  const ways: readonly {
    readonly what: string;
    readonly start: (party: Party, place: string) => Start;
    readonly whose: (party: Party) => string;
  }[] = [
    { what: "two environments", start: ({ user }) => ({ env: { MAIL_TOKEN: user } }), whose: byUser },
    {
      what: "two working folders",
      start: ({ user }, place) => {
        mkdirSync(join(place, user), { recursive: true });
        return { cwd: join(place, user) };
      },
      whose: byUser,
    },
    {
      what: "two environments, of which --identity-env names one variable, and another differs for each session",
      start: ({ user, session }) => ({
        flags: ["--identity-env", "MAIL_TOKEN"],
        env: { MAIL_TOKEN: user, REQUEST_ID: session },
      }),
      whose: byUser,
    },
    {
      what: "--name",
      start: ({ user, session }) => ({ flags: ["--name", user], env: { REQUEST_ID: session } }),
      whose: byUser,
    },
    { what: "--scope", start: ({ session }) => ({ flags: ["--scope", session] }), whose: bySession },
  ];

  it.each(named(ways))("%s", async (_, { start, whose }) => {
    const [provider, place] = [await startMailProvider(), folder()];
    const ask = async (party: Party, times: number) => {
      const { flags, env, cwd } = start(party, place);
      const argv = proxied(place, [MAIL_SERVER, "stdio", provider.url], config, flags);
      return told((await connect(argv, env, cwd === undefined ? {} : { cwd })).client, times);
    };
    await noAnswerGoesAstray(ask, provider, whose);
  });
});

describe("on stdio in front of a URL: a process for each request, on one ledger", () => {
  const header = (name: string, value: string) => ["--header", `${name}: ${value}`];
  const ways: readonly {
    readonly what: string;
    readonly flags: (party: Party) => readonly string[];
    readonly whose: (party: Party) => string;
  }[] = [
    { what: "two opaque bearers", flags: ({ user }) => header("Authorization", `Bearer of-${user}`), whose: byUser },
    {
      what: "two subjects of JWTs, refreshed for each process",
      flags: ({ user }) => header("Authorization", jwt({ iss: ISSUER, sub: user })),
      whose: byUser,
    },
    {
      what: "two values of a header that is no credential",
      flags: ({ user }) => header("X-Tenant", user),
      whose: byUser,
    },
    {
      what: "--principal claim:email: JWTs of one subject, refreshed for each process",
      flags: ({ user }) => [
        ...["--principal", "claim:email"],
        ...header("Authorization", jwt({ iss: ISSUER, sub: "the app", email: `${user}@example.com` })),
      ],
      whose: byUser,
    },
    { what: "--scope", flags: ({ session }) => ["--scope", session], whose: bySession },
  ];

  it.each(named(ways))("%s", async (_, { flags, whose }) => {
    const [provider, place] = [await startMailProvider(), folder()];
    const url = await mailServerOnHttp(provider.url);
    const ask = async (party: Party, times: number) =>
      told((await connect(bridged(place, url, config, flags(party)))).client, times);
    await noAnswerGoesAstray(ask, provider, whose);
  });
});

describe("by default, without a config: an answer that was lost is given to its own caller alone", () => {
  type Dial = (user: string, at: { readonly place: string; readonly provider: string }) => Promise<Client>;
  const finish = ["--on-timeout", "finish"];
  let shared: Promise<string> | undefined;
  const ways: readonly { readonly what: string; readonly dial: Dial }[] = [
    {
      what: "on HTTP, two bearers",
      dial: async (user, { place, provider }) => {
        shared ??= mailServerOnHttp(provider).then(
          async (url) => (await httpProxyOf(url, place, undefined, finish)).url,
        );
        return (await connectHttp(await shared, { headers: { authorization: `Bearer ${user}` } })).client;
      },
    },
    {
      what: "on stdio, two environments",
      dial: async (user, { place, provider }) => {
        const argv = proxied(place, [MAIL_SERVER, "stdio", provider], undefined, finish);
        return (await connect(argv, { MAIL_TOKEN: user })).client;
      },
    },
    {
      what: "on stdio in front of a URL, two headers",
      dial: async (user, { place, provider }) => {
        shared ??= mailServerOnHttp(provider);
        const flags = ["--header", `Authorization: Bearer ${user}`, ...finish];
        return (await connect(bridged(place, await shared, undefined, flags))).client;
      },
    },
  ];

  it.each(named(ways))("%s", async (_, { dial }) => {
    shared = undefined;
    const provider = await startMailProvider();
    const at = { place: folder(), provider: provider.url };
    const [ada, bob] = [await dial("ada", at), await dial("bob", at)];
    const mail = { name: "send_mail", arguments: MAIL };
    provider.hold();
    await expect(ada.callTool(mail, undefined, { timeout: 500 })).rejects.toThrow(/timed out/);
    await provider.sent(1);
    const bobs = bob.callTool(mail);
    await provider.sent(2);
    provider.release();
    expect(said(await bobs)).toBe("sent mail_2");
    expect(said(await ada.callTool(mail))).toMatch(/sent mail_1$/);
    // Both have their answers: from now on the same call is a new one.
    expect(said(await bob.callTool(mail))).toBe("sent mail_3");
    expect(said(await ada.callTool(mail))).toBe("sent mail_4");
  });
});
