/** What a caller gets is settled before it is told, and its own. */
import { describe, expect, it, onTestFinished } from "vitest";
import type { Store } from "../core/store.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import { guardTool } from "./guard-tool.ts";
import { toolMemory } from "./tool/memory.ts";

function open(store: Store = memoryStore()) {
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

describe("what a caller gets", () => {
  it("is settled before it is told, also where the answer came after the timeout", async () => {
    const store = memoryStore();
    const write = store.write.bind(store);
    const slow: Store["write"] = async (puts) => {
      await new Promise((soon) => setTimeout(soon, 20));
      return write(puts);
    };
    const nt = open(Object.assign(store, { write: slow }));
    const options = { name: "send_mail", scope: null, key: ["to"], timeout: "30ms", wait: 0 } as const;
    const send = guardTool(nt, options, async (_: { to: string }) => {
      await new Promise((soon) => setTimeout(soon, 150));
      return "sent";
    });
    expect(await send.answer({ to: "ada" }, undefined)).toEqual({ kind: "result", result: "sent", note: null });
    expect(await send.answer({ to: "ada" }, undefined)).toMatchObject({ note: expect.stringMatching(/^Already done/) });
  });

  it.each<[string, (run: () => Promise<unknown>) => () => Promise<unknown>]>([
    [
      "a guarded tool",
      (run) => {
        const send = guardTool(open(), { name: "send_mail", scope: null, key: ["to"] }, run);
        return () => send({ to: "ada" }, undefined);
      },
    ],
    [
      "an action",
      (run) => {
        const send = open().action("send_mail", { key: ["to"], run });
        return () => send({ to: "ada" });
      },
    ],
    [
      "a memory without a ledger",
      (run) => {
        const memory = toolMemory({ scope: "s" });
        return async () => {
          const answer = await memory.call("send_mail", { to: "ada" }, run);
          return answer.kind === "result" ? answer.result : answer.text;
        };
      },
    ],
  ])("is its own: what one changes in it no other sees (%s)", async (_, made) => {
    const call = made(async () => {
      await new Promise((soon) => setTimeout(soon, 10));
      return { id: 1, list: [{ n: 1 }] };
    });
    const change = async (answer: Promise<unknown>) => {
      const result = (await answer) as { list: object[] };
      const seen = JSON.stringify(result);
      Object.assign(result.list[0] as object, { n: 2 });
      result.list.push({});
      return seen;
    };
    const first = await Promise.all([change(call()), change(call()), change(call())]);
    const later = [await change(call()), await change(call())];
    expect(new Set([...first, ...later])).toEqual(new Set(['{"id":1,"list":[{"n":1}]}']));
  });
});
