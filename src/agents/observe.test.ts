/** mode: "observe": every call runs, nothing that a model reads changes, and the ledger has what would have been prevented. */
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { readProxyConfig } from "./mcp/config.ts";
import { queuedTool } from "./queued-tool.ts";

interface Mail {
  readonly to: string;
  readonly amount?: number;
}

const options = { name: "send_mail", key: ["to"], scope: "s1", mode: "observe" } as const;
const mail: Mail = { to: "ada", amount: 5 };

function open(faults: Faults = {}) {
  const warnings: string[] = [];
  const onWarning = ({ code }: { code: string }) => void warnings.push(code);
  const nt = nevertwice({ store: faulty(memoryStore(), faults), sweep: false, onWarning });
  onTestFinished(() => nt.close());
  return { nt, warnings };
}

describe('mode: "observe"', () => {
  it("runs repeats and conflicts, gives each its own result, and counts them as observed", async () => {
    const { nt } = open();
    let runs = 0;
    const tool = guardTool(nt, options, async (_mail: Mail) => ({ id: ++runs }));
    expect(await tool.answer(mail, undefined)).toEqual({ kind: "result", result: { id: 1 }, note: null });
    expect(await tool.answer(mail, undefined)).toEqual({ kind: "result", result: { id: 2 }, note: null });
    expect(await tool({ to: "ada", amount: 6 }, undefined)).toEqual({ id: 3 });
    const { prevented, observed, entries } = await nt.prevented();
    expect([prevented, observed]).toEqual([0, 2]);
    expect(entries.map(({ cause, observed: count }) => [cause, count]).sort()).toEqual([
      ["conflict", 1],
      ["done", 1],
    ]);
    const { items } = await nt.store.list({ action: "send_mail", limit: 10 });
    expect(items).toMatchObject([{ record: { state: "confirmed", attempt: 1, result: { json: '{"id":1}' } } }]);
  });

  it("does not wait for a call that is under way", async () => {
    const { nt } = open();
    let runs = 0;
    let letGo = () => {};
    const gate = new Promise<void>((go) => {
      letGo = go;
    });
    const tool = guardTool(nt, { ...options, wait: "1h" }, async (_mail: Mail) => {
      runs += 1;
      const run = runs;
      if (run === 1) await gate;
      return run;
    });
    const first = tool(mail, undefined);
    await until(() => runs === 1);
    expect(await tool(mail, undefined)).toBe(2);
    letGo();
    expect(await first).toBe(1);
    expect((await nt.prevented()).entries).toMatchObject([{ cause: "in-flight", observed: 1, prevented: 0 }]);
  });

  it("throws the tool's own error as it came, where a guard would speak of a doubt, and runs the next call", async () => {
    const { nt } = open();
    const error = new Error("socket hang up");
    let runs = 0;
    const tool = guardTool(nt, options, async (_mail: Mail) => {
      runs += 1;
      throw error;
    });
    for (let call = 0; call < 3; call += 1) await expect(tool.answer(mail, undefined)).rejects.toBe(error);
    expect(runs).toBe(3);
    expect((await nt.prevented()).entries).toMatchObject([{ cause: "in-doubt", observed: 2 }]);
  });

  it("makes no try of its own, and runs what was refused for good", async () => {
    const { nt } = open();
    let runs = 0;
    const tool = guardTool(
      nt,
      { ...options, classify: () => "rejected", retry: { attempts: 3, backoff: 1 } },
      async (_mail: Mail) => {
        runs += 1;
        throw new Error("no such address");
      },
    );
    for (let call = 0; call < 2; call += 1) await expect(tool(mail, undefined)).rejects.toThrow("no such address");
    expect(runs).toBe(2);
    expect((await nt.prevented()).entries).toMatchObject([{ cause: "refused", observed: 1 }]);
  });

  it("runs while the ledger is down, before and in the middle of a call", async () => {
    const faults: Faults = { down: true };
    const { nt, warnings } = open(faults);
    let runs = 0;
    const tool = guardTool(nt, options, async (_mail: Mail) => {
      runs += 1;
      faults.down = true;
      return runs;
    });
    expect(await tool(mail, undefined)).toBe(1);
    faults.down = false;
    expect(await tool({ to: "bob" }, undefined)).toBe(2);
    faults.down = false;
    expect(warnings).toContain("OBSERVE_UNRECORDED");
  });

  it("runs where the guard would have refused for a scope that is missing; a check of the tool's own holds", async () => {
    const { nt, warnings } = open();
    const tool = guardTool<Mail, undefined, string>(nt, { ...options, scope: () => undefined }, async () => "sent");
    expect(await tool(mail, undefined)).toBe("sent");
    expect(warnings).toContain("OBSERVE_UNRECORDED");
    const checked = guardTool<Mail, undefined, string>(
      nt,
      {
        ...options,
        name: "pay",
        check: () => {
          throw new Error("the account is closed");
        },
      },
      async () => "paid",
    );
    await expect(checked(mail, undefined)).rejects.toThrow("the account is closed");
  });

  it("warns once that nothing is prevented, and refuses another word", async () => {
    const { nt, warnings } = open();
    for (const name of ["one", "two"]) guardTool(nt, { ...options, name }, async (_mail: Mail) => 1);
    expect(warnings).toEqual(["OBSERVE_ONLY"]);
    expect(() => guardTool(nt, { ...options, mode: "watch" as never }, async () => 1)).toThrow(
      /mode is "watch"; it takes "guard" or "observe"/,
    );
    expect(() => readProxyConfig({ mode: "watch" }, "tools.json")).toThrow(/tools.json: mode is "watch"/);
    const action = nt.action("later", { key: ["to"], run: async (_mail: Mail) => 1 });
    expect(() => queuedTool(action, { mode: "observe" } as never)).toThrow(/no option "mode"/);
  });

  it("a tool that is guarded inside of another guard of it runs once a call", async () => {
    const { nt } = open();
    let runs = 0;
    const inner = guardTool(nt, options, async (_mail: Mail) => ++runs);
    const outer = guardTool(nt, options, (input: Mail) => inner(input, undefined));
    expect([await outer(mail, undefined), await outer(mail, undefined)]).toEqual([1, 2]);
  });
});
