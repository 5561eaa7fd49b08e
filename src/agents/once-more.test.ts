/** "Once more": a model asks, a person grants, and the next identical call runs as the next version, once. */
import { guardTool, onceMoreTool } from "nevertwice/agents";
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const mail = { to: "ada" };
const kim = { by: "kim", reason: "she lost it" };

type Opened = ReturnType<typeof openMemory>["nt"];

function sending(nt: Opened, sent: string[], options: object = {}) {
  return guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1", ...options }, async ({ to }: { to: string }) =>
    sent.push(to),
  );
}

async function referenceOf(nt: Opened): Promise<string> {
  const { items } = await nt.store.list({ action: "send_mail", limit: 10 });
  return items[0]?.record.key as string;
}

eachStore("once more", (open) => {
  it("a grant lets the next identical call run as version 2, audited; then it is once again", async () => {
    const { nt, record } = open();
    const sent: string[] = [];
    const send = sending(nt, sent);
    expect(await send(mail, undefined)).toBe(1);
    const key = await referenceOf(nt);
    const granted = await nt.grantOnceMore({ key }, kim);
    expect(granted).toEqual({ key, action: "send_mail", version: 1, state: "granted", ...kim, unchanged: false });
    // A double click is one grant.
    expect(await nt.grantOnceMore({ key }, { by: "bob", reason: "too" })).toMatchObject({ ...kim, unchanged: true });
    expect(sent).toHaveLength(1);
    const again = await send.answer(mail, undefined);
    expect(again).toEqual({ kind: "result", result: 2, note: null });
    const repeat = await send.answer(mail, undefined);
    expect(repeat).toMatchObject({ kind: "result", result: 2, note: expect.stringMatching(/^Already done at/) });
    expect(sent).toHaveLength(2);
    const { items } = await nt.store.list({ action: "send_mail", limit: 10 });
    const second = items.find((one) => one.record.version === 2)?.record;
    expect(second).toMatchObject({ scope: "s1", state: "confirmed", history: [expect.objectContaining(kim)] });
    expect((await record(key)).version).toBe(1);
    expect(await nt.prevented()).toMatchObject({ prevented: 1 });
  });

  it("follows to the latest version: granted again by the first reference, it runs a third time", async () => {
    const { nt, another } = open();
    const sent: string[] = [];
    await sending(nt, sent)(mail, undefined);
    const { items } = await nt.store.list({ action: "send_mail", limit: 10 });
    const key = items[0]?.record.key as string;
    for (let version = 2; version < 5; version += 1) {
      const decided = await nt.grantOnceMore({ key }, kim);
      expect(decided.version).toBe(version - 1);
      // Any program on the ledger, after any restart.
      const send = sending(another(), sent);
      for (let call = 0; call < 3; call += 1) expect(await send(mail, undefined)).toBe(version);
    }
    expect(sent).toHaveLength(4);
  });

  it("ten identical calls at once after a grant run it once", async () => {
    const { nt, another } = open();
    const sent: string[] = [];
    await sending(nt, sent)(mail, undefined);
    await nt.grantOnceMore({ key: await referenceOf(nt) }, kim);
    const programs = [nt, another(), another()].map((one, i) => (i === 0 ? sending(nt, sent) : sending(one, sent)));
    const calls = programs.flatMap((send) => Array.from({ length: 4 }, () => send(mail, undefined)));
    expect(new Set(await Promise.all(calls))).toEqual(new Set([2]));
    expect(sent).toHaveLength(2);
  });

  it("a model asks once; people see it, and deny or grant it; the model is told each", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const send = sending(nt, sent);
    await send(mail, undefined);
    const key = await referenceOf(nt);
    const tool = onceMoreTool(nt, { scope: "s1", agent: "mailer" });
    const ask = (reason: string) => tool.execute({ reference: key, reason });
    expect(await ask("the user wants a second copy")).toMatch(
      /^Your request is noted, and nothing was run\. Only a person/,
    );
    expect(await ask("really")).toMatch(/^It has been asked for already/);
    const waiting = await nt.onceMoreRequests();
    expect(waiting).toMatchObject([
      { key, action: "send_mail", version: 1, scope: "s1", agent: "mailer", reason: "the user wants a second copy" },
    ]);
    await send(mail, undefined);
    expect(sent).toHaveLength(1);
    await nt.denyOnceMore({ key }, { by: "kim", reason: "one is enough" });
    expect(await nt.onceMoreRequests()).toEqual([]);
    expect(await ask("please")).toMatch(/^A person has denied it \(one is enough\)\. It is not run again/);
    await send(mail, undefined);
    expect(sent).toHaveLength(1);
    await nt.grantOnceMore({ key }, kim);
    expect(await ask("please")).toMatch(/^A person has granted it: the next identical call runs once more/);
    await nt.denyOnceMore({ key }, kim);
    await send(mail, undefined);
    expect(sent).toHaveLength(1);
    await nt.grantOnceMore({ key }, kim);
    await send(mail, undefined);
    expect(sent).toHaveLength(2);
    // About the latest version: a new request.
    expect(await ask("and another")).toMatch(/^Your request is noted/);
    expect(await nt.onceMoreRequests()).toMatchObject([{ version: 2 }]);
  });

  it("another session, another tenant and a made-up reference learn nothing and ask for nothing", async () => {
    const { another } = open();
    const [acme, globex] = [another({ tenant: "acme" }), another({ tenant: "globex" })];
    await sending(acme, [])(mail, undefined);
    const reference = await referenceOf(acme);
    const told = (nt: Opened, scope?: string) =>
      onceMoreTool(nt, scope === undefined ? {} : { scope }).execute({ reference, reason: "x" });
    for (const answer of [await told(globex), await told(acme, "s2")]) expect(answer).toMatch(/^Not known/);
    await expect(globex.grantOnceMore({ key: reference }, kim)).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(await acme.onceMoreRequests()).toEqual([]);
    await told(acme, "s1");
    expect(await globex.onceMoreRequests()).toEqual([]);
    expect(await acme.onceMoreRequests()).toHaveLength(1);
  });

  it("what is not done cannot be asked for or granted", async () => {
    const { nt } = open();
    const failing = guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1" }, async (_: typeof mail) => {
      throw new Error("socket hang up");
    });
    await failing.answer(mail, undefined);
    const reference = await referenceOf(nt);
    const tool = onceMoreTool(nt);
    expect(await tool.execute({ reference, reason: "x" })).toMatch(/^Not possible: .*It may have happened/);
    await expect(nt.grantOnceMore({ key: reference }, kim)).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(await nt.onceMoreRequests()).toEqual([]);
    expect(await tool.execute({ reference: "hello", reason: "x" })).toMatch(/^That is no reference/);
    expect(await tool.execute({ reference })).toMatch(/^Give a reason/);
  });

  it("a version that fails is not granted away: it may be tried again, and is once when it is done", async () => {
    const { nt } = open();
    const sent: string[] = [];
    let broken = true;
    const send = guardTool(
      nt,
      { name: "send_mail", key: ["to"], scope: "s1", errors: "not-done" },
      async ({ to }: { to: string }) => {
        if (sent.length > 0 && broken) throw new Error("no such address");
        return sent.push(to);
      },
    );
    await send(mail, undefined);
    await nt.grantOnceMore({ key: await referenceOf(nt) }, kim);
    await expect(send(mail, undefined)).rejects.toThrow("no such address");
    broken = false;
    expect(await send(mail, undefined)).toBe(2);
    expect(await send(mail, undefined)).toBe(2);
    expect(sent).toHaveLength(2);
  });

  it("the first version is kept as long as the second, so that it is not run as a first one again", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const send = sending(nt, sent, { keep: "10d" });
    await send(mail, undefined);
    const key = await referenceOf(nt);
    clock.advance(9 * DAY);
    await nt.grantOnceMore({ key }, kim);
    await send(mail, undefined);
    clock.advance(9 * DAY);
    await nt.sweep();
    expect(await send(mail, undefined)).toBe(2);
    expect(sent).toHaveLength(2);
    clock.advance(3 * DAY);
    await send(mail, undefined);
    expect(sent).toHaveLength(3);
  });

  it("a grant that was not used is over with its record: the call after it is made once", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const send = sending(nt, sent, { keep: "1d" });
    await send(mail, undefined);
    await nt.grantOnceMore({ key: await referenceOf(nt) }, kim);
    clock.advance(2 * DAY);
    for (let call = 0; call < 3; call += 1) expect(await send(mail, undefined)).toBe(2);
  });

  it.each([
    ["is run again after its own keep", 2 * DAY],
    ["is in doubt", 0],
  ])("the first version is kept for as long as a second one that %s", async (_, later) => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const send = guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1", keep: "2d" }, ({ to }: typeof mail) => {
      sent.push(to);
      if (sent.length === 2 && later === 0) throw new Error("socket hang up");
      return sent.length;
    });
    await send(mail, undefined);
    await nt.grantOnceMore({ key: await referenceOf(nt) }, kim);
    await send.answer(mail, undefined);
    if (later > 0) {
      clock.advance(later + DAY / 2);
      expect(await send(mail, undefined)).toBe(3);
    }
    const before = sent.length;
    clock.advance(later === 0 ? 4 * DAY : DAY);
    await nt.sweep();
    const answer = await send.answer(mail, undefined);
    expect(answer).toMatchObject(later === 0 ? { kind: "refused" } : { kind: "result", result: 3 });
    expect(sent).toHaveLength(before);
  });

  it("a tool that is guarded twice runs its second version once", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const inner = sending(nt, sent);
    const outer = guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1" }, (to: typeof mail) =>
      inner(to, undefined),
    );
    await outer(mail, undefined);
    await nt.grantOnceMore({ key: await referenceOf(nt) }, kim);
    expect([await outer(mail, undefined), await outer(mail, undefined)]).toEqual([2, 2]);
    expect(sent).toHaveLength(2);
  });
});

describe("onceMoreTool", () => {
  it("says what is wrong with its options", () => {
    const { nt } = openMemory();
    expect(() => onceMoreTool({} as never)).toThrow(/what nevertwice\(\) returned/);
    expect(() => onceMoreTool(nt, { scope: undefined } as never)).toThrow(/scope is undefined/);
    expect(() => onceMoreTool(nt, { session: "x" } as never)).toThrow(/no option "session"/);
  });

  it("keeps a long reason in part, and no password of it", async () => {
    const { nt } = openMemory();
    await sending(nt, [])(mail, undefined);
    const reason = `postgres://ada:hunter2@db/x ${"very ".repeat(1_000)}`;
    await onceMoreTool(nt).execute({ reference: await referenceOf(nt), reason });
    const [request] = await nt.onceMoreRequests();
    expect(request?.reason.length).toBe(500);
    expect(request?.reason).not.toContain("hunter2");
  });
});
