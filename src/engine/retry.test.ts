import { notSent, outcomeOf, rejected } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";
import { closedPort, post, startProvider } from "../../test/support/provider.ts";

interface Mail {
  to: string;
}
const mail = { to: "a" };
const fast = { retry: { attempts: 4, backoff: "1ms", max: "5ms" } } as const;

eachStore("surely not sent", (open) => {
  it("F22 O4: connection refused is tried again inside the wait, and attempts are counted", async () => {
    const provider = await startProvider();
    const nobody = await closedPort();
    const { nt, events } = open();
    const send = nt.action("mail", {
      key: ["to"],
      ...fast,
      run: async (input: Mail, ctx) => post(ctx.attempt < 3 ? nobody : provider.url, input, ctx.key),
    });
    expect(await send.attempt(mail)).toMatchObject({ status: "done", attempt: 3, result: { id: "msg_1" } });
    expect(kinds(events)).toEqual(["failed", "failed", "executed"]);
    expect(provider.effects).toHaveLength(1);
  });

  it("F22: when the tries are used up it is failed, not final, and the next call begins a new round", async () => {
    const nobody = await closedPort();
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      ...fast,
      run: async (input: Mail, ctx) => {
        runs += 1;
        return post(nobody, input, ctx.key);
      },
    });
    expect(await send.attempt(mail)).toMatchObject({ status: "failed", final: false });
    expect(runs).toBe(4);
    await send.attempt(mail);
    expect(runs).toBe(8);
  });

  it("O4: a budget that ends first says when it may be tried again, and a later call does it at once", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs === 1) throw notSent(new Error("busy"), { retryAfter: "1h" });
        return runs;
      },
    });
    const first = await send.attempt(mail);
    expect(first).toMatchObject({ status: "failed", final: false });
    expect(first.status === "failed" && (first.retryAt ?? 0) > Date.now() + 3_000_000).toBe(true);
    expect(await send.status(mail)).toMatchObject({ status: "failed", final: false });
    expect(await send(mail)).toBe(2);
  });

  it("rejected: refused for good, remembered, never run again", async () => {
    const { nt } = open();
    const cause = new Error("no such customer");
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail): Promise<void> => {
        runs += 1;
        throw rejected(cause);
      },
    });
    await expect(send(mail)).rejects.toBe(cause);
    expect(outcomeOf(cause)).toMatchObject({ status: "failed", final: true });
    const again = await send(mail).catch((error) => error);
    expect(again).toMatchObject({ code: "FAILED", cause: { message: "no such customer" } });
    expect(runs).toBe(1);
  });

  it("the user's own error is thrown as it came, with the outcome reachable", async () => {
    const { nt } = open();
    const own = Object.assign(new Error("422"), { status: 422, body: { why: "no" } });
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail): Promise<void> => {
        throw own;
      },
    });
    const thrown = await send(mail).catch((error) => error);
    expect(thrown).toBe(own);
    expect(outcomeOf(thrown)).toMatchObject({ status: "failed", final: false, error: own });
    expect(outcomeOf(new Error("another"))).toBeUndefined();
    expect(outcomeOf("text")).toBeUndefined();
  });

  it("prepare: whatever it throws was surely not sent; rejected is final", async () => {
    const { nt, record } = open();
    let prepared = 0;
    let sent = 0;
    const send = nt.action("mail", {
      key: ["to"],
      ...fast,
      prepare: async (input: Mail) => {
        prepared += 1;
        if (input.to === "b") throw rejected(new Error("blocked"));
        if (prepared < 3) throw new Error("any bug at all");
        return { draft: prepared };
      },
      run: async (_input, _ctx, draft) => ({ sent: ++sent, ...draft }),
    });
    expect(await send.attempt(mail)).toMatchObject({ status: "done", attempt: 3, result: { sent: 1, draft: 3 } });
    const refused = await send.attempt({ to: "b" });
    expect(refused).toMatchObject({ status: "failed", final: true });
    expect(await record(refused.key)).toMatchObject({ state: "failed", firstSentAt: null });
    expect(sent).toBe(1);
  });

  it("prepare that takes too long was not sent either", async () => {
    const { nt } = open();
    let tries = 0;
    const send = nt.action("mail", {
      key: ["to"],
      timeout: 25,
      retry: { attempts: 2, backoff: "1ms" },
      prepare: () => (++tries === 1 ? new Promise<string>(() => {}) : "draft"),
      run: async (_mail: Mail, _ctx, draft) => draft,
    });
    expect(await send.attempt(mail)).toMatchObject({ status: "done", attempt: 2, result: "draft" });
  });

  it("F21: the draft is stored with the mark, and a resend uses it instead of making another", async () => {
    const { nt } = open();
    let prepared = 0;
    const drafts: unknown[] = [];
    const send = nt.action("mail", {
      key: ["to"],
      doubt: { resendWithin: "1h" },
      ...fast,
      prepare: async () => ({ text: `draft ${++prepared}` }),
      run: async (_mail: Mail, _ctx, draft) => {
        drafts.push(draft);
        if (drafts.length === 1) throw new Error("reply lost");
        return draft.text;
      },
    });
    expect(await send(mail)).toBe("draft 1");
    expect(drafts).toEqual([{ text: "draft 1" }, { text: "draft 1" }]);
  });

  it("a draft that cannot be stored is not resent under a provider's key, but made again where asked to retry", async () => {
    for (const [doubt, outcome] of [
      [{ resendWithin: "1h" }, { status: "unknown", attempt: 1 }],
      ["retry", { status: "done", attempt: 2, result: 2n }],
    ] as const) {
      const { nt } = open();
      let prepared = 0;
      const send = nt.action("mail", {
        key: ["to"],
        doubt,
        ...fast,
        prepare: async () => ({ amount: BigInt(++prepared) }),
        run: async (_mail: Mail, _ctx, draft) => {
          if (prepared === 1) throw new Error("reply lost");
          return draft.amount;
        },
      });
      expect(await send.attempt(mail)).toMatchObject(outcome);
    }
  });
});
