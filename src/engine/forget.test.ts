/** One record forgotten on purpose: what is left, what follows, and what is refused. */
import { describe, expect, it } from "vitest";
import { eachStore, kinds, type Open } from "../../test/support/each-store.ts";
import { forgottenEntries, forgottenNoteKey } from "../core/forgotten.ts";
import { instantOf } from "../core/store.ts";

const SIGNED = { by: "kim", reason: "asked to be erased, ticket 12" };
const PERSONAL = /ada|lovelace|draft-of|result-of|socket/i;

interface Mail {
  readonly id: string;
  readonly to: string;
}

function mails(open: Open, options: object = {}, policy: object = {}) {
  const bench = open(options);
  const sent: string[] = [];
  let fails: Error | null = null;
  const send = bench.nt.action("send", {
    key: ["id"],
    ...policy,
    prepare: async ({ to }: Mail) => `draft-of ${to}`,
    run: async ({ id, to }: Mail) => {
      if (fails !== null) throw fails;
      sent.push(id);
      return { id: `result-of ${to}` };
    },
  });
  const failing = (error: Error | null) => {
    fails = error;
  };
  const keyOf = (id: string) => send.keyOf({ id, to: "" });
  const notes = async (key: string) => {
    const [note] = await bench.store.read([forgottenNoteKey(key)]);
    return forgottenEntries(note?.record ?? null, instantOf(bench.store));
  };
  return { ...bench, send, sent, failing, keyOf, notes };
}

const ADA = { id: "1", to: "ada@lovelace.example" };

