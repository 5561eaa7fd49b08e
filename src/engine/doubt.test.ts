import { expect, it } from "vitest";
import { z } from "zod";
import { eachStore, kinds, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { type Provider, startProvider } from "../../test/support/provider.ts";

interface Mail {
  to: string;
  body: string;
}
const fast = { retry: { attempts: 5, backoff: "1ms", max: "5ms" } } as const;

eachStore("doubt", (open) => {
  const honest = (nt: ReturnType<typeof open>["nt"], provider: Provider) =>
    nt.action("mail", {
      key: ["to"],
      free: ["body"],
      doubt: { resendWithin: "24h" },
      ...fast,
      run: async (input: Mail, ctx) => provider.send(input, ctx.key),
    });

  it("F21 O5: reply lost, provider honours keys: sent again with the same key and bytes, effect once", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt, events } = open();
    const outcome = await honest(nt, provider).attempt({ to: "a", body: "hello" });
    expect(outcome).toMatchObject({ status: "done", attempt: 2, result: { id: "msg_1" } });
    expect(provider.effects).toHaveLength(1);
    expect(provider.requests).toHaveLength(2);
    expect(provider.requests[1]).toEqual(provider.requests[0]);
    expect(kinds(events)).toEqual(["unknown", "executed"]);
  });

  it("F21 K3: a later call with a reworded free field resends the first bytes, not its own", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt } = open();
    const send = honest(nt, provider);
    expect(await send.attempt({ to: "a", body: "Dear Ana" }, { wait: 0 })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ to: "a", body: "Hi Ana" })).toMatchObject({ status: "done", attempt: 2 });
    expect(provider.effects).toEqual([JSON.stringify({ to: "a", body: "Dear Ana" })]);
    expect(provider.requests[1]).toEqual(provider.requests[0]);
  });

  it("F21 G3: reply lost and nothing said about it: unknown, held, never run again by itself", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt, clock } = open();
    const send = nt.action("mail", { key: ["to"], ...fast, run: async (i: Mail, ctx) => provider.send(i, ctx.key) });
    const first = await send.attempt({ to: "a", body: "" });
    expect(first).toMatchObject({ status: "unknown", attempt: 1 });
    clock.advance(400 * 86_400_000);
    expect(await send.attempt({ to: "a", body: "" })).toMatchObject({ status: "unknown", attempt: 1 });
    await expect(send({ to: "a", body: "" })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await nt.sweep();
    expect(provider.requests).toHaveLength(1);
  });

  it("F23: a 500 after the effect is doubt; the resend gets the first answer", async () => {
    const provider = await startProvider();
    provider.plan("500-after-effect");
    const { nt } = open();
    expect(await honest(nt, provider)({ to: "a", body: "" })).toEqual({ id: "msg_1" });
    expect(provider.effects).toHaveLength(1);
  });

  it("F23: a provider that repeats its cached 500 leaves the doubt standing: no fresh key, bounded tries", async () => {
    const provider = await startProvider();
    provider.plan("500-cached");
    const { nt } = open();
    const outcome = await honest(nt, provider).attempt({ to: "a", body: "" });
    expect(outcome).toMatchObject({ status: "unknown", attempt: 5 });
    expect(provider.effects).toHaveLength(1);
    expect(new Set(provider.requests.map((one) => one.key)).size).toBe(1);
    expect(provider.requests).toHaveLength(5);
  });

  it("F23: 409 in progress is doubt: same key again after a pause", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect", "409", "409");
    const { nt } = open();
    expect(await honest(nt, provider)({ to: "a", body: "" })).toEqual({ id: "msg_1" });
    expect(provider.requests.map((one) => one.key)).toEqual(Array(4).fill(provider.requests[0]?.key));
    expect(provider.effects).toHaveLength(1);
  });

  it("F24: the provider's window is over: not sent again, held", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt, clock } = open();
    const send = honest(nt, provider);
    await send.attempt({ to: "a", body: "" }, { wait: 0 });
    clock.advance(24 * 3_600_000);
    expect(await send.attempt({ to: "a", body: "" })).toMatchObject({ status: "unknown", attempt: 1 });
    await nt.sweep();
    expect(provider.requests).toHaveLength(1);
  });

  it("F24: the window is over and there is a probe: asked instead of sent", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt, clock } = open();
    const send = nt.action("mail", {
      key: ["to"],
      ...fast,
      doubt: {
        resendWithin: "24h",
        quietFor: "2m",
        probe: async () => ({ as: "done", result: { id: `found_${provider.effects.length}` } }) as const,
      },
      run: async (i: Mail, ctx) => provider.send(i, ctx.key),
    });
    await send.attempt({ to: "a", body: "" }, { wait: 0 });
    clock.advance(25 * 3_600_000);
    expect(await send({ to: "a", body: "" })).toEqual({ id: "found_1" });
    expect(provider.requests).toHaveLength(1);
  });

  it("F24: the window counts from the first send, not from the last", async () => {
    const provider = await startProvider();
    provider.plan("500-cached");
    const { nt, clock } = open();
    const send = honest(nt, provider);
    await send.attempt({ to: "a", body: "" }, { wait: 0 });
    clock.advance(23 * 3_600_000);
    await send.attempt({ to: "a", body: "" }, { wait: 0 });
    clock.advance(2 * 3_600_000);
    await send.attempt({ to: "a", body: "" }, { wait: 0 });
    expect(provider.requests).toHaveLength(2);
  });

  it("F21 F46: the stored input no longer fits the schema: the resend is not sent, and stays a doubt", async () => {
    const provider = await startProvider();
    provider.plan("drop-after-effect");
    const { nt, another } = open();
    await honest(nt, provider).attempt({ to: "a", body: "old" }, { wait: 0 });
    const newer = another().action("mail", {
      input: z.object({ to: z.string(), body: z.literal("new") }),
      key: ["to"],
      free: ["body"],
      doubt: { resendWithin: "24h" },
      run: async (input, ctx) => provider.send(input, ctx.key),
    });
    await expect(newer.attempt({ to: "a", body: "new" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect(await newer.status({ to: "a", body: "new" })).toMatchObject({ status: "unknown" });
    expect(provider.requests).toHaveLength(1);
  });

  it("doubt: retry, asked for by name, runs it again", async () => {
    const provider = await startProvider({ honoursKeys: false });
    provider.plan("drop-after-effect");
    const { nt } = open();
    const send = nt.action("mail", {
      key: ["to"],
      doubt: "retry",
      ...fast,
      run: async (i: Mail, ctx) => provider.send(i, ctx.key),
    });
    expect(await send({ to: "a", body: "" })).toEqual({ id: "msg_2" });
    expect(provider.effects).toHaveLength(2);
  });

  it("O4 G2: a resend that is refused or cannot connect leaves the earlier doubt standing", async () => {
    for (const refusal of [{ status: 422 }, { code: "ECONNREFUSED", syscall: "connect" }]) {
      const { nt, record } = open();
      let runs = 0;
      const send = nt.action("mail", {
        key: ["to"],
        doubt: { resendWithin: "24h" },
        ...fast,
        run: async (_input: Mail) => {
          runs += 1;
          throw runs === 1 ? new Error("reset in the middle") : Object.assign(new Error("no"), refusal);
        },
      });
      const outcome = await send.attempt({ to: "a", body: "" });
      expect(outcome).toMatchObject({ status: "unknown" });
      expect(await record(outcome.key)).toMatchObject({ state: "unknown", final: false });
      expect(runs).toBeGreaterThan(1);
    }
  });

  it("timeout: in doubt for the caller, and a success that comes late is confirmed", async () => {
    const { nt, events } = open();
    const answer = gate<string>();
    let aborted: unknown;
    const send = nt.action("mail", {
      key: ["to"],
      timeout: 300,
      run: async (_input: Mail, ctx) => {
        ctx.signal.addEventListener("abort", () => (aborted = ctx.signal.reason));
        return answer.opened;
      },
    });
    const first = await send.attempt({ to: "a", body: "" });
    expect(first).toMatchObject({ status: "unknown", why: "no answer within 300ms" });
    expect(aborted).toMatchObject({ name: "TimeoutError" });
    answer.open("m1");
    await until(async () => (await send.status({ to: "a", body: "" })).status === "done");
    expect(await send({ to: "a", body: "" })).toBe("m1");
    expect(events).toContainEqual(expect.objectContaining({ type: "settled", as: "done", how: "late-success" }));
  });

  it("an error nobody classified is doubt, and action() carries it as its cause", async () => {
    const { nt } = open();
    const odd = new Error("something");
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_input: Mail): Promise<void> => {
        throw odd;
      },
    });
    await expect(send({ to: "a", body: "" })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN", cause: odd });
  });

  it("OUTCOME_UNKNOWN says what the error said, in this call and in the next, without the values in it", async () => {
    const { nt } = open();
    const send = nt.action("mail", {
      key: ["to"],
      run: ({ to }: Mail): Promise<void> => Promise.reject(new Error(`invalid email ${to}`)),
    });
    for (let times = 0; times < 2; times += 1)
      await expect(send({ to: "ada@example.org", body: "" })).rejects.toThrow(
        "may or may not have happened (an error nobody classified (Error): invalid email …).",
      );
  });

  it("a classify of the action's own decides, and one that throws leaves doubt", async () => {
    const { nt } = open();
    const verdicts: Record<string, () => "not-sent" | "rejected" | "doubt" | undefined> = {
      a: () => "rejected",
      b: () => "doubt",
      c: () => {
        throw new Error("a bug in classify");
      },
    };
    const send = nt.action("mail", {
      key: ["to"],
      classify: (error) => verdicts[(error as Error).message]?.(),
      run: async (input: Mail): Promise<void> => {
        throw Object.assign(new Error(input.to), { status: input.to === "b" ? 422 : undefined });
      },
    });
    expect(await send.attempt({ to: "a", body: "" })).toMatchObject({ status: "failed", final: true });
    expect(await send.attempt({ to: "b", body: "" })).toMatchObject({ status: "unknown" });
    expect(await send.attempt({ to: "c", body: "" })).toMatchObject({ status: "unknown" });
  });
});

