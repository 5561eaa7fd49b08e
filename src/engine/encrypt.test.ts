import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { nevertwice } from "nevertwice";
import { guardTool } from "nevertwice/agents";
import { guardAiTool, guardAiTools } from "nevertwice/agents/ai-sdk";
import { fileStore } from "nevertwice/file";
import { postgresStore } from "nevertwice/postgres";
import { redisStore } from "nevertwice/redis";
import { s3Store } from "nevertwice/s3";
import { sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory, temporaryFolder } from "../../test/support/each-store.ts";

const key = (byte: number) => new Uint8Array(32).fill(byte);
interface Mail {
  to: string;
  body: string;
}
const mail = { to: "ana@example.org", body: "the secret plan" };

eachStore("encrypt", (open) => {
  it("seals input, draft and result, and replays them", async () => {
    const { nt, store, another } = open({ encrypt: key(1) });
    const options = {
      key: ["to"],
      prepare: async (input: Mail) => ({ text: `draft of ${input.body}` }),
      run: async (_mail: Mail, _ctx: unknown, draft: { text: string }) => ({ sent: draft.text }),
    } as const;
    expect(await nt.action("mail", options)(mail)).toEqual({ sent: "draft of the secret plan" });
    const { items } = await store.list({ limit: 10 });
    expect(JSON.stringify(items)).not.toMatch(/secret plan|ana@/);
    expect(await another({ encrypt: key(1) }).action("mail", options)(mail)).toEqual({
      sent: "draft of the secret plan",
    });
  });

  it("rotates: the first key seals, every key opens", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const run = async ({ body }: Mail) => body;
    await nt.action("mail", { key: ["to"], run })(mail);
    const rotated = another({ encrypt: [key(2), key(1)] }).action("mail", { key: ["to"], run });
    expect(await rotated.attempt(mail)).toMatchObject({ replayed: true, result: mail.body });
  });

  it("who has no key is told so and runs nothing", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    let runs = 0;
    const options = { key: ["to"], run: async (_mail: Mail) => ++runs } as const;
    await nt.action("mail", options)(mail);
    const keyless = another().action("mail", options);
    expect(await keyless.attempt(mail)).toMatchObject({
      status: "done",
      resultOmitted: expect.stringMatching(/sealed/),
    });
    await another({ encrypt: key(9) })
      .action("mail", options)
      .attempt(mail)
      .catch((error) => expect(error.code).toBeDefined());
    expect(runs).toBe(1);
  });

  it("F21: a doubt whose bytes are sealed for others is not resent with other bytes", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const sent: string[] = [];
    const options = {
      key: ["to"],
      free: ["body"],
      doubt: { resendWithin: "1h" },
      retry: { attempts: 2, backoff: "1ms" },
      run: async ({ body }: Mail): Promise<void> => {
        sent.push(body);
        throw new Error("reply lost");
      },
    } as const;
    await nt.action("mail", options).attempt(mail, { wait: 0 });
    await another()
      .action("mail", options)
      .attempt({ ...mail, body: "reworded" });
    expect(sent).toEqual([mail.body]);
  });
});

