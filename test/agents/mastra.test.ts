import { createTool } from "@mastra/core/tools";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { guardMastraTool } from "../../dist/agents/mastra.js";
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
    const guarded = guardMastraTool(at.nt as NonNullable<typeof at.nt>, send, { errors: "not-done" }) as {
      execute(input: object, context: object): Promise<unknown>;
    };
    for (let call = 0; call < 2; call += 1)
      await expect(guarded.execute({ to: "ada" }, {})).rejects.toThrow(/It may have happened all the same/);
    expect(mails).toBe(1);
  });
});
