/** K10, D7: who claims from outside knows no former keys. The aliases that programs leave lead it to the one record. */
import { email, notSent } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { operations } from "../../test/support/served.ts";

interface Mail {
  readonly lead: string;
  readonly to: string;
}

const input: Mail = { lead: "l1", to: "ann@example.com" };
const CLAIM = { action: "send", parts: ["l1", "ann@example.com"], input };
const NEW = { key: { lead: true, to: email }, formerly: { key: ["to", "lead"] } } as const;
const signed = { by: "ada", reason: "the provider's log" };

eachStore("K10: attempts made outside of a program with former keys", (open) => {
  const start = (options = {}) => {
    const bench = open(options);
    const { ask } = operations(bench.store, options);
    const program = (run: () => Promise<string>) =>
      bench.another(options).action<Mail, string>("send", { ...NEW, run, retry: { attempts: 1 } });
    return { ...bench, ask, program };
  };
  const refused = async () => Promise.reject(notSent(new Error("down")));
  const lost = async () => Promise.reject(new Error("no answer"));

  it("what the program has done is done for a claim and for status, by parts and by key", async () => {
    const { ask, program } = start();
    const { key } = await program(async () => "m1").attempt(input);
    expect(await ask("claim", CLAIM)).toMatchObject({ status: "done", result: "m1", replayed: true });
    expect(await ask("status", { action: "send", parts: CLAIM.parts })).toMatchObject({ status: "done", key });
  });

  it.each([{}, { encrypt: Buffer.alloc(32, 1), secret: "s".repeat(32) }])(
    "what failed there is claimed there, once, and its settlement is the program's result (%#)",
    async (options) => {
      const { ask, program, record } = start(options);
      const { key } = await program(refused).attempt(input);
      const claim = { ...CLAIM, request: "r-1" };
      const claimed = await ask("claim", claim);
      expect(claimed).toMatchObject({ status: "claimed", key, providerKey: key });
      expect(await ask("claim", claim)).toMatchObject({ status: "claimed", again: true, token: claimed.token });
      expect(await ask("claim", { ...CLAIM, request: "r-2" })).toMatchObject({ status: "in_flight" });
      await ask("heartbeat", { token: claimed.token });
      expect(await ask("settle", { token: claimed.token, as: "done", result: "m7" })).toMatchObject({ status: "done" });
      expect(await record(key)).toMatchObject({ state: "confirmed", attempt: 2 });
      expect(await program(async () => "again")(input)).toBe("m7");
    },
  );

  it("a doubt is held, and resolved by either key", async () => {
    const { ask, program } = start();
    const send = program(lost);
    const { key } = await send.attempt(input);
    expect(await ask("claim", CLAIM)).toMatchObject({ status: "unknown", key });
    const alias = (await ask("status", { action: "send", parts: CLAIM.parts })).key;
    expect(await ask("resolve", { key: alias, as: "done", result: "m0", ...signed })).toMatchObject({ status: "done" });
    expect(await send(input)).toBe("m0");
  });

  it("queued by the program: taken once, and enqueued from outside it is the same work", async () => {
    const { ask, program } = start();
    const send = program(async () => "here");
    const { key } = await send.enqueue(input);
    expect(await ask("enqueue", CLAIM)).toMatchObject({ status: "queued", key });
    const { work } = await ask("take", { actions: ["send"], limit: 5 });
    expect(work).toMatchObject([{ key, input }]);
    await ask("settle", { token: work[0].token, as: "done", result: "m9" });
    expect(await send(input)).toBe("m9");
  });
});
