import { Agent, RunContext, Runner, tool as sdkTool, toolNamespace, webSearchTool } from "@openai/agents";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardOpenAiTool, guardOpenAiTools } from "../../dist/agents/frameworks/openai-agents.js";
import { resumedTwice, runBy, scripted } from "./lib/agents/openai-agents.mjs";
import { type Run, tellStories, WAYS, type World, world } from "./lib/stories.ts";

const hello = { to: "ada", body: "Hello" };

describe.each(["factory", "finished"])("OpenAI Agents SDK, guarded by %s", (by) => {
  const run: Run = runBy(by);
  tellStories(run, { agent: `openai-agents:${by}`, seesErrors: by === "factory" });

  it.each(WAYS)("the SDK's own timeout passes and the model calls again, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    provider.hold();
    // The model is asked a second time when the first call has timed out.
    const asked = (time: number) => guarded && time === 2 && provider.release();
    if (!guarded) void provider.sent(2).then(() => provider.release());
    const told = await run({ ...at, timeoutMs: 500, asked } as World, [[hello], [hello]]);
    expect(told[0]).toMatch(/timed out/);
    expect(told[1]).toContain(guarded ? "mail_1" : "mail_2");
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });

  it.each(WAYS)("an approval is asked for, and the approved state resumed twice, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await resumedTwice(at, by);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });

  it("arguments that do not fit the schema were not run, and corrected ones may follow", async () => {
    const { provider, world: at } = await world(true);
    const told = await run(at, [[{ to: "ada" } as never], [hello]]);
    expect(told[0]).toMatch(/An error occurred/);
    expect(told[1]).toContain("mail_1");
    expect(told[1]).not.toContain("Already done");
    expect(provider.mails).toHaveLength(1);
  });

  it("a tool with an output schema keeps to it: a repeat is the first result, a conflict ends the call", async () => {
    const { provider, world: at } = await world(true);
    const definition = {
      outputSchema: z.object({ id: z.string() }),
      errorFunction: (_context: unknown, error: Error) => ({ id: error.message }),
    };
    const told = await run({ ...at, definition } as World, [[hello], [hello], [{ ...hello, amount: 6 }]]);
    expect(told[1]).toBe(told[0]);
    expect(told[2]).toMatch(/Refused, and nothing was done/);
    expect(provider.mails).toHaveLength(1);
  });
});

