/** What is wrong with a tool's options is said where they are written, and in words that name them. */
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { FakeMcpServer } from "../../test/support/fake-mcp-server.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { guardMcpServer } from "./mcp/server/index.ts";
import { onceMoreTool } from "./once-more-tool.ts";
import { statusTool } from "./status-tool.ts";

function open() {
  const warned: { code: string; message: string }[] = [];
  const nt = nevertwice({ store: memoryStore(), sweep: false, onWarning: (warning) => warned.push(warning) });
  onTestFinished(() => nt.close());
  return { nt, warned };
}

const handler = async (_: { to: string }) => "sent";
const options = { name: "send_mail", key: ["to"], scope: null } as const;

describe("refused when the tool is guarded", () => {
  it.each<[string, object, RegExp]>([
    ["key: []", { key: [] }, /key names no field/],
    ['scope: ""', { scope: "" }, /scope is ""; it must not be blank\..*scope: null/],
    ['tenant: " "', { tenant: " " }, /tenant is " "; it must not be blank/],
    [
      "quietFor without a probe",
      { doubt: { resendWithin: "1d", quietFor: "1m" } },
      /doubt\.quietFor says when doubt\.probe may be asked, and there is no probe/,
    ],
    ["a name of the ledger's own", { name: "step:mail" }, /tool "step:mail": names that begin with "step:".*`action`/],
    ["an action of the ledger's own", { action: "nevertwice.x" }, /names that begin with "nevertwice\."/],
  ])("%s", (_what, wrong, message) => {
    const { nt } = open();
    expect(() => guardTool(nt, { ...options, ...wrong } as never, handler)).toThrow(message);
  });

  it("a tool whose name is the ledger's own is guarded under another action", async () => {
    const { nt } = open();
    const tool = guardTool(nt, { ...options, name: "step:mail", action: "mail" }, handler);
    expect(await tool({ to: "ada" }, undefined)).toBe("sent");
  });

  it("options that the added tools do not have", () => {
    const { nt } = open();
    expect(() => statusTool(nt, { nam: "x" } as never)).toThrow(
      /statusTool: there is no option "nam".*Did you mean name/,
    );
    expect(() => onceMoreTool(nt, { nam: "x" } as never)).toThrow(/there is no option "nam".*Did you mean name/);
  });

  it("a key field that an MCP tool's schema does not have", () => {
    const guarded = (inputSchema: unknown) => {
      const server = guardMcpServer(open().nt, new FakeMcpServer(), {
        scope: null,
        tools: { send: { key: ["too"] } },
      } as never) as unknown as FakeMcpServer;
      return () => server.registerTool("send", { inputSchema }, (async () => ({ content: [] })) as never);
    };
    const message = /tool "send": key names "too", and the tool takes no such argument\. It takes: to/;
    expect(guarded({ to: z.string() })).toThrow(message);
    expect(guarded(z.object({ to: z.string() }))).toThrow(message);
    // Other arguments come through these.
    expect(guarded(z.looseObject({ to: z.string() }))).not.toThrow();
    expect(guarded(z.strictObject({ to: z.string() }))).toThrow(message);
  });
});

describe("a function of the call that throws", () => {
  it.each(["scope", "tenant", "agent"])("%s: the tool and the option are named, and nothing is run", async (option) => {
    const { nt } = open();
    let runs = 0;
    const reads = ({ context }: { context?: { id: string } }) => (context as { id: string }).id;
    const tool = guardTool(nt, { ...options, [option]: reads }, async (_: { to: string }, _call: object) => ++runs);
    await expect(tool.answer({ to: "ada" }, {})).rejects.toMatchObject({
      code: "INVALID_KEY",
      message: expect.stringMatching(
        new RegExp(`^tool "send_mail": its option ${option} threw .*undefined.*Nothing was run`),
      ),
      cause: expect.any(TypeError),
    });
    expect(runs).toBe(0);
  });
});

describe("errors, a function that says none of its words", () => {
  it.each<[string, () => unknown, RegExp]>([
    ["another word", () => "nope", /option errors answered "nope"/],
    ["another value", () => 7, /option errors answered a value of type number/],
    [
      "it throws",
      () => {
        throw new RangeError("my function broke");
      },
      /option errors threw a RangeError/,
    ],
  ])("%s: in doubt, never done, and the developer is told", async (_what, errors, message) => {
    const { nt, warned } = open();
    const tool = guardTool(nt, { ...options, errors: errors as never }, handler);
    expect(await tool.answer({ to: "ada" }, undefined)).toMatchObject({
      kind: "refused",
      outcome: { status: "unknown" },
    });
    expect(await tool.answer({ to: "ada" }, undefined)).toMatchObject({
      kind: "refused",
      outcome: { status: "unknown" },
    });
    expect(warned).toMatchObject([{ code: "ERRORS_ANSWER", message: expect.stringMatching(message) }]);
    expect(warned[0]?.message).toMatch(/^tool send_mail: .*"doubt", "not-done" or "answer"/);
  });

  it("one that says nothing of a good result leaves it what it is", async () => {
    const { nt, warned } = open();
    const tool = guardTool(nt, { ...options, errors: (() => undefined) as never }, handler);
    expect(await tool({ to: "ada" }, undefined)).toBe("sent");
    expect(warned).toEqual([]);
  });
});

it("a doubt in spite of errors: not-done does not speak of classify, which the tool has not", async () => {
  const { nt } = open();
  const thrown = guardTool(nt, { ...options, errors: "not-done" }, () => Promise.reject(new Error("request canceled")));
  expect(await thrown.answer({ to: "ada" }, undefined)).toMatchObject({
    outcome: { why: "an error that leaves open whether it happened" },
  });
  const returned = guardTool(nt, { ...options, name: "post", errors: "not-done" }, async () => ({
    error: "timed out",
  }));
  expect(await returned.answer({ to: "ada" }, undefined)).toMatchObject({
    outcome: { why: "it answered with an error that leaves open whether it happened" },
  });
});

it("mode: observe: a call that was run is not said to have run nothing", async () => {
  const { nt, warned } = open();
  const tool = guardTool(nt, { ...options, scope: () => undefined, mode: "observe" }, handler);
  expect(await tool({ to: "ada" }, undefined)).toBe("sent");
  expect(warned.find(({ code }) => code === "OBSERVE_UNRECORDED")?.message).toMatch(
    /^tool send_mail: a call was run and not recorded, under mode: "observe"\. A guarded call would have been refused: /,
  );
});

it("a doubt that is held for a time: the model and the developer read until when", async () => {
  const { nt, warned } = open();
  const doubt = { holdFor: "15m" };
  const broken = () => Promise.reject(new Error("hang"));
  const tool = guardTool(nt, { ...options, doubt }, broken);
  const again = async () => {
    const given = await tool.answer({ to: "ada" }, undefined);
    if (given.kind !== "refused" || given.outcome?.status !== "unknown") throw new Error("no doubt");
    const until = new Date(given.outcome.since + 15 * 60_000).toISOString();
    expect(given.text).toContain(`no call for it is run before ${until}.`);
    expect(given.text).not.toContain("by itself");
  };
  await again();
  await again();
  expect(warned[0]?.message).toMatch(/it is held for 15m, unless somebody settles it before; then the next call runs/);
  const action = nt.action("send", { doubt, run: (_: { to: string }) => broken() });
  await expect(action({ to: "ada" })).rejects.toThrow(/No call runs it again before \d{4}-/);
});
