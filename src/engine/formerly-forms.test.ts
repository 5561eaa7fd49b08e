/** K10 with a normal form: records that were made under the former key have the spelling that they were made with. */
import { randomBytes } from "node:crypto";
import { type ActionOptions, email, type NevertwiceOptions } from "nevertwice";
import { describe, expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";

interface Mail {
  readonly to: string;
  readonly plan: string;
  readonly body?: string;
  readonly cc?: string;
}

type Options = Partial<ActionOptions<Mail, string>>;

const OLD: Options = { key: ["to", "plan"], free: ["body"] };
const LATER: Options = { key: { plan: true, to: email }, free: ["body"] };
const NEW: Options = { ...LATER, formerly: { key: ["to", "plan"] } };
const Ann: Mail = { to: "Ann@Ex.com", plan: "pro", body: "one" };
const ann: Mail = { ...Ann, to: "ann@ex.com" };

eachStore("K10: formerly and another spelling", (open) => {
  function fleet(given: Omit<NevertwiceOptions, "store"> = {}) {
    const { another, record } = open(given);
    const sent: string[] = [];
    const release = (options: Options) =>
      another(given).action<Mail, string>("welcome", {
        run: async ({ to }) => {
          sent.push(to);
          return `sent to ${to}`;
        },
        ...options,
      });
    return { release, sent, record };
  }

  describe.each([
    ["plain", {}],
    ["sealed", { encrypt: randomBytes(32), secret: "s".repeat(32) }],
  ] as const)("%s", (_, given) => {
    it("once the old spelling was called, every other one is a repeat, also once formerly is gone", async () => {
      const { release, sent } = fleet(given);
      await release(OLD)(Ann);
      const now = release(NEW);
      expect(await now.attempt(Ann)).toMatchObject({ status: "done", replayed: true });
      expect(await now.attempt(ann)).toMatchObject({ status: "done", replayed: true, result: "sent to Ann@Ex.com" });
      // From the memory of this process, and from another one.
      expect(await now.attempt(ann)).toMatchObject({ status: "done", replayed: true });
      expect(await release(NEW).attempt({ ...ann, body: "two" })).toMatchObject({ replayed: true, differs: ["body"] });
      expect(await release(NEW).enqueue(ann)).toMatchObject({ created: false, state: "confirmed" });
      expect(await release(LATER).attempt({ ...ann, to: " ANN@ex.com" })).toMatchObject({ replayed: true });
      expect(sent).toEqual(["Ann@Ex.com"]);
    });

    it("a list of former keys finds the usual spellings", async () => {
      const { release, sent } = fleet(given);
      const capital = (to: string) => to.replace(/^./, (first) => first.toUpperCase());
      const spelled: Options = {
        ...LATER,
        formerly: [
          { key: ["to", "plan"] },
          { key: ({ to, plan }) => [to.toLowerCase(), plan] },
          { key: ({ to, plan }) => [capital(to.toLowerCase()), plan] },
        ],
      };
      await release(OLD)({ ...Ann, to: "Ann@ex.com" });
      await release(OLD)({ ...Ann, to: "bob@ex.com" });
      expect(await release(spelled).attempt(ann)).toMatchObject({ status: "done", result: "sent to Ann@ex.com" });
      expect(await release(spelled).attempt({ ...ann, to: "BOB@ex.com" })).toMatchObject({
        status: "done",
        result: "sent to bob@ex.com",
      });
      expect(sent).toEqual(["Ann@ex.com", "bob@ex.com"]);
    });
  });

  it("another guarded field in the other spelling is a conflict, which names that field", async () => {
    const { release, sent } = fleet();
    await release(OLD)({ ...Ann, cc: "kim" });
    const now = release(NEW);
    await now({ ...Ann, cc: "kim" });
    expect(await now.attempt({ ...ann, cc: "kim" })).toMatchObject({ status: "done" });
    expect(await now.attempt({ ...ann, cc: "lee" })).toMatchObject({ status: "conflict" });
    expect(sent).toHaveLength(1);
  });

  it("a coarser former key: another address is a conflict, also where an alias of this one leads to its record", async () => {
    const { release, sent } = fleet();
    const coarse: Options = { key: ["plan"], free: ["body"] };
    const finer: Options = { ...LATER, formerly: { key: ["plan"] } };
    const down = { retry: { attempts: 1 }, classify: () => "not-sent" as const };
    const fails = { ...down, run: async () => Promise.reject(new Error("down")) };
    await release({ ...finer, ...fails }).attempt(ann);
    await release(coarse)({ ...Ann, to: "Bob@ex.com" });
    expect(await release(finer).attempt(ann)).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(await release(finer).attempt({ ...ann, to: "bob@ex.com" })).toMatchObject({ status: "done" });
    expect(sent).toEqual(["Bob@ex.com"]);
  });

  it("a key function, and an address inside of another field", async () => {
    interface Nested {
      readonly person: { readonly mail: string; readonly name: string };
    }
    const { another } = open();
    const release = (options: Partial<ActionOptions<Nested, string>>) =>
      another().action<Nested, string>("greet", { run: async ({ person }) => person.mail, ...options });
    const former = { key: (i: Nested) => [i.person.mail] };
    const now = { key: (i: Nested) => [email(i.person.mail)], formerly: former };
    const person = { mail: "Ann@Ex.com", name: "Ann" };
    await release(former)({ person });
    const send = release(now);
    await send({ person });
    expect(await send.attempt({ person: { ...person, mail: "ann@ex.com" } })).toMatchObject({ status: "done" });
    expect(await send.attempt({ person: { mail: "ann@ex.com", name: "Eve" } })).toMatchObject({
      status: "conflict",
      differs: ["person"],
    });
  });

  it("queued under the old spelling: one record, and a call in the other one runs it once", async () => {
    const { release, sent, record } = fleet();
    const { key } = await release(OLD).enqueue(Ann);
    const now = release(NEW);
    expect(await now.enqueue(Ann)).toMatchObject({ created: false, key });
    expect(await now.enqueue(ann)).toMatchObject({ created: false, key, state: "pending" });
    expect(await now(ann)).toBe("sent to ann@ex.com");
    expect(await now(Ann)).toBe("sent to ann@ex.com");
    expect(sent).toHaveLength(1);
    expect((await record(key)).input).toEqual({ json: JSON.stringify(ann) });
  });

  it("a doubt is sent again with the bytes of the first send", async () => {
    const { release } = fleet();
    const bytes: string[] = [];
    const run = async ({ to }: Mail) => {
      bytes.push(to);
      if (bytes.length === 1) throw new Error("no answer");
      return "sent";
    };
    const options = { doubt: { resendWithin: "1h" }, retry: { attempts: 1 }, wait: 0, run } as const;
    expect(await release({ ...OLD, ...options }).attempt(Ann)).toMatchObject({ status: "unknown" });
    const held = release(NEW);
    expect(await held.attempt(Ann)).toMatchObject({ status: "unknown" });
    expect(await held.attempt(ann)).toMatchObject({ status: "unknown" });
    expect(await release({ ...NEW, ...options })(ann)).toBe("sent");
    expect(bytes).toEqual(["Ann@Ex.com", "Ann@Ex.com"]);
  });

  it("old and new releases race with two spellings of one intent that the new key has aliased", async () => {
    const { release, sent } = fleet();
    for (let round = 0; round < 10; round += 1) {
      const plan = `p${round}`;
      const before = sent.length;
      await release(OLD).enqueue({ ...Ann, plan });
      await release(NEW).enqueue({ ...Ann, plan });
      const racers = [release(OLD)({ ...Ann, plan }), release(NEW)({ ...ann, plan }), release(NEW)({ ...Ann, plan })];
      const ended = await Promise.allSettled(racers);
      // An old process compares the input as it came: a conflict, and nothing is sent.
      expect(ended.slice(1).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
      expect(sent.length - before).toBe(1);
    }
  });

  it("an input that is not stored is compared by its digests: a conflict, and nothing is sent", async () => {
    const { release, sent } = fleet();
    const cc = "x".repeat(300_000);
    await release(OLD)({ ...Ann, cc });
    const now = release(NEW);
    expect(await now.attempt({ ...Ann, cc })).toMatchObject({ status: "done" });
    expect(await now.attempt({ ...ann, cc })).toMatchObject({ status: "conflict", differs: ["to"] });
    expect(sent).toHaveLength(1);
  });
});