eachStore("encrypt, against who can write to the store", (open) => {
  const once = (runs: { count: number }) =>
    ({
      key: ["to"],
      run: async ({ body }: Mail) => {
        runs.count += 1;
        return body;
      },
    }) as const;

  it("digests beside sealed payloads cannot be computed without the key: no value can be guessed from them", async () => {
    const { nt, store } = open({ encrypt: key(1) });
    await nt.action("pin", { key: () => ["x"], run: async (_: { pin: string; to: string }) => 1 })({
      pin: "1234",
      to: mail.to,
    });
    const { items } = await store.list({ limit: 10 });
    const { fingerprint } = (items[0] as (typeof items)[number]).record;
    const kept = JSON.stringify(fingerprint);
    for (const guess of [JSON.stringify("1234"), JSON.stringify(mail.to), "1234", mail.to]) {
      expect(kept).not.toContain(createHash("sha256").update(guess).digest("base64url").slice(0, 16));
    }
  });

  it("switching encrypt on changes no key", async () => {
    const { nt, another } = open();
    const options = once({ count: 0 });
    const before = await nt.action("mail", options).keyOf(mail);
    expect(
      await another({ encrypt: key(1) })
        .action("mail", options)
        .keyOf(mail),
    ).toBe(before);
  });

  it("a repeat after a rotation is recognised, and another input is still a conflict", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const runs = { count: 0 };
    await nt.action("mail", once(runs))(mail);
    const rotated = another({ encrypt: [key(2), key(1)] }).action("mail", once(runs));
    expect(await rotated.attempt(mail)).toMatchObject({ status: "done", replayed: true, result: mail.body });
    expect(await rotated.attempt({ ...mail, body: "other" })).toMatchObject({ status: "conflict", differs: ["body"] });
    expect(runs.count).toBe(1);
  });

  it("a record from before encrypt is recognised; its plain result is read only with acceptPlain", async () => {
    const { nt, another } = open();
    const runs = { count: 0 };
    await nt.action("mail", once(runs))(mail);
    const strict = another({ encrypt: key(1) }).action("mail", once(runs));
    await expect(strict(mail)).rejects.toThrow(/the stored result is not sealed/);
    await expect(strict(mail)).rejects.toThrow(/the stored result is not sealed/);
    const migrating = another({ encrypt: { keys: key(1), acceptPlain: true } }).action("mail", once(runs));
    expect(await migrating(mail)).toBe(mail.body);
    expect(await migrating.attempt({ ...mail, body: "other" })).toMatchObject({ status: "conflict" });
    expect(runs.count).toBe(1);
  });

  it("a sealed result replaced by plain JSON is not returned, and the effect is not run again", async () => {
    const { nt, another, store } = open({ encrypt: key(1) });
    const runs = { count: 0 };
    await nt.action("mail", once(runs))(mail);
    const { items } = await store.list({ limit: 1 });
    const { record, version } = items[0] as (typeof items)[number];
    await store.write([{ record: { ...record, result: { json: '"forged"' } }, expected: version }]);
    const victim = another({ encrypt: key(1) }).action("mail", once(runs));
    for (const call of [() => victim(mail), () => victim.attempt(mail)]) {
      const error = await call().then(
        (got) => expect.fail(JSON.stringify(got)),
        (thrown) => thrown,
      );
      expect(error.code).toBe("STORE_UNAVAILABLE");
    }
    const unguarded = another({ encrypt: key(1) }).action("mail", { ...once(runs), whenStoreDown: "run" });
    await expect(unguarded(mail)).rejects.toThrow(/not sealed/);
    expect(runs.count).toBe(1);
  });

  it.each(["record", "tenant", "field"] as const)("sealed text moved from another %s is refused", async (from) => {
    const { nt, another, store } = open({ encrypt: key(1), tenant: "acme" });
    const runs = { count: 0 };
    await nt.action("mail", once(runs))(mail);
    const other = from === "tenant" ? another({ encrypt: key(1), tenant: "other" }) : nt;
    const moved = { to: from === "tenant" ? mail.to : "bob@example.org", body: "moved" };
    if (from === "tenant") await other.action("mail", once(runs))(moved);
    else await nt.action("mail2", { ...once(runs) })(moved);
    const { items } = await store.list({ limit: 10 });
    const mine = items.find(({ record }) => record.action === "mail" && record.tenant === "acme");
    const theirs = items.find((item) => item !== mine);
    if (!mine || !theirs) throw new Error("two records were expected");
    const result = from === "field" ? mine.record.input : theirs.record.result;
    await store.write([{ record: { ...mine.record, result }, expected: mine.version }]);
    const before = runs.count;
    const victim = another({ encrypt: key(1), tenant: "acme" }).action("mail", once(runs));
    await expect(victim.attempt(mail)).rejects.toThrow(/altered or belongs to another record/);
    expect(runs.count).toBe(before);
  });

  it("who lacks the key cannot run a waiting intent with an input of its own", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const runs = { count: 0 };
    await nt.action("mail", once(runs)).enqueue(mail, { delay: "1h" });
    for (const options of [{}, { encrypt: key(2) }]) {
      const keyless = another(options).action("mail", once(runs));
      await expect(keyless({ ...mail, body: "other" })).rejects.toThrow(/which is not given.*Nothing was run/);
    }
    expect(runs.count).toBe(0);
  });

  it("resolve, enqueue and order, limits, runs and jobs work with encrypt on", async () => {
    const { nt, another } = open({ encrypt: key(1) });
    const lost = nt.action("lost", {
      key: ["to"],
      run: async (_: Mail): Promise<string> => {
        throw new Error("reply lost");
      },
    });
    const doubt = await lost.attempt(mail, { wait: 0 });
    await lost.resolve({ key: doubt.key }, { as: "done", result: "found", by: "ana", reason: "in the outbox" });
    expect(await lost.attempt(mail)).toMatchObject({ status: "done", result: "found" });
    const runs = { count: 0 };
    const limit = { rate: "10/s", by: (input: Mail) => input.to } as const;
    const worker = another({ encrypt: [key(2), key(1)] });
    worker.action("mail", { ...once(runs), limit });
    const mailing = nt.action("mail", { ...once(runs), limit });
    for (const to of ["a@x.org", "b@x.org"]) await mailing.enqueue({ to, body: to }, { orderKey: "one" });
    await worker.worker().drain();
    expect(runs.count).toBe(2);
    const walk = () => nt.run("walk", "1", async (run) => run.step("a", async () => 7));
    expect([await walk(), await walk()]).toEqual([7, 7]);
  });
});

