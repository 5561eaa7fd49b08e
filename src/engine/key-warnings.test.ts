/** K8, K9, K10: what calls say about the keys they are given. */
import { amount, day, email, text } from "nevertwice";
import { describe, expect, it } from "vitest";
import { openMemory, openSqlite } from "../../test/support/each-store.ts";

interface Said {
  readonly code: string;
  readonly message: string;
}

const long = "Hello Ann, thank you for the call today. As we discussed, the offer is attached and valid until Friday.";

function watching(open = openMemory) {
  const said: Said[] = [];
  const bench = open({ onWarning: (warning) => said.push(warning) });
  const codes = () => said.map(({ code }) => code);
  return { ...bench, said, codes };
}

describe("K8: near-identical inputs", () => {
  const inputs = [
    { to: "Ann@Example.com", title: "Weekly  Report", total: 10 },
    { to: " ann@example.COM", title: "weekly report", total: "10.00" },
  ];

  it.each([
    ["fields with what is made of them", { key: { to: email, title: text, total: amount("EUR") } }],
    [
      "a key function",
      {
        key: (i: (typeof inputs)[number]) => [email(i.to), text(i.title), amount(i.total, "EUR")],
      },
    ],
  ])("are one intent by %s, and no conflict", async (_how, options) => {
    const { nt, codes } = watching();
    let ran = 0;
    const send = nt.action<(typeof inputs)[number], number>("send", { ...options, run: async () => (ran += 1) });
    for (const input of [...inputs, ...inputs]) expect(await send(input)).toBe(1);
    expect(codes()).toEqual([]);
    expect(await send.attempt({ ...(inputs[0] as (typeof inputs)[number]), total: 11 })).toMatchObject({ result: 2 });
  });

  it("other guarded fields still have to match, by name", async () => {
    const { nt } = watching();
    const send = nt.action("send", { key: { to: email }, run: async (_: { to: string; plan: string }) => 1 });
    await send({ to: "a@x.test", plan: "pro" });
    expect(await send.attempt({ to: "A@x.test", plan: "free" })).toMatchObject({
      status: "conflict",
      differs: ["plan"],
    });
  });

  it("a field through a window is compared as the window", async () => {
    const { nt } = watching();
    const send = nt.action("send", { key: { id: true, at: day }, run: async (_: { id: number; at: Date }) => 1 });
    await send({ id: 1, at: new Date("2026-01-15T08:00:00Z") });
    expect(await send.attempt({ id: 1, at: new Date("2026-01-15T17:00:00Z") })).toMatchObject({ replayed: true });
    expect(await send.attempt({ id: 1, at: new Date("2026-01-16T08:00:00Z") })).toMatchObject({ replayed: false });
  });

  it("a value deep in the input, through a key function", async () => {
    const { nt } = watching();
    const run = async (_: { customer: { mails: string[] } }) => 1;
    const send = nt.action("send", { key: (i) => [email(i.customer.mails[0] as string)], run });
    await send({ customer: { mails: ["A@x.test"] } });
    expect(await send.attempt({ customer: { mails: ["a@x.test"] } })).toMatchObject({ status: "done", replayed: true });
  });

  it("a helper's refusal names the action and the field, and no value", async () => {
    const { nt } = watching();
    const send = nt.action("send", { key: { to: email }, run: async (_: { to: string }) => 1 });
    const refused = await send({ to: "Secret Person <s@x.test>" }).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "INVALID_KEY",
      message: expect.stringContaining('"send": the key field "to"'),
    });
    expect(String(refused)).not.toContain("Secret");
  });

  it("queued under one form, the other form is the same intent, and the worker runs it once", async () => {
    const { nt } = watching();
    const ran: string[] = [];
    const send = nt.action("send", { key: { to: email }, run: async (i: { to: string }) => void ran.push(i.to) });
    expect(await send.enqueue({ to: "A@x.test" })).toMatchObject({ created: true });
    expect(await send.enqueue({ to: "a@x.test" })).toMatchObject({ created: false });
    await nt.worker().drain();
    expect(ran).toEqual(["A@x.test"]);
  });

  it("without a helper they are warned about once, with the field, in one scope", async () => {
    const { nt, said, codes } = watching();
    const send = nt.action("send", { key: ["id", "to"], run: async (_: { id: number; to: string }) => 1 });
    await send({ id: 1, to: "ann@secret.test" }, { scope: "a" });
    await send({ id: 1, to: "Ann@secret.test" }, { scope: "b" });
    expect(codes()).toEqual([]);
    await send({ id: 1, to: "Ann@secret.test" }, { scope: "a" });
    await send({ id: 1, to: "ANN@secret.test" }, { scope: "a" });
    expect(codes()).toEqual(["NEAR_KEYS"]);
    expect(said[0]?.message).toContain('the case of the key field "to"');
    expect(said[0]?.message.toLowerCase()).not.toContain("secret");
  });

  it("once and tools too", async () => {
    const { nt, codes } = watching();
    await nt.once("greet", ["Ann"], () => 1);
    await nt.once("greet", ["ann "], () => 1);
    expect(codes()).toEqual(["NEAR_KEYS"]);
  });
});

