import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import * as five from "ai-5";
import { MockLanguageModelV2 } from "ai-5/test";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { guardAiTools } from "../../dist/agents/frameworks/ai-sdk.js";
import { nevertwice } from "../../dist/index.js";
import { agent } from "./lib/agents/ai-sdk.mjs";
import { calling, toldBy } from "./lib/agents/ai-sdk-model.mjs";
import { folder } from "./lib/mcp.ts";
import { type Run, tellStories, WAYS, world } from "./lib/stories.ts";

// biome-ignore lint/suspicious/noExplicitAny: three major versions of one package, called by shape
type Any = any;

function open() {
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

const inputSchema = z.object({ to: z.string() });

describe.each([6, 7])("AI SDK %i", (version) => {
  const { run, approvedTwice, ai, Model } = agent(version) as Any as {
    run: Run;
    approvedTwice: (at: object) => Promise<void>;
    ai: Any;
    Model: Any;
  };
  tellStories(run, { agent: `ai-sdk:${version}` });

  it.each(WAYS)("an approval submitted twice, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await approvedTwice(at);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });

  const stopWhen = ai.stepCountIs?.(10) ?? ai.isStepCount?.(10);
  const converse = async (tools: Any, chat: string, steps: unknown[]): Promise<string[]> => {
    const model = calling(Model, steps);
    const context = version === 6 ? { experimental_context: { chat } } : { toolsContext: { send_mail: { chat } } };
    await ai.generateText({ model, prompt: "mail them", tools, stopWhen, ...context });
    return toldBy(model).map(({ value }: { value: unknown }) => JSON.stringify(value));
  };
  const chatOf = ({ context, experimental_context }: Any) => (context ?? experimental_context).chat as string;

  it.each([
    ["a text", (id: number): unknown => `sent ${id}`],
    ["an object", (id: number): unknown => ({ sent: id })],
  ])("ids that a provider uses again: a new call never reads the note of another, output %s", async (_, output) => {
    let sent = 0;
    const contextSchema = z.object({ chat: z.string() });
    const send_mail = ai.tool({ inputSchema, contextSchema, execute: async () => output(++sent) });
    const tools = guardAiTools(open(), { send_mail }, { scope: chatOf });
    const call = (to: string) => [["send_mail", { to }, "call_0"]];
    // Ada's model repeats itself; every other call with that id is a new one.
    const ada = await converse(tools, "ada", [call("x"), call("x"), call("y")]);
    expect(ada.map((told) => told.includes("Already done"))).toEqual([false, true, false]);
    const all = await Promise.all(
      ["bob", "cyd", "ada"].map((chat) => converse(tools, chat, [call("x"), call(`${chat} only`)])),
    );
    expect(all.map((told) => told.map((one) => one.includes("Already done")))).toEqual([
      [false, false],
      [false, false],
      [true, false],
    ]);
    expect(sent).toBe(2 + 2 + 2 + 1);
  });

  it.each([
    { repeats: undefined, bodies: ["s", "t"], ran: ["s"] },
    { repeats: 2, bodies: ["s", "t", "u"], ran: ["s", "t"] },
  ])(
    "calls of one turn: a call that ran reads its own result, only one that did not reads otherwise ($bodies)",
    async ({ repeats, bodies, ran }) => {
      const sent: string[] = [];
      const send_mail = ai.tool({
        inputSchema: z.object({ to: z.string(), body: z.string() }),
        execute: async ({ body }: { body: string }) => {
          sent.push(body);
          await new Promise((done) => setTimeout(done, 20));
          return { id: body };
        },
      });
      const own = { key: ["to"], free: ["body"], ...(repeats !== undefined && { repeats }) };
      const tools = guardAiTools(open(), { send_mail }, { scope: "s", tools: { send_mail: own as Any } });
      const told = await converse(tools, "s", [bodies.map((body) => ["send_mail", { to: "ada", body }, `c_${body}`])]);
      expect(sent).toEqual(ran);
      expect(told.slice(0, ran.length)).toEqual(ran.map((id) => JSON.stringify({ id })));
      for (const one of told.slice(ran.length)) expect(one).toMatch(/Already done.*the new text was not sent/);
    },
  );

  it("errors as a function is asked about each result, and about what is thrown", async () => {
    const asked: unknown[] = [];
    const answers: unknown[] = ["FAILED: no such address", new Error("FAILED: full"), "sent"];
    const send_mail = ai.tool({
      inputSchema,
      execute: async () => {
        const answer = answers.shift();
        if (answer instanceof Error) throw answer;
        return answer;
      },
    });
    const errors = (result: unknown, thrown?: unknown) => {
      const error = thrown as Error | undefined;
      asked.push(error?.message ?? result);
      return String(error?.message ?? result).startsWith("FAILED") ? ("not-done" as const) : ("answer" as const);
    };
    const tools = guardAiTools(open(), { send_mail }, { scope: "s", tools: { send_mail: { key: ["to"], errors } } });
    const steps = ["a", "b", "c", "d"].map((id) => [["send_mail", { to: "ada" }, id]]);
    const told = await converse(tools, "s", steps);
    expect(told.map((one) => /Already done|FAILED: \w+|sent/.exec(one)?.[0])).toEqual([
      "FAILED: no",
      "FAILED: full",
      "sent",
      "Already done",
    ]);
    expect(asked).toEqual(["FAILED: no such address", "FAILED: full", "sent"]);
  });
});

describe("AI SDK 5", () => {
  it("is refused when a tool is guarded: the version, the range, and what to do", async () => {
    const at = folder();
    const root = fileURLToPath(new URL("../..", import.meta.url));
    mkdirSync(join(at, "node_modules"));
    symlinkSync(join(root, "test/agents/node_modules/ai-5"), join(at, "node_modules/ai"));
    symlinkSync(root, join(at, "node_modules/nevertwice"));
    writeFileSync(
      join(at, "program.mjs"),
      `import { nevertwice } from "nevertwice";
       import { guardAiTools } from "nevertwice/agents/ai-sdk";
       const nt = nevertwice({ store: "memory:", sweep: false });
       try {
         guardAiTools(nt, { send: { execute: async () => 1 } }, { scope: null });
       } catch ({ code, message }) {
         console.log(code, message);
       }
       await nt.close();`,
    );
    const { stdout } = await promisify(execFile)(process.execPath, [join(at, "program.mjs")], { cwd: at });
    expect(stdout).toMatch(
      /^CONFIG guardAiTool\("send"\): ai 5\.\d+\.\d+ is installed, and this wrapper works with >=6\.0\.0 <8\.0\.0: .*npm install "ai@>=6\.0\.0 <8\.0\.0"/,
    );
  });

  it("where the version cannot be seen, the model still reads each result", async () => {
    let sent = 0;
    const send_mail = five.tool({ inputSchema, execute: async () => ({ id: `mail_${++sent}` }) });
    const tools = guardAiTools(open(), { send_mail }, { scope: "s", tools: { send_mail: { key: ["to"] } } });
    const model = calling(MockLanguageModelV2, [
      [["send_mail", { to: "ada" }, "a"]],
      [["send_mail", { to: "ada" }, "b"]],
    ]) as Any;
    await five.generateText({ model, prompt: "mail them", tools: tools as Any, stopWhen: five.stepCountIs(5) });
    expect(toldBy(model)).toEqual([1, 2].map(() => ({ type: "json", value: { id: "mail_1" } })));
    expect(sent).toBe(1);
  });
});
