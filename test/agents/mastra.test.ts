import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { MockLanguageModelV3 } from "ai-6/test";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardMastraTool, guardMastraTools } from "../../dist/agents/frameworks/mastra.js";
import { calling, toldBy } from "./lib/agents/ai-sdk-model.mjs";
import { answeredTwice, mailTool, run } from "./lib/agents/mastra.mjs";
import { tellStories, WAYS, world } from "./lib/stories.ts";

describe("Mastra", () => {
  tellStories(run, { agent: "mastra" });

  it.each([
    { asks: "Mastra asks for approval", how: { approval: true } },
    { asks: "the tool suspends", how: { ask: true } },
  ])("$asks, and the answer is submitted twice", async ({ how }) => {
    for (const { guarded } of WAYS) {
      const { provider, world: at } = await world(guarded);
      await answeredTwice({ ...at, ...how });
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    }
  });

  it("a tool that suspends has not happened: it runs when it is resumed, and resumed twice it runs once", async () => {
    const { provider, world: at } = await world(true);
    const { send_mail } = mailTool({ ...at, ask: true }) as {
      send_mail: { execute: (input: object, context: object) => Promise<unknown> };
    };
    const asked: unknown[] = [];
    const agent = {
      agentId: "a",
      toolCallId: "c",
      messages: [],
      suspend: async (what: unknown) => void asked.push(what),
    };
    const mail = { to: "ada", body: "Hello" };
    await send_mail.execute(mail, { agent });
    expect(asked).toEqual([{ may: "I?" }]);
    expect(provider.mails).toHaveLength(0);
    const resumed = { agent: { ...agent, resumeData: { yes: true } } };
    expect(await send_mail.execute(mail, resumed)).toEqual({ id: "mail_1" });
    expect(await send_mail.execute(mail, resumed)).toMatchObject({
      id: "mail_1",
      nevertwice: expect.stringMatching(/^Already done/),
    });
    expect(provider.mails).toHaveLength(1);
  });

  it("an input that does not fit the schema was not run, and a corrected one may follow", async () => {
    const { provider, world: at } = await world(true);
    const { send_mail } = mailTool(at) as {
      send_mail: { execute: (input: object, context: object) => Promise<unknown> };
    };
    expect(await send_mail.execute({ to: "ada" }, {})).toMatchObject({ error: true });
    expect(await send_mail.execute({ to: "ada", body: "Hello" }, {})).toEqual({ id: "mail_1" });
    expect(provider.mails).toHaveLength(1);
  });

  it("a result that does not fit the outputSchema came after the effect: a doubt, and not run again", async () => {
    const { world: at } = await world(true);
    let mails = 0;
    const send = createTool({
      id: "send_mail",
      description: "sends a mail",
      inputSchema: z.object({ to: z.string() }),
      outputSchema: z.object({ id: z.string() }),
      execute: async () => ({ id: ++mails }) as never,
    });
    const guarded = guardMastraTool(at.nt as NonNullable<typeof at.nt>, send, { scope: "s", errors: "not-done" }) as {
      execute(input: object, context: object): Promise<unknown>;
    };
    for (let call = 0; call < 2; call += 1)
      await expect(guarded.execute({ to: "ada" }, {})).rejects.toThrow(/It may have happened all the same/);
    expect(mails).toBe(1);
  });

  const inputSchema = z.object({ to: z.string() });

  /** One run of an agent with these tools; what the model was told. */
  async function converse(tools: object, steps: unknown[], thread?: string): Promise<string[]> {
    const model = calling(MockLanguageModelV3, steps);
    const agent = new Agent({ id: "a", name: "a", instructions: "b", model, tools: tools as never });
    const memory = thread === undefined ? {} : { memory: { thread, resource: "user-1" } };
    await agent.generate("mail them", { maxSteps: 10, ...memory });
    return toldBy(model).map((output: unknown) => JSON.stringify(output));
  }

  it("a tool is known by the name it has in the record: ids that differ, and two tools with one id", async () => {
    const { world: at } = await world(true);
    const nt = at.nt as NonNullable<typeof at.nt>;
    const made = (said: string) =>
      createTool({ id: "send", description: "", inputSchema, execute: async ({ to }) => ({ said: `${said} ${to}` }) });
    const tools = guardMastraTools(
      nt,
      { send_mail: made("mail"), send_text: made("text") },
      { scope: "s", tools: { send_mail: { key: ["to"], errors: "not-done" }, send_text: { keep: "2d" } } },
    );
    const told = await converse(tools, [
      [["send_mail", { to: "ada" }, "1"]],
      [["send_text", { to: "ada" }, "2"]],
      [["send_mail", { to: "ada" }, "3"]],
    ]);
    expect(told[0]).toContain("mail ada");
    expect(told[1]).toContain("text ada");
    expect(told[1]).not.toContain("Already done");
    expect(told[2]).toMatch(/mail ada.*send_mail was not run again/);
    const { items } = await nt.store.list({ limit: 10 });
    expect(items.map(({ record }) => record.action).sort()).toEqual(["send_mail", "send_text"]);
  });

  it("errors as a function is asked about each result, and about what is thrown", async () => {
    const { world: at } = await world(true);
    const answers: unknown[] = [{ ok: false }, new Error("full"), { ok: true }];
    const asked: unknown[] = [];
    const send = createTool({
      id: "send",
      description: "",
      inputSchema,
      execute: async () => {
        const answer = answers.shift();
        if (answer instanceof Error) throw answer;
        return answer as { ok: boolean };
      },
    });
    const errors = (result: { ok: boolean } | undefined, error?: Error) => {
      asked.push(error?.message ?? result);
      return result?.ok === true ? ("answer" as const) : ("not-done" as const);
    };
    const options = { scope: "s", tools: { send: { key: ["to"] as const, errors: errors as never } } };
    const tools = guardMastraTools(at.nt as never, { send }, options as never);
    const told = await converse(
      tools,
      ["1", "2", "3", "4"].map((id) => [["send", { to: "ada" }, id]]),
    );
    expect(asked).toEqual([{ ok: false }, "full", { ok: true }]);
    expect(told[2]).not.toContain("Already done");
    expect(told[3]).toContain("Already done");
  });

  it("the scope is the thread; a call without one runs nothing, and the model is told so", async () => {
    const { world: at } = await world(true);
    let runs = 0;
    const send = createTool({ id: "send", description: "", inputSchema, execute: async () => ({ id: ++runs }) });
    const tools = guardMastraTools(at.nt as never, { send });
    const step = [[["send", { to: "ada" }, "1"]]];
    expect(await converse(tools, step)).toEqual([
      expect.stringMatching(
        /send was not run, and nothing was sent: .*without a thread.*memory: \{ thread, resource \}/,
      ),
    ]);
    expect(runs).toBe(0);
    expect(await converse(tools, step, "t1")).toEqual([expect.stringContaining('"id":1')]);
    expect(await converse(tools, step, "t2")).toEqual([expect.stringContaining('"id":2')]);
    expect(await converse(tools, step, "t1")).toEqual([expect.stringMatching(/"id":1.*Already done/)]);
  });
});
