import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

interface Mail {
  readonly to: string;
}

eachStore("A6: from a provider's id to the intent", (open) => {
  it("finds every intent with it, with its input, agent and outcome", async () => {
    const { nt } = open({ agent: "bot" });
    const run = ({ to }: Mail) => ({ messageId: to === "eve" ? "<other@x>" : "<one@x>" });
    const mail = nt.action("mail", { key: ["to"], run });
    await mail({ to: "ada" }, { scope: "run-1" });
    await mail({ to: "eve" });
    await nt.action("copy", { key: ["to"], run })({ to: "bob" });
    const found = await nt.find({ providerId: "one@x" });
    expect(found.map(({ action, input }) => [action, input])).toEqual(
      expect.arrayContaining([
        ["mail", { to: "ada" }],
        ["copy", { to: "bob" }],
      ]),
    );
    expect(found).toHaveLength(2);
    const [one] = await nt.find({ providerId: "<one@x>", action: "mail" });
    expect(one).toMatchObject({
      key: await mail.keyOf({ to: "ada" }, { scope: "run-1" }),
      agent: "bot",
      scope: "run-1",
      outcome: { status: "done", result: { messageId: "<one@x>" }, replayed: true },
    });
    expect(await nt.find({ providerId: "none" })).toEqual([]);
  });

  it("by the action's own rule where it has one, and never fails a call for it", async () => {
    const warnings: string[] = [];
    const { nt, record } = open({ onWarning: ({ code }) => warnings.push(code) });
    const named = nt.action("named", {
      key: ["to"],
      resultId: ({ charge }) => charge,
      run: ({ to }: Mail) => ({ id: "not this", charge: to === "eve" ? undefined : "ch_1" }),
    });
    await named({ to: "ada" });
    const none = await named.attempt({ to: "eve" });
    expect(await nt.find({ providerId: "ch_1" })).toHaveLength(1);
    expect((await record(none.key)).providerId).toBeNull();
    expect(warnings).toEqual([]);
    const throwing = nt.action("throwing", {
      key: ["to"],
      resultId: () => {
        throw new TypeError("bob@example.com");
      },
      run: (_: Mail) => ({ id: "x" }),
    });
    expect(await throwing({ to: "ada" })).toEqual({ id: "x" });
    const odd = nt.action("odd", { key: ["to"], resultId: () => "two words", run: (_: Mail) => "sent" });
    expect(await odd({ to: "ada" })).toBe("sent");
    expect(warnings).toEqual(["RESULT_ID", "RESULT_ID"]);
    expect(() => nt.action("bad", { resultId: "id" as never, run: () => 1 })).toThrow(/resultId must be a function/);
  });

  it("applies the action's rule to a result that a person gives, and to one that a probe finds", async () => {
    const { nt } = open();
    const doubtful = nt.action("charge", {
      key: ["to"],
      wait: 0,
      resultId: ({ charge }: { charge: string }) => charge,
      run: (_: Mail): { charge: string } => {
        throw new Error("no answer");
      },
    });
    const { key } = await doubtful.attempt({ to: "ada" });
    await nt.resolve({ key }, { as: "done", result: { charge: "ch_7" }, by: "ana", reason: "looked" });
    expect((await nt.find({ providerId: "ch_7" })).map((one) => one.key)).toEqual([key]);
    const probed = nt.action("probed", {
      key: ["to"],
      doubt: { probe: () => ({ as: "done" as const, result: { id: "ch_8" } }), quietFor: 0 },
      run: (_: Mail): { id: string } => {
        throw new Error("no answer");
      },
    });
    await probed({ to: "ada" });
    expect(await nt.find({ providerId: "ch_8" })).toHaveLength(1);
  });

  it("keeps to its tenant", async () => {
    const { nt, another } = open({ tenant: "acme" });
    const options = { key: ["to"] as const, run: (_: Mail) => ({ id: "msg_1" }) };
    await nt.action("mail", options)({ to: "ada" });
    const globex = another({ tenant: "globex" });
    await globex.action("mail", options)({ to: "ada" });
    expect((await nt.find({ providerId: "msg_1" })).map(({ tenant }) => tenant)).toEqual(["acme"]);
    await expect(nt.find({ providerId: "msg_1", tenant: "globex" })).rejects.toThrow(/confined to "acme"/);
    expect(await another({ tenant: "acme", tenants: "all" }).find({ providerId: "msg_1" })).toHaveLength(2);
    expect(await another().find({ providerId: "msg_1", tenant: "globex" })).toHaveLength(1);
  });

  it("with encrypt the ledger holds a digest: found with the keys, also after a rotation, and not without", async () => {
    const [old, fresh] = [randomBytes(32), randomBytes(32)];
    const { nt, another, record } = open({ encrypt: old, secret: "s".repeat(32) });
    const options = { key: ["to"] as const, run: ({ to }: Mail) => ({ id: `msg_${to}` }) };
    const { key } = await nt.action("mail", options).attempt({ to: "ada" });
    expect(JSON.stringify(await record(key))).not.toContain("msg_ada");
    expect(await nt.find({ providerId: "msg_ada" })).toMatchObject([{ key, input: { to: "ada" } }]);
    const rotated = another({ encrypt: [fresh, old], secret: "s".repeat(32) });
    await rotated.action("mail", options)({ to: "bob" });
    expect(await rotated.find({ providerId: "msg_ada" })).toHaveLength(1);
    expect(await rotated.find({ providerId: "msg_bob" })).toHaveLength(1);
    expect(await another({ encrypt: fresh, secret: "s".repeat(32) }).find({ providerId: "msg_ada" })).toEqual([]);
    expect(await another().find({ providerId: "msg_ada" })).toEqual([]);
  });

  it("what is past its keep is not found, and a new version is found beside the old one", async () => {
    const { nt, clock } = open();
    const mail = nt.action("mail", { key: ["to"], keep: "1d", run: (_: Mail) => ({ id: "same" }) });
    await mail({ to: "ada" });
    await mail.resend({ to: "ada" }, { by: "ana", reason: "lost" });
    expect((await nt.find({ providerId: "same" })).map(({ version }) => version).sort()).toEqual([1, 2]);
    clock.advance(3 * 86_400_000);
    expect(await nt.find({ providerId: "same" })).toEqual([]);
  });

  it("more than a page of them", async () => {
    const { nt } = open();
    const mail = nt.action("mail", { key: ["to"], run: (_: Mail) => ({ id: "same" }) });
    await Promise.all(Array.from({ length: 450 }, (_, i) => mail({ to: `t${i}` })));
    expect(await nt.find({ providerId: "same" })).toHaveLength(450);
  });

  it.each([undefined, null, "", "two words", 7, {}])("refuses %j", async (providerId) => {
    const { nt } = open();
    await expect(nt.find({ providerId } as never)).rejects.toThrow(/find\(\): providerId is .*1 to 255 characters/);
  });

  it("refuses options that are none", async () => {
    const { nt } = open();
    await expect(nt.find({ providerId: "a", resultId: "b" } as never)).rejects.toThrow(/resultId/);
    await expect(nt.find(undefined as never)).rejects.toThrow(/find\(\) takes an object: find\(\{ providerId/);
  });
});
