import { day, type EngineEvent, nevertwice, type } from "nevertwice";
import { describe, expect, it } from "vitest";
import { openMemory } from "../../test/support/each-store.ts";

interface Mail {
  to: string;
  template: string;
}
const mail = { to: "a", template: "welcome" };

describe("the key of a call", () => {
  const action = (options = {}) => {
    const { nt } = openMemory(options);
    let runs = 0;
    return nt.action("mail", { key: ["to", "template"], run: async (_mail: Mail) => ++runs });
  };

  it("K1: the order of the fields does not matter, nor does a field outside of the key", async () => {
    const send = action();
    expect(await send.keyOf({ template: "welcome", to: "a" })).toBe(await send.keyOf(mail));
  });

  it("K2: version, scope and tenant each make another intent; the same ones the same", async () => {
    const send = action();
    const all = [{}, { version: 2 }, { scope: "run-1" }, { scope: "run-2" }, { tenant: "acme" }];
    const results = [];
    for (const options of [...all, ...all]) results.push(await send(mail, options));
    expect(results).toEqual([1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
  });

  it("K2: the tenant of nevertwice() is every call's, unless it names another", async () => {
    const [acme, plain] = [action({ tenant: "acme" }), action()];
    expect(await acme.keyOf(mail)).toBe(await plain.keyOf(mail, { tenant: "acme" }));
    expect(await acme.keyOf(mail, { tenant: "globex" })).not.toBe(await acme.keyOf(mail));
  });

  it("K6: a secret changes every key, and the same secret gives the same keys", async () => {
    const secret = "correct horse battery staple";
    expect(await action({ secret }).keyOf(mail)).toBe(await action({ secret }).keyOf(mail));
    expect(await action({ secret }).keyOf(mail)).not.toBe(await action().keyOf(mail));
  });

  it("K4: windows name the slot, so that the same day is the same intent", async () => {
    const { nt } = openMemory();
    let runs = 0;
    const digest = nt.action("digest", {
      key: (i: { user: string; at: string }) => [i.user, day(i.at)],
      free: ["at"],
      run: async () => ++runs,
    });
    expect(await digest({ user: "u", at: "2026-01-15T08:00:00Z" })).toBe(1);
    expect(await digest({ user: "u", at: "2026-01-15T20:00:00Z" })).toBe(1);
    expect(await digest({ user: "u", at: "2026-01-16T00:00:00Z" })).toBe(2);
  });

  it("an empty, missing or async key is refused, and nothing is run", async () => {
    const { nt } = openMemory();
    let runs = 0;
    const run = async () => ++runs;
    const refused: [string, Promise<unknown>][] = [
      ["a", nt.action("a", { input: type<Mail>(), key: ["to"], run })({ to: "" } as Mail)],
      ["b", nt.action("b", { input: type<Mail>(), key: ["to"], run })({} as Mail)],
      ["c", nt.action("c", { key: () => [], run })(mail)],
      ["d", nt.action("d", { key: (async () => ["x"]) as unknown as () => string[], run })(mail)],
      ["e", nt.action("e", { run })(undefined as unknown as Mail)],
      ["f", nt.once("f", [""], run)],
    ];
    for (const [, call] of refused) await expect(call).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(runs).toBe(0);
  });
});

describe("K6: what may be seen", () => {
  it("no key part, input, draft or result is in an event, a warning, or an error of ours", async () => {
    const secret = "ana@example.org";
    const heard: EngineEvent[] = [];
    const warned: unknown[] = [];
    const nt = nevertwice({ store: "memory:", sweep: false, onWarning: (warning) => warned.push(warning) });
    nt.on((event) => heard.push(event));
    let runs = 0;
    const send = nt.action("pay", {
      key: (i: { to: string; n: number; at: number }) => [i.to, i.at],
      keep: "1h",
      prepare: async () => ({ secret }),
      run: async (input) => {
        runs += 1;
        if (runs === 1) throw new Error(`reset while sending to ${input.to}`);
        return new Map([[secret, secret]]);
      },
    });
    const input = { to: secret, n: 1, at: Date.now() };
    const errors = [await send(input).catch((error) => error), await send({ ...input, n: 2 }).catch((e) => e)];
    await nt.resolve({ key: await send.keyOf(input) }, { as: "not-done", by: "ops", reason: "checked" });
    await send(input);
    await send(input);
    const messages = errors.map((error: Error) => error.message);
    expect(messages).toHaveLength(2);
    expect(warned.length).toBeGreaterThan(1);
    expect(JSON.stringify([heard, warned, messages])).not.toContain(secret);
    await nt.close();
  });
});