describe("K9: generated prose in a key", () => {
  it.each([
    ["a named field", { key: ["id", "body"] as const }, { id: 1, body: "See you there" }, '"body"'],
    ["the whole input", {}, { id: 1, summary: "It went well" }, '"summary"'],
    ["a key function", { key: (i: { content: string }) => [i.content] }, { content: "One two three" }, '"content"'],
    ["a long text", { key: ["x"] as const }, { x: long }, '"x"'],
  ])("%s is warned about once, with the remedy", async (_what, options, input, field) => {
    const { nt, said, codes } = watching();
    const post = nt.action<object, number>("post", { ...(options as object), run: async () => 1 });
    await post(input);
    await post(input);
    expect(codes()).toEqual(["PROSE_IN_KEY"]);
    expect(said[0]?.message).toContain(`the key field ${field}`);
    expect(said[0]?.message).toMatch(/an id, a digest of its source.*`free`/);
    expect(said[0]?.message).not.toMatch(/See you|It went|One two|Hello Ann/);
  });

  it("a free field is no part of the key", async () => {
    const { nt, codes } = watching();
    const post = nt.action("post", { free: ["body"], run: async (_: { id: number; body: string }) => 1 });
    await post({ id: 1, body: long });
    expect(codes()).toEqual([]);
  });
});

describe("K5: an event id at the door", () => {
  const event = { event_id: "evt_1NG8Du2eZvKYlo2CUI79vXWy", id: "018f6c1e-2a7b-7c3d-8e4f-0123456789ab" };

  it("is warned about at an effect, and not where the action handles events that come in", async () => {
    const { nt, said, codes } = watching();
    const run = async (_: typeof event) => 1;
    await nt.action("effect", { key: ["event_id"], run })(event);
    expect(codes()).toEqual(["CALL_TIME_KEY"]);
    expect(said[0]?.message).toContain("inbound: true");
    await nt.action("door", { key: ["event_id"], inbound: true, run })(event);
    await nt.action("door by function", { key: (e) => [e.event_id, e.id], inbound: true, run })(event);
    expect(codes()).toEqual(["CALL_TIME_KEY"]);
  });

  it("a retry count is a mistake there as well", async () => {
    const { nt, codes } = watching();
    const run = async (_: { event_id: string; retryCount: number }) => 1;
    await nt.action("door", { key: ["event_id", "retryCount"], inbound: true, run })({
      event_id: "evt_1",
      retryCount: 1,
    });
    expect(codes()).toEqual(["CALL_TIME_KEY"]);
    expect(() => nt.action("x", { inbound: "yes" as never, run })).toThrow(/true or false/);
  });
});

