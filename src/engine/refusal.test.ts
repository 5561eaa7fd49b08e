import { describe, expect, it } from "vitest";
import type { GuardedPolicy, Store } from "../core/store.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";

/** A store that says no to some policies, and remembers what it was asked. */
function choosy(refuses: (doubt: GuardedPolicy["doubt"]) => string | null) {
  const asked: string[] = [];
  const store: Store = Object.assign(memoryStore(), {
    refuses: async ({ doubt }: GuardedPolicy) => {
      asked.push(doubt);
      return refuses(doubt);
    },
  });
  return { asked, nt: nevertwice({ store, sweep: false, onWarning: () => {} }) };
}

const refusesHold = (doubt: string) => (doubt === "hold" ? "it forgets. Use another ledger." : null);

describe("a store that refuses a policy", () => {
  it("is asked before the first claim, and the effect does not happen", async () => {
    const { nt, asked } = choosy(refusesHold);
    let ran = 0;
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => (ran += 1) });
    await expect(send({ id: 1 })).rejects.toMatchObject({
      code: "CONFIG",
      message: "the ledger (memory) does not take this action: it forgets. Use another ledger.",
    });
    await expect(send.attempt({ id: 1 })).rejects.toMatchObject({ code: "CONFIG" });
    expect({ ran, asked }).toEqual({ ran: 0, asked: ["hold", "hold"] });
    expect(await send.status({ id: 1 })).toMatchObject({ status: "absent" });
  });

  it("takes what it does not refuse, and is asked once for each policy", async () => {
    const { nt, asked } = choosy(refusesHold);
    const again = nt.action("again", { key: ["id"], doubt: "retry", run: async (_: { id: number }) => "ok" });
    const within = nt.action("within", {
      key: ["id"],
      doubt: { resendWithin: "1h" },
      run: async (_: { id: number }) => "ok",
    });
    for (const id of [1, 2, 3]) expect([await again({ id }), await within({ id })]).toEqual(["ok", "ok"]);
    expect(asked).toEqual(["retry", "settle"]);
  });

  it("is asked again after a refusal: the server may have been set right", async () => {
    let safe = false;
    const { nt } = choosy(() => (safe ? null : "not yet."));
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => "ok" });
    await expect(send({ id: 1 })).rejects.toMatchObject({ code: "CONFIG" });
    safe = true;
    expect(await send({ id: 1 })).toBe("ok");
  });

  it("cannot be asked: the store is down, and only an action that may runs without it", async () => {
    const { nt } = choosy(() => {
      throw new Error("connection refused");
    });
    const send = nt.action("send", { key: ["id"], run: async (_: { id: number }) => "ok" });
    const anyway = nt.action("anyway", {
      key: ["id"],
      doubt: "retry",
      whenStoreDown: "run",
      run: async (_: { id: number }) => "ok",
    });
    await expect(send({ id: 1 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await anyway({ id: 1 })).toBe("ok");
  });
});