it("F21: a free field that is neither stored nor comparable cannot be resent as the same bytes", async () => {
  const { nt } = openMemory();
  const sent: bigint[] = [];
  const send = nt.action("pay", {
    key: ["to"],
    free: ["cents"],
    doubt: { resendWithin: "24h" },
    ...fast,
    run: async (input: { to: string; cents: bigint }): Promise<void> => {
      sent.push(input.cents);
      throw new Error("reply lost");
    },
  });
  await send.attempt({ to: "a", cents: 1n }, { wait: 0 });
  expect(await send.attempt({ to: "a", cents: 2n })).toMatchObject({ status: "unknown", attempt: 1 });
  expect(sent).toEqual([1n]);
});

it.each(["notsent", "", 7, true, {}, Promise.resolve("not-sent")])(
  "an answer of classify that it may not give (%j) is doubt, and a warning names the allowed ones",
  async (answer) => {
    const warned: { code: string; message: string }[] = [];
    const { nt } = openMemory({ onWarning: (warning) => warned.push(warning) });
    const send = nt.action("mail", {
      key: ["to"],
      classify: () => answer as never,
      run: async (_mail: Mail) => {
        throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
      },
    });
    expect(await send.attempt({ to: "a", body: "" })).toMatchObject({
      status: "unknown",
      why: expect.stringContaining("classify answered"),
    });
    expect(warned).toEqual([
      expect.objectContaining({
        code: "CLASSIFY_ANSWER",
        message: expect.stringMatching(/"not-sent", "refused", "rejected", "doubt", or undefined.*counts as "doubt"/),
      }),
    ]);
  },
);

it.each([undefined, null])("classify that answers %j leaves the error to the built-in rules", async (answer) => {
  const { nt } = openMemory();
  const send = nt.action("mail", {
    key: ["to"],
    retry: { attempts: 1 },
    classify: () => answer as never,
    run: async (_mail: Mail) => {
      throw Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    },
  });
  expect(await send.attempt({ to: "a", body: "" })).toMatchObject({ status: "failed", final: false });
});
