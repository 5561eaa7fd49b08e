/** Queued intents whose payload this process cannot open, or whose payload was removed from the store. */
import type { Nevertwice, NevertwiceOptions } from "nevertwice";
import { expect, it } from "vitest";
import { type Bench, eachStore } from "../../test/support/each-store.ts";
import type { LedgerRecord } from "../core/record.ts";

const key = (byte: number) => new Uint8Array(32).fill(byte);
const PAUSE_MS = 30_000;

interface Mail {
  readonly id: number;
  readonly body?: string;
}

function mailer(nt: Nevertwice, ran: unknown[]) {
  const mail = nt.action("mail", {
    key: ["id"],
    free: ["body"],
    retry: { attempts: 1 },
    run: async (input: Mail) => {
      ran.push(input?.id ?? input);
    },
  });
  return { nt, mail };
}

/** Changes the records of an action in the store, as somebody with access to it could. */
async function tamper(
  { store }: Bench,
  change: (record: LedgerRecord) => LedgerRecord,
  action = "mail",
): Promise<void> {
  const { items } = await store.list({ limit: 10, action });
  await store.write(items.map(({ record, version }) => ({ record: change(record), expected: version })));
}

const withoutInput = (record: LedgerRecord): LedgerRecord => ({ ...record, input: null });
type Encrypt = Pick<NevertwiceOptions, "encrypt">;

eachStore("an intent that this process cannot open", (open) => {
  const cases: [string, Encrypt, Encrypt][] = [
    ["sealed with a newer key", { encrypt: key(1) }, { encrypt: [key(2), key(1)] }],
    ["sealed, without encrypt here", {}, { encrypt: { keys: key(2), acceptPlain: true } }],
    ["not sealed, without acceptPlain here", { encrypt: key(1) }, {}],
  ];

  it.each(cases)("%s: is left to others, its order waits, and it is reported once", async (_, mine, theirs) => {
    const warned: string[] = [];
    const bench = open({ ...mine, onWarning: ({ code }) => warned.push(code) });
    const ran: unknown[] = [];
    const old = mailer(bench.nt, ran);
    const other = mailer(bench.another(theirs), ran);
    await other.mail.enqueue({ id: 1 }, { orderKey: "o" });
    await old.mail.enqueue({ id: 2 }, { orderKey: "o" });
    await other.mail.enqueue({ id: 3 });
    await old.mail.enqueue({ id: 4 });
    for (let look = 0; look < 3; look += 1) {
      const { failed } = await old.nt.worker().drain();
      expect([failed, ran]).toEqual([0, [4]]);
      bench.clock.advance(PAUSE_MS + 1_000);
    }
    expect(warned.filter((code) => code === "KEY_MISSING")).toEqual(["KEY_MISSING"]);
    const found = await other.mail.status({ id: 1 });
    expect(found).toMatchObject({ status: "queued" });
    const all = mailer(bench.another({ encrypt: { keys: [key(1), key(2)], acceptPlain: true } }), ran);
    await all.nt.worker().drain();
    bench.clock.advance(PAUSE_MS + 1_000);
    await all.nt.worker().drain();
    expect(ran.filter((id) => id !== 3)).toEqual([4, 1, 2]);
    expect(ran).toContain(3);
  });

  it("a task of a queue is left to others as well", async () => {
    const { nt, another, clock } = open({ encrypt: key(1) });
    const options = { key: ["id"] } as const;
    const old = nt.queue<Mail, string>("q", options);
    const other = another({ encrypt: [key(2), key(1)] }).queue<Mail, string>("q", options);
    await other.add({ id: 1 }, { orderKey: "o" });
    await old.add({ id: 2 }, { orderKey: "o" });
    await old.add({ id: 3 });
    const third = await old.take();
    expect(third?.input).toEqual({ id: 3 });
    await third?.done("done");
    expect(await old.take()).toBe(null);
    clock.advance(PAUSE_MS + 1_000);
    const first = await other.take();
    expect([first?.input, first?.attempt]).toEqual([{ id: 1 }, 1]);
    await first?.giveBack();
  });

  it("an input of undefined under a key that is not given is left to others", async () => {
    const { nt, another, clock } = open({ encrypt: key(1) });
    const ran: unknown[] = [];
    const define = (of: Nevertwice) =>
      of.action("tidy", { key: () => ["all"], run: async () => void ran.push("tidy") });
    define(nt);
    const other = another({ encrypt: key(2) });
    await define(other).enqueue(undefined as never);
    expect([(await nt.worker().drain()).failed, ran]).toEqual([0, []]);
    clock.advance(PAUSE_MS + 1_000);
    await other.worker().drain();
    expect(ran).toEqual(["tidy"]);
  });

  it("a payload that was altered is a dead letter, not left to others", async () => {
    const bench = open({ encrypt: key(1) });
    const ran: unknown[] = [];
    const { nt, mail } = mailer(bench.nt, ran);
    await mail.enqueue({ id: 1 });
    await tamper(bench, (record) => ({ ...record, input: { sealed: "ntseal1.nothing" } }));
    expect([(await nt.worker().drain()).failed, ran]).toEqual([1, []]);
  });
});

