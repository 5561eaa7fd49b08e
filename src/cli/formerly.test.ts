/** K10 at the command line: a key that is an alias leads to the record; lists and counts have each intent once. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { email } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

interface Mail {
  readonly lead: string;
  readonly to: string;
}

const plain: Mail = { lead: "l1", to: "ann@example.com" };
const ALONE = { key: { lead: true, to: email } } as const;
const NEW = { ...ALONE, formerly: { key: ["to", "lead"] } } as const;
const why = ["--reason", "seen in the provider's log"];

/** Its record is under the former key, and `alias` is the new one. */
async function recorded(run: () => Promise<string>, intent = plain) {
  const send = cli.program().action<Mail, string>("send", { ...NEW, run, retry: { attempts: 1 } });
  const { key } = await send.attempt(intent);
  const alias = await cli
    .program()
    .action<Mail, string>("send", { ...ALONE, run })
    .keyOf(intent);
  expect(alias).not.toBe(key);
  return { key, alias };
}

const done = async () => "m1";
const lost = async () => Promise.reject(new Error("no answer"));
const refused = async () => Promise.reject(Object.assign(new Error("down"), { code: "ECONNREFUSED" }));

describe("K10: an alias at the command line", () => {
  it("ls and stats have the intent once, page by page", async () => {
    for (const lead of ["a", "b", "c"]) await recorded(done, { ...plain, lead });
    const { json } = await cli.run(["ls", "--json", "--action", "send"]);
    expect(json.records).toHaveLength(3);
    const seen: string[] = [];
    let from: string[] = [];
    for (let page = 0; page < 5; page += 1) {
      const { json: part } = await cli.run(["ls", "--json", "--action", "send", "--limit", "2", ...from]);
      seen.push(...part.records.map(({ key }: { key: string }) => key));
      if (part.cursor === null) break;
      from = ["--cursor", part.cursor];
    }
    expect(new Set(seen).size).toBe(3);
    expect(seen).toHaveLength(3);
    const counts = (await cli.run(["stats", "--json"])).json;
    expect(counts.actions.find(({ action }: { action: string }) => action === "send")).toMatchObject({
      total: 3,
      states: { confirmed: 3 },
    });
  });

  it("show and status answer with the record, and say under which key it is", async () => {
    const { key, alias } = await recorded(done);
    const { json, err } = await cli.run(["show", alias, "--json"]);
    expect(json.record).toMatchObject({ key, state: "confirmed", result: { value: "m1" } });
    expect(err).toContain(`recorded under ${key}`);
    expect((await cli.run(["show", alias.slice(0, 20)])).out).toContain(key);
    expect((await cli.run(["status", alias, "--json"])).json.outcome).toMatchObject({ key, status: "done" });
  });

  it("resolve settles the doubt behind it, and retry brings the failure back", async () => {
    const doubt = await recorded(lost);
    expect(await cli.run(["resolve", doubt.alias, "--done", "--result", '"m0"', ...why])).toMatchObject({ code: 0 });
    expect((await cli.run(["show", doubt.key, "--json"])).json.record).toMatchObject({ state: "confirmed" });
    const failure = await recorded(refused, { ...plain, lead: "l2" });
    expect(await cli.run(["retry", failure.alias, ...why])).toMatchObject({ code: 0 });
    expect((await cli.run(["show", failure.key, "--json"])).json.record).toMatchObject({ state: "pending" });
  });

  it("an alias of nothing is no record", async () => {
    const { key, alias } = await recorded(done);
    const [stored] = await cli.store.read([key]);
    const gone = { ...stored?.record, expiresAt: 1 } as NonNullable<typeof stored>["record"];
    await cli.store.write([{ record: gone, expected: stored?.version ?? null }]);
    await cli.store.sweep({ limit: 10 });
    expect(await cli.run(["show", alias])).toMatchObject({
      code: 1,
      err: expect.stringContaining("there is no record"),
    });
    expect((await cli.run(["status", alias, "--json"])).json.outcome).toMatchObject({ status: "absent" });
  });

  it("an import of a row whose key is an alias goes to the record that it stands for", async () => {
    const { key } = await recorded(refused);
    const from = (what: string) => JSON.stringify(import.meta.resolve(what));
    const module = (name: string, body: string) =>
      writeFileSync(
        join(cli.folder, name),
        `import { nevertwice, email } from ${from("nevertwice")};
         const nt = nevertwice({ sweep: false, onWarning: () => {}, store: ${JSON.stringify(`sqlite:${cli.path}`)} });
         export const send = nt.action("send", { ${body}, run: () => "again" });`,
      );
    const definition = "key: { lead: true, to: email }";
    module("now.mjs", `${definition}, formerly: { key: ["to", "lead"] }`);
    module("later.mjs", definition);
    writeFileSync(join(cli.folder, "sends.csv"), "lead,to,message_id\nl1,ann@example.com,m7\n");
    const flags = ["--action", "send", "--fields", "lead,to"];
    const { out, err, code } = await cli.run(["import", "sends.csv", ...flags, "--actions", "./later.mjs"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("1 row would be a repeat");
    expect((await cli.run(["show", key, "--json"])).json.record).toMatchObject({ state: "confirmed" });
    const { send } = await import(join(cli.folder, "now.mjs"));
    expect(await send.attempt(plain)).toMatchObject({ status: "done", replayed: true });
    await send[Symbol.for("nevertwice.owner")].close();
  });
});