describe("finished tools of the OpenAI Agents SDK", () => {
  const run: Run = runBy("finished");

  it("arguments that are not JSON go to the tool untouched, and nothing is claimed", async () => {
    const { provider, world: at } = await world(true);
    const send = guardOpenAiTool(at.nt as NonNullable<typeof at.nt>, sdkTool(mail(() => "sent")), {
      key: ["to"],
      scope: "s",
    });
    expect(await send.invoke(new RunContext({}), '{"to":"ada"')).toMatch(/^An error occurred while running the tool/);
    const told = await run(at, [[{ text: '{"to":"ada"' } as never], [hello]]);
    expect(told[0]).toMatch(/An error occurred while parsing tool arguments/);
    expect(told[1]).toContain("mail_1");
    const { items } = await (at.nt as NonNullable<typeof at.nt>).store.list({ limit: 10 });
    expect(items).toHaveLength(1);
    expect(provider.mails).toHaveLength(1);
  });

  it("O5: the words of an errorFunction are the user's: `errors` says which answers mean a doubt, which that nothing was done", async () => {
    const { provider, world: at } = await world(true);
    const meanings: Record<string, string> = { "the line was cut": "doubt", "nobody home": "not-done" };
    const words = Object.keys(meanings);
    const definition = { errorFunction: () => words.shift() };
    const options = { errors: (answer: unknown) => meanings[String(answer)] ?? "answer" };
    for (const _ of words) provider.dropNext();
    const bob = { ...hello, to: "bob" };
    const told = await run({ ...at, definition, options } as World, [[hello], [bob], [hello], [bob]]);
    expect(told[0]).toMatch(/send_mail failed: the line was cut\. It may have happened all the same/);
    expect(told[1]).toContain("nobody home");
    expect(told[2]).toMatch(/It may have happened all the same/);
    expect(told[3]).toContain("mail_3");
    expect(provider.mails.map(({ to }) => to)).toEqual(["ada", "bob", "bob"]);
  });

  it("wrong arguments and an errorFunction of one's own: known as not begun once the tool has run", async () => {
    const { provider, world: at } = await world(true);
    const definition = { errorFunction: () => "no such field" };
    const bob = { ...hello, to: "bob" };
    const told = await run({ ...at, definition } as World, [[hello], [{ to: "bob" } as never], [bob]]);
    expect(told[1]).toContain("no such field");
    expect(told[2]).toContain("mail_2");
    expect(provider.mails).toHaveLength(2);
  });

  it("errorFunction: null: the tool's own error decides, as at the factory", async () => {
    const { world: at } = await world(true);
    let runs = 0;
    const refused = Object.assign(new Error("no such account"), { status: 422 });
    const failing = mail(() => {
      runs += 1;
      throw refused;
    });
    const send = guardOpenAiTool(at.nt as never, sdkTool({ ...failing, errorFunction: null }), {
      key: ["to"],
      scope: "s",
    });
    const invoke = () => send.invoke(new RunContext({}), '{"to":"ada"}');
    await expect(invoke()).rejects.toBe(refused);
    await expect(invoke()).rejects.toBe(refused);
    expect(runs).toBe(2);
  });

  it("invoked without a runner, its own timeout is a doubt", async () => {
    const { world: at } = await world(true);
    const never = mail(() => new Promise<string>(() => {}));
    const send = guardOpenAiTool(at.nt as never, sdkTool({ ...never, timeoutMs: 20 }), { key: ["to"], scope: "s" });
    const invoke = () => send.invoke(new RunContext({}), '{"to":"ada"}');
    expect(await invoke()).toMatch(/timed out after 20ms\. It may have happened all the same/);
    expect(await invoke()).toMatch(/^It may have happened all the same/);
  });

  it('the SDK\'s own timeout is no error of the tool: a doubt, also with errors: "not-done"', async () => {
    const { world: at } = await world(true);
    const nt = at.nt as NonNullable<typeof at.nt>;
    let finish = (_value: string) => {};
    const hangs = () =>
      new Promise<string>((done) => {
        finish = done;
      });
    const options = { key: ["to"], scope: "s", errors: "not-done" } as const;
    const send = guardOpenAiTool(nt, sdkTool({ ...mail(hangs), timeoutMs: 20 } as never), options) as {
      invoke(context: unknown, text: string): Promise<unknown>;
    };
    expect(await send.invoke(new RunContext({}), JSON.stringify(hello))).toMatch(/It may have happened all the same/);
    finish("sent");
  });

  it("a tool that nobody made with tool() is guarded by its answers alone", async () => {
    const { world: at } = await world(true);
    let runs = 0;
    const made = sdkTool(mail(() => "unused"));
    const own = { ...made, invoke: async () => `sent ${++runs}` };
    const [send] = guardOpenAiTools(at.nt as never, [own], { scope: "s", tools: { mail: { key: ["to"] } } });
    const model = scripted([[{ to: "ada" }], [{ to: "ada" }]], "mail");
    const agent = new Agent({ name: "a", instructions: "mail", model, tools: [send as typeof made] });
    await new Runner().run(agent, "mail them");
    expect(runs).toBe(1);
  });

  it("a key that cannot be made is told to the model, and nothing is run", async () => {
    const { provider, world: at } = await world(true);
    const told = await run(at, [[{ to: " ", body: "Hello" }]]);
    expect(told[0]).toMatch(/the part is a blank string/);
    expect(provider.mails).toHaveLength(0);
  });

  it("one, a list or a record; hosted tools and agents as tools pass, namespaces and other fields stay", async () => {
    const { world: at } = await world(true);
    const nt = at.nt as NonNullable<typeof at.nt>;
    const search = webSearchTool();
    const helper = new Agent({ name: "helper", instructions: "help" }).asTool({
      toolName: "helper",
      toolDescription: "",
    });
    const needsApproval = async () => true;
    const send = sdkTool({ ...mail(() => "sent"), needsApproval, isEnabled: false });
    const list = guardOpenAiTools(nt, [search, helper, send], { scope: "s", tools: { mail: { key: ["to"] } } });
    expect(list[0]).toBe(search);
    expect(list[1]).toBe(helper);
    const { invoke: before, ...fields } = send;
    const { invoke: after, ...kept } = list[2] as typeof send;
    expect(kept).toEqual(fields);
    expect(after).not.toBe(before);
    const { send: inRecord, left } = guardOpenAiTools(
      nt,
      { send, left: send },
      { scope: "s", tools: { send: { key: ["to"] }, left: false } },
    );
    expect([inRecord.invoke === before, left.invoke === before]).toEqual([false, true]);
    expect(guardOpenAiTools(nt, send, { tools: { mail: { readOnly: true } } })).toBe(send);
    const [spaced] = toolNamespace({ name: "crm", description: "customers", tools: [send] });
    const symbols = Object.getOwnPropertySymbols(spaced);
    expect(symbols.length).toBeGreaterThan(0);
    expect(
      Object.getOwnPropertySymbols(guardOpenAiTool(nt, spaced as typeof send, { scope: "s", key: ["to"] })),
    ).toEqual(symbols);
    for (const tool of [search, helper])
      expect(() => guardOpenAiTools(nt, [tool], { tools: { [tool.name]: { key: ["query"] } } })).toThrow(
        /is no function tool, and cannot be guarded here/,
      );
    expect(guardOpenAiTools(nt, [search], { tools: { [search.name]: { readOnly: true } } })).toEqual([search]);
    expect(() => guardOpenAiTools(nt, [send], { tools: { sned: {} } })).toThrow(/sned, but there is no such tool/);
    expect(() => guardOpenAiTools(nt, [{} as never])).toThrow(/that is no tool of the OpenAI Agents SDK/);
    for (const wrong of ["send_mail", null])
      expect(() => guardOpenAiTools(nt, wrong as never)).toThrow(/a list of them, one tool, or the SDK's own tool\(\)/);
  });
});

const mail = (execute: () => unknown) => ({
  name: "mail",
  description: "sends",
  parameters: z.object({ to: z.string() }),
  execute,
});