eachStore("a payload that was removed from the store", (open) => {
  const ENCRYPT: [string, Encrypt][] = [
    ["with encrypt", { encrypt: key(1) }],
    ["without encrypt", {}],
  ];

  it.each(ENCRYPT)("%s: its intent is not run without it, and is a dead letter", async (_, encrypt) => {
    for (const schema of [false, true]) {
      const bench = open(encrypt);
      const ran: unknown[] = [];
      const lenient = {
        "~standard": { version: 1, vendor: "t", validate: (value: unknown) => ({ value: value ?? {} }) },
      };
      const mail = bench.nt.action("mail", {
        key: ["id"],
        ...(schema && { input: lenient as never }),
        run: async (input: Mail) => void ran.push(input),
      });
      await mail.enqueue({ id: 1 });
      await tamper(bench, withoutInput);
      expect([(await bench.nt.worker().drain()).failed, ran]).toEqual([1, []]);
      expect(await mail.status({ id: 1 })).toMatchObject({ status: "failed" });
    }
  });

  it.each(ENCRYPT)("%s: its task is not handed out", async (_, encrypt) => {
    const bench = open(encrypt);
    const queue = bench.nt.queue<Mail, string>("q", { key: ["id"] });
    await queue.add({ id: 1 });
    await tamper(bench, withoutInput, "q");
    expect(await queue.take()).toBe(null);
    expect(await queue.status({ id: 1 })).toMatchObject({ status: "failed" });
  });

  it.each(ENCRYPT)("%s: an intent that was enqueued without an input is run", async (_, encrypt) => {
    const { nt } = open(encrypt);
    const ran: unknown[] = [];
    const tidy = nt.action("tidy", { key: () => ["all"], run: async (input: unknown) => void ran.push(input) });
    await tidy.enqueue(undefined);
    const queue = nt.queue<undefined, string>("q", { key: () => ["one"] });
    await queue.add(undefined);
    await nt.worker().drain();
    expect([ran, (await queue.take())?.attempt]).toEqual([[undefined], 1]);
  });

  it.each(ENCRYPT)("%s: a doubt is not resent with another input", async (_, encrypt) => {
    const bench = open(encrypt);
    const sent: unknown[] = [];
    const mail = bench.nt.action("mail", {
      key: ["id"],
      free: ["body"],
      wait: 0,
      doubt: { resendWithin: "1h" },
      retry: { attempts: 1 },
      run: async (input: Mail) => {
        sent.push(input);
        throw new Error("no answer");
      },
    });
    await mail.attempt({ id: 1, body: "first" });
    await tamper(bench, withoutInput);
    expect(await mail.attempt({ id: 1, body: "reworded" })).toMatchObject({ status: "unknown" });
    await bench.nt.sweep();
    expect(sent).toEqual([{ id: 1, body: "first" }]);
    // The bytes of the first send are known again.
    await mail.attempt({ id: 1, body: "first" });
    expect(sent).toEqual([
      { id: 1, body: "first" },
      { id: 1, body: "first" },
    ]);
  });

  const PROBED = ENCRYPT.flatMap(([name, encrypt]) => [false, true].map((removed) => ({ name, encrypt, removed })));
  it.each(PROBED)(
    "$name: a probe is not asked about another input (removed: $removed)",
    async ({ encrypt, removed }) => {
      const bench = open(encrypt);
      const asked: unknown[] = [];
      const mail = bench.nt.action("mail", {
        key: () => ["one"],
        free: ["id", "body"],
        wait: 0,
        retry: { attempts: 1 },
        doubt: {
          quietFor: 1,
          probe: async (input: Mail) => {
            asked.push(input);
            return "unknown" as const;
          },
        },
        run: async (_input: Mail) => {
          throw new Error("no answer");
        },
      });
      await mail.attempt({ id: 1 });
      if (removed) await tamper(bench, withoutInput);
      bench.clock.advance(60_000);
      await bench.nt.sweep();
      expect(asked).toEqual(removed ? [] : [{ id: 1 }]);
    },
  );

  it("with encrypt: a doubt whose draft is missing is not resent; a draft of undefined is", async () => {
    for (const draft of ["the draft", undefined]) {
      for (const removed of [false, true]) {
        const bench = open({ encrypt: key(1) });
        const sent: unknown[] = [];
        const mail = bench.nt.action("mail", {
          key: ["id"],
          wait: 0,
          doubt: { resendWithin: "1h" },
          retry: { attempts: 1 },
          prepare: async () => draft,
          run: async (_input: Mail, _context: unknown, prepared: unknown) => {
            sent.push(prepared);
            throw new Error("no answer");
          },
        });
        await mail.attempt({ id: 1 });
        if (removed) await tamper(bench, (record) => ({ ...record, draft: null }));
        expect(await mail.attempt({ id: 1 })).toMatchObject({ status: "unknown" });
        await bench.nt.sweep();
        expect(new Set(sent)).toEqual(new Set([draft]));
        expect(sent.length > 1).toBe(!removed);
      }
    }
  });
});