// Not in memory: there close() ends the data with the process. The other stores: test/formerly-stores.test.ts.
describe("K10: a changed key definition", () => {
  const open = openSqlite;
  const input = { lead: "l1", to: "a@x.test", n: 3 };
  type Input = typeof input;
  type Key = NonNullable<Parameters<ReturnType<typeof open>["nt"]["action"]>[1]["key"]>;

  /** One deploy after the other: each is called once, closes, and says what it was warned of. */
  async function deploys(options: readonly object[]): Promise<string[][]> {
    const bench = open();
    const all: string[][] = [];
    for (const one of options) {
      const said: string[] = [];
      const nt = bench.another({ sweep: "1h", onWarning: ({ code, message }) => said.push(`${code} ${message}`) });
      await nt.action<Input, number>("send", { run: async () => 1, ...one })(input);
      await nt.close();
      all.push(said.filter((line) => line.startsWith("KEY_CHANGED")));
    }
    return all;
  }
  const changes = async (...options: readonly object[]) => (await deploys(options)).map(({ length }) => length);

  it("is warned about at the first call, once for each process, with both keys", async () => {
    const [first, second, third] = await deploys([{ key: ["lead"] }, { key: ["lead", "to"] }, { key: ["lead", "to"] }]);
    expect([first, third]).toEqual([[], []]);
    expect(second).toHaveLength(1);
    expect(second?.[0]).toMatch(/knows it as \[lead\], and it is \[lead, to\] now\..*formerly: \{ key/);
    expect(second?.[0]).not.toContain("a@x.test");
  });

  it.each<[string, object, object, number]>([
    ["the same list", { key: ["lead", "to"] }, { key: ["lead", "to"] }, 0],
    ["another order", { key: ["lead", "to"] }, { key: ["to", "lead"] }, 1],
    ["a list as a function of its fields", { key: ["lead"] }, { key: (i: Input) => [i.lead] }, 0],
    ["a function of other fields", { key: (i: Input) => [i.lead] }, { key: (x: Input) => [x.to] }, 1],
    ["a function with a part more", { key: (i: Input) => [i.lead] }, { key: (i: Input) => [i.lead, i.n] }, 1],
    ["a minified function", { key: (input: Input) => [input.lead, input.n] }, { key: (e: Input) => [e.lead, e.n] }, 0],
    ["another form of a field", { key: ["to"] }, { key: { to: email } }, 1],
    ["another helper", { key: { to: text } }, { key: { to: email } }, 1],
    ["true is the field itself", { key: ["to"] }, { key: { to: true } }, 0],
    ["no key, then one", {}, { key: ["lead"] }, 1],
    ["no key, and other free fields", {}, { free: ["n"] }, 1],
    ["other free fields beside a key", { key: ["lead"] }, { key: ["lead"], free: ["n"] }, 0],
    ["formerly", { key: ["lead"] }, { key: ["to"], formerly: { key: ["lead"] } }, 0],
    ["formerly that names another key", { key: ["lead"] }, { key: ["to"], formerly: { key: ["n"] } }, 1],
  ])("%s", async (_what, before, now, count) => expect(await changes(before, now)).toEqual([0, count]));

  it("a rollback to the former definition is none, and leaves the note alone", async () => {
    const formerly = { key: ["to"], formerly: { key: ["lead"] } };
    expect(await changes({ key: ["lead"] }, formerly, { key: ["lead"] }, formerly, { key: ["to"] })).toEqual([
      0, 0, 0, 0, 0,
    ]);
    expect(await changes({ key: ["lead"] }, formerly, { key: ["to"] }, { key: ["lead"] })).toEqual([0, 0, 0, 1]);
  });

  it("another version, scope or tenant of a call is none; each tenant of an instance has a note", async () => {
    const said: string[] = [];
    const bench = open();
    const make = (key: Key, tenant?: string) => {
      const nt = bench.another({
        sweep: "1h",
        onWarning: ({ code }) => said.push(code),
        ...(tenant !== undefined && { tenant }),
      });
      return { nt, send: nt.action<Input, number>("send", { key: key as never, run: async () => 1 }) };
    };
    const { nt, send } = make(["lead"]);
    await send(input);
    await send(input, { version: 2, scope: "s", tenant: "globex" });
    await nt.close();
    const other = make(["to"], "acme");
    await other.send(input);
    await other.nt.close();
    expect(said).toEqual([]);
    const { items } = await bench.store.list({ limit: 20, action: "nevertwice.key" });
    expect(items.map(({ record }) => record.tenant).sort()).toEqual(["", "acme"]);
  });

  it("enqueue notices it too; jobs, runs and once have no definition to compare", async () => {
    const bench = open();
    const said: string[] = [];
    const make = () => bench.another({ sweep: "1h", onWarning: ({ code }) => said.push(code) });
    const [one, two] = [make(), make()];
    await one.action<Input, number>("send", { key: ["lead"], run: async () => 1 }).enqueue(input);
    await one.once("hello", ["a"], () => 1);
    await one.close();
    await two.action<Input, number>("send", { key: ["to"], run: async () => 1 }).enqueue(input);
    await two.once("hello", ["a", "b"], () => 1);
    await two.close();
    expect(said).toEqual(["KEY_CHANGED"]);
  });

  it("the note costs no call anything but one read at the first", async () => {
    const bench = open();
    let reads = 0;
    const nt = bench.another({
      wrap: (store) => {
        const read = store.read.bind(store);
        store.read = (keys) => {
          reads += 1;
          return read(keys);
        };
        return store;
      },
    });
    const send = nt.action<Input, number>("send", { key: ["lead"], run: async () => 1 });
    for (let n = 0; n < 5; n += 1) await send({ ...input, lead: `l${n}` });
    expect(reads).toBe(1);
    expect((await bench.store.list({ limit: 20 })).items).toHaveLength(5);
  });
});
