/** A changed key: what was recorded under the old one governs, also while processes with the old definition still run. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type ActionOptions, email, type NevertwiceOptions, nevertwice, notSent } from "nevertwice";
import { guardTool } from "nevertwice/agents";
import { type SqliteHandle, sqliteStore } from "nevertwice/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, temporaryFolder } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  readonly lead: string;
  readonly to: string;
  readonly body?: string;
}

const OLD = { key: ["to", "lead"], free: ["body"] } as const;
const NEW = { key: { lead: true, to: email }, free: ["body"], formerly: { key: ["to", "lead"] } } as const;
const ALONE = { key: { lead: true, to: email }, free: ["body"] } as const;
const OLD_KEY = { key: ["to", "lead"] } as const;
const mail: Mail = { lead: "l1", to: "Ann@Example.com", body: "first" };

type Options = Partial<ActionOptions<Mail, string>>;

eachStore("K10: formerly", (open) => {
  function fleet(options: Omit<NevertwiceOptions, "store"> = {}) {
    const bench = open(options);
    const sent: string[] = [];
    const define = (nt: ReturnType<typeof nevertwice>, options: Options, name = "send") =>
      nt.action<Mail, string>(name, {
        run: async (i, ctx) => {
          sent.push(ctx.key);
          return `m${sent.length} ${i.body}`;
        },
        ...options,
      });
    const process = (given: Options, name?: string) => define(bench.another(options), given, name);
    return { ...bench, sent, define, process };
  }

  it("done under the old key is a repeat under the new one, also once formerly is gone", async () => {
    const { process, sent } = fleet();
    await process(OLD)(mail);
    const now = process(NEW);
    expect(await now({ ...mail, body: "other words" })).toBe("m1 first");
    expect(await now.attempt({ ...mail, body: "other words" })).toMatchObject({ replayed: true, differs: ["body"] });
    expect(await process(ALONE)(mail)).toBe("m1 first");
    expect(sent).toHaveLength(1);
  });

  it("what the new definition does first is a repeat for an old process, under the old key", async () => {
    const { process, sent } = fleet();
    const plain = { ...mail, to: "ann@example.com" };
    const old = process(OLD);
    expect(await process(NEW)(plain)).toBe("m1 first");
    expect(await old(plain)).toBe("m1 first");
    expect(sent).toEqual([await old.keyOf(plain)]);
  });

  it("near-identical inputs with two former keys are one intent, also for old processes", async () => {
    const { process, sent } = fleet();
    const now = process(NEW);
    await now(mail);
    expect(await now({ ...mail, to: "ann@example.com " })).toBe("m1 first");
    expect((await process(OLD).attempt({ ...mail, to: "ann@example.com " })).status).not.toBe("failed");
    expect(sent).toHaveLength(1);
  });

  it("old and new processes, or new and later ones, racing for one intent: one effect", async () => {
    const { process, sent } = fleet();
    const plain = { ...mail, to: "ann@example.com" };
    for (let round = 0; round < 20; round += 1) {
      const before = sent.length;
      const intent = { ...plain, lead: `deploy-${round}` };
      const racers = round % 2 === 0 ? [OLD, NEW, NEW, OLD] : [ALONE, NEW, NEW, ALONE];
      await Promise.all(racers.map((one) => process(one)(intent)));
      expect(sent.length - before).toBe(1);
    }
  });

  it("in flight under the old key: the new process waits for it", async () => {
    const { process } = fleet();
    const going = gate<string>();
    const began = gate();
    const run = () => {
      began.open();
      return going.opened;
    };
    const first = process({ ...OLD, run })(mail);
    await began.opened;
    const now = process({ ...NEW, run: async () => "second effect" });
    expect(await now.attempt(mail, { wait: 0 })).toMatchObject({ status: "in_flight" });
    const joined = now(mail);
    going.open("first");
    expect(await Promise.all([first, joined])).toEqual(["first", "first"]);
  });

  it("a doubt under the old key is a doubt, is resolved through the new definition, and stays known", async () => {
    const { process, sent } = fleet();
    await process({ ...OLD, run: async () => Promise.reject(new Error("gone")) }).attempt(mail);
    const now = process(NEW);
    expect(await now.attempt(mail)).toMatchObject({ status: "unknown" });
    expect(await now.status(mail)).toMatchObject({ status: "unknown", key: await process(OLD).keyOf(mail) });
    const by = { by: "kim", reason: "seen in the provider's log" };
    expect(await now.resolve(mail, { as: "done", result: "m0", ...by })).toMatchObject({ status: "done" });
    expect(await process(ALONE)(mail)).toBe("m0");
    expect(sent).toEqual([]);
  });

  it("a doubt is sent again under the provider key of the first send", async () => {
    const { process } = fleet();
    const charges = new Map<string, number>();
    const run = async (_: Mail, ctx: { key: string }) => {
      charges.set(ctx.key, (charges.get(ctx.key) ?? 0) + 1);
      if (charges.get(ctx.key) === 1) throw new Error("no answer");
      return "charged";
    };
    const options = { doubt: { resendWithin: "1h" }, retry: { attempts: 1 }, wait: 0, run } as const;
    expect(await process({ ...OLD, ...options }).attempt(mail)).toMatchObject({ status: "unknown" });
    expect(await process({ ...NEW, ...options })(mail)).toBe("charged");
    expect([...charges.values()]).toEqual([2]);
  });

  it("the sweeper of the new definition settles a doubt of the old one", async () => {
    const { process, another, define, clock } = fleet();
    const options = {
      doubt: { quietFor: "1s", probe: async () => ({ as: "done", result: "found" }) as const },
      wait: 0,
    } as const;
    const fails = async () => Promise.reject(new Error("no answer"));
    await process({ ...OLD, ...options, run: fails }).attempt(mail);
    clock.advance(2_000);
    const nt = another();
    const now = define(nt, { ...NEW, ...options });
    expect(await nt.sweep()).toMatchObject({ settled: 1 });
    expect(await now(mail)).toBe("found");
  });

  it("failed under the old key: tried again there, and a final refusal stays one", async () => {
    const { process, sent } = fleet();
    const failing = { ...OLD, retry: { attempts: 1 }, run: async () => Promise.reject(notSent(new Error("down"))) };
    await process(failing).attempt(mail);
    expect(await process(NEW)(mail)).toBe("m1 first");
    expect(sent).toEqual([await process(OLD).keyOf(mail)]);
  });

  it("failed under the new key before formerly was given: one record from then on", async () => {
    const { process, sent } = fleet();
    const failing = { ...ALONE, retry: { attempts: 1 }, run: async () => Promise.reject(notSent(new Error("down"))) };
    await process(failing).attempt(mail);
    const results = await Promise.all([process(NEW)(mail), process(OLD)(mail), process(NEW)(mail)]);
    expect(new Set(results)).toEqual(new Set(["m1 first"]));
    expect(sent).toHaveLength(1);
  });

  it("queued under the old key, or by both: one record, run once by a worker of either", async () => {
    const { process, another, define, sent } = fleet();
    const plain = { ...mail, to: "ann@example.com" };
    await process(OLD).enqueue(plain);
    const nt = another();
    const now = define(nt, NEW);
    expect(await now.enqueue(plain)).toMatchObject({ created: false, state: "pending" });
    const next = { ...plain, lead: "l2" };
    expect(await now.enqueue(next)).toMatchObject({ created: true });
    expect(await process(OLD).enqueue(next)).toMatchObject({ created: false });
    expect(await process(ALONE).enqueue(next)).toMatchObject({ created: false });
    await nt.worker().drain();
    expect(sent).toHaveLength(2);
    expect(await now.status(plain)).toMatchObject({ status: "done", result: "m1 first" });
    expect(await now.each([plain, next])).toMatchObject({ done: 2 });
    expect(sent).toHaveLength(2);
  });

  it("a resend counts the versions of both, and is one effect from old and new", async () => {
    const { process, sent } = fleet();
    const plain = { ...mail, to: "ann@example.com" };
    const by = { by: "kim", reason: "asked for" };
    const [old, now] = [process(OLD), process(NEW)];
    await old(plain);
    await old.resend(plain, by);
    await now.resend(plain, by);
    expect(await old.status(plain, { version: 3 })).toMatchObject({ status: "done" });
    expect(sent).toHaveLength(3);
    expect(await now(plain, { version: 3 })).toBe("m3 first");
  });

  it("tenant, scope, secret and encrypt: the old key is looked for as the new one is", async () => {
    const encrypt = randomBytes(32);
    const { process, sent } = fleet({ tenant: "acme", secret: "s".repeat(32), encrypt });
    await process(OLD)(mail, { scope: "run-1" });
    const now = process(NEW);
    expect(await now(mail, { scope: "run-1" })).toBe("m1 first");
    expect(await now.attempt({ ...mail, body: "new" }, { scope: "run-1" })).toMatchObject({ differs: ["body"] });
    await now(mail, { scope: "run-2" });
    await now(mail, { scope: "run-1", tenant: "globex" });
    expect(sent).toHaveLength(3);
    expect(await process(ALONE)(mail, { scope: "run-2" })).toBe("m2 first");
  });

  it("another input under the old key is a conflict, which names the field", async () => {
    const { process, sent } = fleet();
    const old = { key: ["lead"], free: ["body"] } as const;
    await process(old)(mail);
    const finer = process({ ...OLD, formerly: { key: ["lead"] } });
    expect(await finer.attempt({ ...mail, to: "bob@example.com" })).toMatchObject({
      status: "conflict",
      differs: ["to"],
    });
    expect(await finer(mail)).toBe("m1 first");
    const only = process({ ...OLD, formerly: { key: (i) => (i.to === mail.to ? [i.lead] : null) } });
    expect(await only({ ...mail, to: "bob@example.com" })).toBe("m2 first");
    expect(sent).toHaveLength(2);
  });

  it("a renamed action: repeats, queued work and a list of earlier names", async () => {
    const { process, another, define, sent } = fleet();
    await process(OLD, "mail_v1")(mail);
    await process(OLD, "mail_v1").enqueue({ ...mail, lead: "l2" });
    const nt = another();
    const now = define(
      nt,
      { ...ALONE, formerly: [{ name: "mail_v2" }, { name: "mail_v1", key: ["to", "lead"] }] },
      "mail",
    );
    expect(await now(mail)).toBe("m1 first");
    await nt.worker().drain();
    expect(await now({ ...mail, lead: "l2" })).toBe("m2 first");
    expect(sent).toHaveLength(2);
  });

  it("a former name that another action or a queue has is refused, in either order, and says what to do", () => {
    const { another, define } = fleet();
    const renamed = { ...ALONE, formerly: { name: "mail" } };
    const refused = /"sms": formerly names "mail", and this program also has .* Remove the one that was renamed/;
    const first = another();
    define(first, OLD, "mail");
    expect(() => define(first, renamed, "sms")).toThrow(refused);
    // Nothing is left of what was refused.
    expect(() => define(first, ALONE, "sms")).not.toThrow();
    const last = another();
    define(last, renamed, "sms");
    expect(() => define(last, OLD, "mail")).toThrow(refused);
    expect(() => last.queue("mail")).toThrow(refused);
    expect(() => define(last, { ...ALONE, formerly: { name: "mail" } }, "letter")).toThrow(
      /the actions "sms" and "letter" both give the name "mail"/,
    );
    const queued = another();
    queued.queue("mail");
    expect(() => define(queued, renamed, "sms")).toThrow(refused);
    const twice = { ...ALONE, formerly: [{ name: "mail" }, { name: "mail", key: ["to", "lead"] as const }, OLD_KEY] };
    expect(() => define(another(), twice, "sms")).not.toThrow();
  });

  it("an alias is kept as long as its record, and is over with it", async () => {
    const { process, store, clock, another } = fleet();
    await process({ ...NEW, keep: "1d" })(mail);
    const aliases = async () =>
      (await store.list({ limit: 10 })).items.flatMap(({ record }) =>
        record.result !== null && "omitted" in record.result ? [record.expiresAt] : [],
      );
    await until(async () => (await aliases()).every((expiresAt) => expiresAt !== null), "the end of the alias");
    expect(await aliases()).toHaveLength(1);
    clock.advance(86_400_000 + 1_000);
    await another().sweep();
    expect((await store.list({ limit: 10 })).items).toEqual([]);
  });

  it("a tool guarded for a model: formerly is one of its options", async () => {
    const { process, another, sent } = fleet();
    await process(OLD)(mail, { scope: "chat-1" });
    const tool = guardTool(
      another(),
      {
        name: "send",
        key: { lead: true, to: email },
        free: ["body"],
        formerly: { key: ["to", "lead"] },
        scope: "chat-1",
      },
      async (_: Mail) => {
        sent.push("tool");
        return "again";
      },
    );
    expect(await tool(mail, undefined)).toBe("m1 first");
    expect(sent).toHaveLength(1);
  });

  it("runs unguarded only where the action asked for that, and refuses options that say nothing", () => {
    const { process } = fleet();
    expect(() => process({ ...ALONE, formerly: {} })).toThrow(/neither a name nor a key/);
    expect(() => process({ ...ALONE, formerly: { keys: ["to"] } as never })).toThrow(/no option "keys"/);
    expect(() => process({ ...ALONE, formerly: { key: [] as never[] } })).not.toThrow();
    expect(() => process({ ...ALONE, formerly: "to" as never })).toThrow(/such as \{ key: \["leadId"\] \}/);
    expect(() => process({ ...ALONE, formerly: Array(9).fill({ key: ["to"] }) })).toThrow(/up to 8/);
  });
});

describe("K10: formerly in the caller's own transaction", () => {
  it("claims, repeats and enqueues in it, and leaves nothing after a rollback", async () => {
    const path = join(temporaryFolder(), "app.db");
    const db = new DatabaseSync(path) as SqliteHandle & InstanceType<typeof DatabaseSync>;
    db.exec("PRAGMA journal_mode = WAL");
    const sent: string[] = [];
    const process = (options: Options) => {
      const nt = nevertwice({ store: sqliteStore({ path }), sweep: false, onWarning: () => {} });
      onTestFinished(() => nt.close());
      const run = async (i: Mail) => {
        sent.push(i.lead);
        return i.lead;
      };
      return { nt, send: nt.action<Mail, string>("send", { run, ...options }) };
    };
    onTestFinished(() => db.close());
    const [old, now, later] = [OLD, NEW, ALONE].map((one) => process(one).send) as ReturnType<typeof process>["send"][];
    if (old === undefined || now === undefined || later === undefined) throw new Error("three processes");
    await old(mail);
    const within = async <T>(work: () => Promise<T>, end: "COMMIT" | "ROLLBACK"): Promise<T> => {
      db.exec("BEGIN IMMEDIATE");
      try {
        return await work();
      } finally {
        db.exec(end);
      }
    };
    expect(await within(() => now(mail, { tx: db }), "COMMIT")).toBe("l1");
    const second = { ...mail, lead: "l2", to: "ann@example.com" };
    await within(() => now(second, { tx: db }), "ROLLBACK");
    expect(await now.status(second)).toMatchObject({ status: "absent" });
    expect(await within(() => now(second, { tx: db }), "COMMIT")).toBe("l2");
    expect(await old(second)).toBe("l2");
    expect(await within(() => later.attempt(second, { tx: db }), "COMMIT")).toMatchObject({ replayed: true });
    expect(sent).toEqual(["l1", "l2", "l2"]);
    const third = { ...mail, lead: "l3" };
    await old.enqueue(third);
    expect(await within(() => now.enqueue(third, { tx: db }), "COMMIT")).toMatchObject({ created: false });
    expect(await within(() => later.enqueue(third, { tx: db }), "COMMIT")).toMatchObject({ created: false });
    expect(await within(() => now.status(third, { tx: db }), "COMMIT")).toMatchObject({ status: "queued" });
  });
});