describe("an option that is there without a value", () => {
  const unset = undefined as unknown as string;
  it.each(["encrypt", "secret", "tenant"])("%s is refused: the variable may not be set", (option) => {
    for (const value of [unset, ""]) {
      expect(() => openMemory({ [option]: value })).toThrow(
        new RegExp(`${option} is (undefined|an empty string).*variable.*may not be set.*leave the option out`),
      );
    }
  });

  it("a tenant of one call is refused as well, and nothing runs", async () => {
    const { nt } = openMemory();
    let runs = 0;
    const action = nt.action("mail", { key: ["to"], run: async (_: Mail) => ++runs });
    const options = { tenant: unset };
    const calls = [
      () => action(mail, options),
      () => action.attempt(mail, options),
      () => action.enqueue(mail, options),
      () => nt.once("once", ["x"], () => ++runs, options),
      () => nt.run("walk", "1", () => ++runs, options),
    ];
    for (const call of calls) await expect(call()).rejects.toThrow(/tenant is undefined.*may not be set/);
    expect(runs).toBe(0);
  });

  it("a tenant of a guard is refused as well", () => {
    const { nt } = openMemory();
    const tool = { key: ["to"], tenant: unset } as const;
    expect(() => guardTool(nt, { name: "mail", ...tool }, async () => "sent")).toThrow(/tenant is undefined/);
    const ai = { execute: async () => "sent" };
    expect(() => guardAiTool(nt, "mail", ai, tool)).toThrow(/tenant is undefined/);
    expect(() => guardAiTools(nt, { mail: ai }, { tenant: unset })).toThrow(/tenant is undefined/);
  });

  it.each([unset, "", null as unknown as string])("a store that is %j is not the local file", (store) => {
    expect(() => nevertwice({ store })).toThrow(/store is (undefined|null|an empty string)\. .*may not be set/);
  });

  it("options of a store that name the ledger, or whose rows are seen, are refused as well", () => {
    const url = "postgres://127.0.0.1:1/app";
    const none = undefined as never;
    expect(() => postgresStore({ url, schema: none })).toThrow(/schema is undefined.*may not be set/);
    expect(() => postgresStore({ url, tenant: "a", rls: none })).toThrow(/rls is undefined/);
    expect(() => postgresStore({ url: none })).toThrow(/give exactly one of url/);
    expect(() => redisStore({ url: "redis://127.0.0.1:1", prefix: none })).toThrow(/prefix is undefined/);
    expect(() => redisStore({ url: none })).toThrow(/give either client .* or url/);
    expect(() => s3Store({ url: "s3://bucket", endpoint: none })).toThrow(/endpoint is undefined/);
    expect(() => s3Store({ url: none })).toThrow(/names no bucket/);
    expect(() => sqliteStore({ path: none })).toThrow(/give either path/);
    expect(() => fileStore({ path: none })).toThrow(/path is undefined/);
  });

  it("a tenant of a PostgreSQL store is refused as well", () => {
    const url = "postgres://127.0.0.1:1/app";
    expect(() => postgresStore({ url, tenant: unset })).toThrow(/tenant is undefined.*may not be set/);
  });

  it("a secret that is too short is refused when nevertwice() is made", () => {
    expect(() => openMemory({ secret: "abc" })).toThrow(
      /secret: must be a string or Uint8Array of at least 16 bytes.*this one has 3\. Make one with: openssl rand/,
    );
    expect(() => openMemory({ secret: new Uint8Array(15) })).toThrow(/this one has 15/);
    openMemory({ secret: "0123456789abcdef" });
  });
});

it("encrypt without secret is warned of, once, since keys can be guessed", () => {
  const warned = (options: object) => {
    const codes: string[] = [];
    openMemory({ ...options, onWarning: ({ code }) => codes.push(code) });
    return codes;
  };
  expect(warned({ encrypt: key(1) })).toEqual(["ENCRYPT_WITHOUT_SECRET"]);
  expect(warned({ encrypt: key(1), secret: "sixteen bytes at least" })).toEqual([]);
  expect(warned({})).toEqual([]);
});

it("nothing of it is in the file", async () => {
  const path = join(temporaryFolder(), "ledger.db");
  const nt = nevertwice({
    store: sqliteStore({ path }),
    encrypt: key(1),
    secret: "sixteen bytes at least",
    sweep: false,
  });
  await nt.action("mail", { key: ["to"], run: async ({ body }: Mail) => body })(mail);
  await nt.close();
  expect(readFileSync(path).toString("latin1")).not.toMatch(/secret plan|ana@/);
});

it("a bad key is refused when nevertwice() is made", () => {
  expect(() => openMemory({ encrypt: "short" })).toThrow(/encrypt/);
  expect(() => openMemory({ encrypt: key(1).slice(1) })).toThrow(/31 bytes/);
});