eachStore("forget", (open) => {
  it("nothing of the content is left, the next call runs, and a note says who, when and why", async () => {
    const { nt, send, sent, store, events, notes, clock } = mails(open);
    await send(ADA);
    const key = await send.keyOf(ADA);
    const [before] = await store.read([key]);
    expect(JSON.stringify(before)).toMatch(PERSONAL);

    expect(await nt.forget({ key }, SIGNED)).toMatchObject({
      key,
      action: "send",
      was: "confirmed",
      records: 1,
      ...SIGNED,
    });
    const { items } = await store.list({ limit: 10 });
    expect(JSON.stringify(items)).not.toMatch(PERSONAL);
    expect(await send.status(ADA)).toEqual({ status: "absent", key });
    expect(await notes(key)).toMatchObject([{ ...SIGNED, action: "send", was: "confirmed", at: expect.any(Number) }]);
    expect(kinds(events)).toContain("forgotten");

    expect(await send(ADA)).toEqual({ id: "result-of ada@lovelace.example" });
    expect(sent).toEqual(["1", "1"]);
    // What it replaced stays refused: its attempts count on.
    expect((await store.read([key]))[0]?.record.fence).toBeGreaterThan(before?.record.fence ?? 0);

    await nt.forget({ key }, { ...SIGNED, reason: "again" });
    expect((await notes(key)).map(({ reason }) => reason)).toEqual([SIGNED.reason, "again"]);
    await nt.sweep();
    expect(await store.read([key])).toEqual([null]);
    expect(await notes(key)).toHaveLength(2);
    clock.advance(366 * 86_400_000);
    await nt.sweep();
    expect((await store.list({ limit: 10 })).items).toEqual([]);
  });

  it("a repeat that was answered from memory is not, once it is forgotten: at once here, within a minute elsewhere", async () => {
    const { nt, send, sent, another, clock } = mails(open);
    const elsewhere: string[] = [];
    const other = another().action("send", {
      key: ["id"],
      run: async ({ id }: Mail) => {
        elsewhere.push(id);
        return { id };
      },
    });
    await send(ADA);
    for (const call of [send, send, other, other]) await call(ADA);
    const key = await send.keyOf(ADA);
    await nt.forget({ key }, SIGNED);
    await send(ADA);
    expect(sent).toEqual(["1", "1"]);
    await nt.forget({ key }, SIGNED);
    clock.advance(60_000);
    await other(ADA);
    expect(elsewhere).toEqual(["1"]);
  });

  it("asked twice, it is as it was; a key that was never there is an error; both sign", async () => {
    const { nt, send, keyOf } = mails(open);
    await send(ADA);
    const key = await keyOf("1");
    const first = await nt.forget({ key }, SIGNED);
    expect(await nt.forget({ key }, { by: "bob", reason: "too" })).toEqual({ ...first, records: 0 });
    await nt.sweep();
    expect(await nt.forget({ key }, { by: "bob", reason: "too" })).toEqual({ ...first, records: 0 });
    await expect(nt.forget({ key: await keyOf("9") }, SIGNED)).rejects.toMatchObject({ code: "INVALID_KEY" });
    await expect(nt.forget({ key }, { by: "kim" } as never)).rejects.toThrow(/forget: reason is missing/);
    await expect(nt.forget({ key }, { ...SIGNED, force: true } as never)).rejects.toThrow(/no option "force"/);
    await expect(nt.forget(ADA as never, SIGNED)).rejects.toThrow(
      /forget: its target is .*await action\.keyOf\(input\)/,
    );
  });

  it("an attempt under way is refused, and nothing is noted", async () => {
    const { nt, store, notes } = mails(open);
    let key = "";
    const slow = nt.action("slow", {
      key: ["id"],
      run: async (_input: { id: string }, ctx) => {
        key = ctx.key;
        return nt.forget({ key }, SIGNED).then(
          () => "forgotten",
          (error: Error) => error.message,
        );
      },
    });
    expect(await slow({ id: "1" })).toMatch(/forget: an attempt is still under way \(action slow, sent\)/);
    expect((await store.read([key]))[0]?.record.state).toBe("confirmed");
    expect(await notes(key)).toEqual([]);
  });

  it("a doubt is refused with what follows, and taken where that is said; so is a holder that fell silent", async () => {
    const { nt, send, failing, keyOf, sent, notes } = mails(open, {}, { wait: 0 });
    failing(new Error("socket hang up"));
    await send.attempt(ADA);
    const key = await keyOf("1");
    await expect(nt.forget({ key }, SIGNED)).rejects.toMatchObject({
      code: "OUTCOME_UNKNOWN",
      message: expect.stringMatching(/in doubt: it may have happened\. .*may happen twice\. .*--even-in-doubt/),
    });
    expect(await notes(key)).toEqual([]);
    expect(await nt.forget({ key }, { ...SIGNED, evenInDoubt: true })).toMatchObject({ was: "unknown" });
    failing(null);
    await send(ADA);
    expect(sent).toEqual(["1"]);
  });

  it("what failed, what waits for a call and what is past its keep is forgotten, payloads and all", async () => {
    const { nt, send, failing, keyOf, store, clock } = mails(open, {}, { keep: "1h", wait: 0, retry: { attempts: 1 } });
    failing(Object.assign(new Error("no route to lovelace"), { code: "ECONNREFUSED" }));
    await send.attempt(ADA);
    failing(null);
    await send({ id: "2", to: "ada@lovelace.example" });
    clock.advance(2 * 3_600_000);
    for (const id of ["1", "2"]) await nt.forget({ key: await keyOf(id) }, SIGNED);
    expect(JSON.stringify((await store.list({ limit: 10 })).items)).not.toMatch(PERSONAL);
  });

  it("queued work that is forgotten is not run, and what was behind it in its order goes on", async () => {
    const { nt, send, keyOf, sent } = mails(open);
    for (const id of ["1", "2", "3"]) await send.enqueue({ id, to: "ada" }, { orderKey: "ada" });
    // Those behind would take it for settled, and pass the first.
    await expect(nt.forget({ key: await keyOf("2") }, SIGNED)).rejects.toThrow(
      /it is in an order, and a record before it is not settled \(nt1_.*forget that one first/,
    );
    expect(await nt.forget({ key: await keyOf("1") }, SIGNED)).toMatchObject({ was: "pending" });
    await nt.sweep();
    await nt.worker().drain();
    expect(sent).toEqual(["2", "3"]);
    // Enqueued again, it is new work at the end.
    await send.enqueue({ id: "1", to: "ada" }, { orderKey: "ada" });
    await nt.worker().drain();
    expect(sent).toEqual(["2", "3", "1"]);
    expect(await nt.forget({ key: await keyOf("2") }, SIGNED)).toMatchObject({ was: "confirmed" });
  });

  it("a run is forgotten with its steps; a step alone is refused while its run is known", async () => {
    const { nt, store } = mails(open);
    const done: string[] = [];
    const onboard = () =>
      nt.run("onboard", "ada", async (run) => {
        for (const step of ["mail", "account"]) {
          await run.step(step, async () => {
            done.push(step);
            return `result-of ${step} for ada@lovelace.example`;
          });
        }
        return "result-of onboarding";
      });
    await onboard();
    await onboard();
    const records = (await store.list({ limit: 20 })).items.map(({ record }) => record);
    const run = records.find(({ action }) => action === "run:onboard");
    const step = records.find(({ action }) => action === "step:onboard");
    await expect(nt.forget({ key: step?.key ?? "" }, SIGNED)).rejects.toThrow(
      /it is a step of the run onboard, whose record is nt1_.*Forget the run, and its steps go with it/,
    );
    expect(await nt.forget({ key: run?.key ?? "" }, SIGNED)).toMatchObject({ records: 3, action: "run:onboard" });
    const left = (await store.list({ limit: 20 })).items.filter(
      ({ record }) => !record.action.startsWith("nevertwice."),
    );
    expect(JSON.stringify(left.map(({ record: { key, scope, ...rest } }) => rest))).not.toMatch(PERSONAL);
    expect(done).toEqual(["mail", "account"]);
    await onboard();
    expect(done).toEqual(["mail", "account", "mail", "account"]);
  });

  it("a run whose step is in doubt is refused as a whole, and nothing of it is gone", async () => {
    const { nt, store } = mails(open);
    const run = () =>
      nt.run("onboard", "ada", async (steps) => {
        await steps.step("mail", async () => "sent");
        await steps.step("account", async () => Promise.reject(new Error("socket hang up")), { wait: 0 } as never);
      });
    await expect(run()).rejects.toThrow();
    const { items } = await store.list({ limit: 20 });
    const key = items.find(({ record }) => record.action === "run:onboard")?.record.key ?? "";
    const before = JSON.stringify(await store.read(items.map(({ record }) => record.key)));
    await expect(nt.forget({ key }, SIGNED)).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(JSON.stringify(await store.read(items.map(({ record }) => record.key)))).toBe(before);
    expect(await nt.forget({ key }, { ...SIGNED, evenInDoubt: true })).toMatchObject({ records: 3 });
  });

  it("another tenant's record is a miss, and so is the note of it", async () => {
    const { nt, send, keyOf, another } = mails(open, { tenant: "acme" });
    await send(ADA);
    const key = await keyOf("1");
    const globex = another({ tenant: "globex" });
    await expect(globex.forget({ key }, SIGNED)).rejects.toMatchObject({ code: "INVALID_KEY" });
    await nt.forget({ key }, SIGNED);
    await nt.sweep();
    await expect(globex.forget({ key }, SIGNED)).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(await another().forget({ key }, SIGNED)).toMatchObject({ records: 0, by: "kim" });
  });

  it("with encrypt and secret, no key is needed; the note has neither", async () => {
    const options = { encrypt: Buffer.alloc(32, 7), secret: "s".repeat(32) };
    const { send, keyOf, another, store } = mails(open, options);
    await send(ADA);
    const key = await keyOf("1");
    await another().forget({ key }, SIGNED);
    const [left] = await store.read([key]);
    expect(left?.record).toMatchObject({
      input: null,
      draft: null,
      result: null,
      fingerprint: { guarded: "", fields: {} },
    });
    await send(ADA);
  });

  it("by an alias (formerly), the record behind it is forgotten, and the alias leads to nothing that guards", async () => {
    const bench = mails(open);
    const { nt, another, store } = bench;
    const define = (one: typeof nt, options: object) => {
      const sent: string[] = [];
      const run = async ({ id }: Mail) => sent.push(id);
      return { sent, mail: one.action<Mail, number>("mail", { ...options, run } as never) };
    };
    const old = define(nt, { key: ["id", "to"] });
    await old.mail(ADA);
    const now = another();
    const changed = define(now, { key: ["id"], formerly: { key: ["id", "to"] } });
    expect(await changed.mail(ADA)).toBe(1);
    const { items } = await store.list({ limit: 10, action: "mail" });
    const alias = items.find(({ record }) => record.agent === "nevertwice.alias")?.record.key ?? "";
    expect(await now.forget({ key: alias }, SIGNED)).toMatchObject({ records: 1, was: "confirmed" });
    expect(await changed.mail.status(ADA)).toMatchObject({ status: "absent" });
    await changed.mail(ADA);
    expect([old.sent, changed.sent]).toEqual([["1"], ["1"]]);
  });

  it("a note of the ledger's own is refused", async () => {
    const { nt, send, store } = mails(open);
    await send.enqueue(ADA, { orderKey: "ada" });
    const { items } = await store.list({ limit: 10, action: "nevertwice.line" });
    const key = items[0]?.record.key ?? "";
    await expect(nt.forget({ key }, SIGNED)).rejects.toThrow(/a note that the ledger keeps for itself/);
  });
});

describe("a late answer", () => {
  eachStore("of an attempt from before", (open) => {
    it("writes nothing into a record that was forgotten in doubt", async () => {
      const { nt, store, clock } = mails(open);
      let answer: (value: string) => void = () => {};
      let key = "";
      const slow = nt.action("slow", {
        key: ["id"],
        lease: "60s",
        timeout: "50s",
        run: (_input: { id: string }, ctx) => {
          key = ctx.key;
          return new Promise<string>((done) => {
            answer = done;
          });
        },
      });
      const call = slow.attempt({ id: "1" });
      while (key === "") await new Promise((soon) => setTimeout(soon, 5));
      // Its lease is over for everybody else.
      clock.advance(120_000);
      await nt.forget({ key }, { ...SIGNED, evenInDoubt: true });
      answer("result-of ada");
      await call.catch(() => {});
      expect(JSON.stringify(await store.read([key]))).not.toMatch(PERSONAL);
      expect(await nt.status({ key })).toMatchObject({ status: "absent" });
    });
  });
});
