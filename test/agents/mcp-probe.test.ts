/** `nevertwice mcp probe` and `nevertwice mcp serve`, as people start them. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { nevertwice } from "../../dist/index.js";
import { startMailProvider } from "./lib/mail-provider.ts";
import { COMMAND, connect, folder, MAIL_SERVER, MEMORY, said } from "./lib/mcp.ts";

async function command(argv: readonly string[], cwd: string): Promise<{ code: number; out: string; err: string }> {
  const env = { ...process.env, MEMORY_FILE_PATH: join(cwd, "memory.jsonl") };
  const ended = promisify(execFile)(process.execPath, [COMMAND, ...argv], { cwd, env }).then(
    ({ stdout, stderr }) => ({ code: 0, out: stdout, err: stderr }),
    ({ code, stdout, stderr }) => ({ code, out: stdout, err: stderr }),
  );
  return ended;
}

describe("nevertwice mcp probe", () => {
  it("shows that a tool acts again on a repeat, and that the guard stops it", async () => {
    const provider = await startMailProvider();
    const place = folder();
    const config = { tools: { send_mail: { verify: { tool: "list_mails", match: { to: "$to" }, quietFor: "1s" } } } };
    writeFileSync(join(place, "tools.json"), JSON.stringify(config));
    const argv = ["mcp", "probe", "--config", "tools.json", "--call", 'send_mail={"to":"ada"}', "--"];
    const { code, out } = await command([...argv, process.execPath, MAIL_SERVER, "stdio", provider.url], place);
    expect(out).toMatch(/send_mail\s+3 calls, 3 effects\s+3 calls, 1 effect\s+acts again on a repeat/);
    expect(out).toMatch(/list_mails\s+declared read-only/);
    expect(code).toBe(1);
    // Three bare, one of the three guarded.
    expect(provider.mails).toHaveLength(4);
  });

  it("without a verify it goes by the answers, and says what it cannot know", async () => {
    const place = folder();
    const call = `create_entities={"entities":[{"name":"Ada","entityType":"person","observations":[]}]}`;
    const { out, code } = await command(
      ["mcp", "probe", "--json", "--call", call, "--", process.execPath, MEMORY],
      place,
    );
    // Nothing was shown to happen twice.
    expect(code).toBe(0);
    const { tools } = JSON.parse(out) as { tools: { tool: string; verdict: string; bare: object | null }[] };
    // The memory server answers a repeat differently: it was run again, and found nothing new to do.
    expect(tools.find(({ tool }) => tool === "create_entities")).toMatchObject({
      verdict: "answers-differ",
      bare: { answers: 2 },
    });
    expect(tools.find(({ tool }) => tool === "create_relations")).toMatchObject({ verdict: "not-called", bare: null });
    expect(tools.find(({ tool }) => tool === "delete_entities")).toMatchObject({ verdict: "idempotent", bare: null });
    const shown = await command(["mcp", "probe", "--call", call, "--", process.execPath, MEMORY], folder());
    expect(shown.out).toMatch(/create_entities\s+3 calls, 2 answers\s+3 calls, 1 answer\s+the answers differ/);
    expect(shown.out).toContain("Answers that differ do not prove a second effect");
  });

  it("says where no call succeeded, and fits a narrow terminal", async () => {
    const place = folder();
    const { code, out } = await command(
      ["mcp", "probe", "--call", "create_entities", "--", process.execPath, MEMORY],
      place,
    );
    expect(out).toMatch(/create_entities\s+3 calls, 3 errors\s+3 calls, 3 errors\s+every call failed/);
    expect(out).toContain("create_entities: no call succeeded, so the probe shows nothing.");
    expect(code).toBe(1);
    expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it("calls nothing that was not named, and says so", async () => {
    const provider = await startMailProvider();
    const { code, out } = await command(
      ["mcp", "probe", "--", process.execPath, MAIL_SERVER, "stdio", provider.url],
      folder(),
    );
    expect(out).toMatch(/send_mail\s+not called/);
    expect(out.replace(/\s+/g, " ")).toContain("1 tool may act and was not called, since a probe has real effects");
    expect([code, provider.mails.length]).toEqual([0, 0]);
  });

  it("says what is wrong with the command line", async () => {
    const place = folder();
    const said = async (...argv: string[]) => (await command(["mcp", ...argv], place)).err;
    expect(await said()).toContain("mcp needs the server it stands in front of");
    expect(await said("probe")).toContain("mcp probe needs the server's command behind --");
    expect(await said("prob")).toContain('there is no "prob"');
    expect(await said("probe", "--call", "x=1", "--", "true")).toContain("it takes a tool and its arguments as JSON");
    expect(await said("--url", "nowhere")).toContain("--url nowhere: it takes the URL of an MCP server");
    expect(await said("--config", "none.json", "--", "true")).toContain("--config none.json cannot be read");
    writeFileSync(join(place, "bad.json"), '{"tools":{"a":{"keys":["x"]}}}');
    expect(await said("--config", "bad.json", "--", "true")).toContain('bad.json: tools.a: there is no option "keys"');
    expect(await said("--", "no-such-program-here")).toContain(
      "the MCP server could not be started (no-such-program-here)",
    );
    expect(await said("serve", "--allow-resend")).toContain("needs the module that defines the actions");
  });
});

describe("nevertwice mcp serve", () => {
  async function ledger() {
    const store = `sqlite:${join(folder(), "ledger.db")}`;
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    const run = async (_: { to: string }) => Promise.reject(new Error("socket hang up"));
    const outcome = await nt.action("send_sms", { key: ["to"], run }).attempt({ to: "ada" });
    return { store, nt, key: outcome.key };
  }

  it("A4: looks, and settles nothing without the flag", async () => {
    const { store, key } = await ledger();
    const { client } = await connect([COMMAND, "mcp", "serve", "--store", store]);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["nevertwice_list", "nevertwice_show", "nevertwice_stats"]);
    const listed = JSON.parse(said(await client.callTool({ name: "nevertwice_list", arguments: { doubt: true } })));
    expect(listed.records).toMatchObject([{ key, action: "send_sms", state: "unknown" }]);
    const shown = JSON.parse(said(await client.callTool({ name: "nevertwice_show", arguments: { key } })));
    expect(JSON.stringify(shown)).toContain("send_sms");
    const none = await client.callTool({ name: "nevertwice_show", arguments: { key: "nt1_00000000" } });
    expect([none.isError, said(none)]).toEqual([true, expect.stringContaining("there is no record")]);
  });

  it("with --allow-resolve a doubt is settled, signed by whoever started the server", async () => {
    const { store, key, nt } = await ledger();
    const { client } = await connect([COMMAND, "mcp", "serve", "--store", store, "--allow-resolve", "--by", "kim"]);
    const args = { key, as: "done", result: { id: "SM-1" }, reason: "in the provider's log", by: "the model" };
    await client.callTool({ name: "nevertwice_resolve", arguments: args });
    expect(await nt.status({ key })).toMatchObject({ status: "done", result: { id: "SM-1" } });
    const [stored] = await nt.store.read([key]);
    expect(stored?.record.history.at(-1)).toMatchObject({ by: "kim", reason: "in the provider's log" });
    const again = await client.callTool({ name: "nevertwice_retry", arguments: { key, reason: "again" } });
    expect(again.isError).toBe(true);
  });

  it("with --allow-resend and the module, the effect happens once more as a new version", async () => {
    const place = folder();
    const store = `sqlite:${join(place, "ledger.db")}`;
    const actions = join(place, "actions.mjs");
    const library = new URL("../../dist/index.js", import.meta.url).href;
    writeFileSync(
      actions,
      `import { nevertwice } from ${JSON.stringify(library)};
       const nt = nevertwice({ store: ${JSON.stringify(store)}, sweep: false });
       export const note = nt.action("note", { key: ["id"], run: async ({ id }, { key }) => "noted " + key });`,
    );
    const { note } = (await import(actions)) as {
      note: ((input: object) => Promise<string>) & { keyOf(input: object): Promise<string> };
    };
    await note({ id: 1 });
    const key = await note.keyOf({ id: 1 });
    const argv = [COMMAND, "mcp", "serve", "--store", store, "--allow-resend", "--actions", actions, "--by", "kim"];
    const { client } = await connect(argv);
    const sent = JSON.parse(
      said(await client.callTool({ name: "nevertwice_resend", arguments: { key, reason: "asked for" } })),
    );
    expect(sent).toMatchObject({ version: 2, outcome: { status: "done" } });
  });
});
