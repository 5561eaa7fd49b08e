/** K10: intents with two keys, where they meet other features. */
import { type ActionOptions, email, type NevertwiceOptions, type nevertwice } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { aliasTarget } from "../core/formerly.ts";
import type { Store } from "../core/store.ts";

interface Mail {
  readonly lead: string;
  readonly to: string;
}

const OLD = { key: ["to", "lead"] } as const;
const NEW = { key: { lead: true, to: email }, formerly: { key: ["to", "lead"] } } as const;
const ALONE = { key: { lead: true, to: email } } as const;
const plain: Mail = { lead: "l1", to: "ann@example.com" };

type Options = Partial<ActionOptions<Mail, string>>;

/** What is no alias and no note: the records of intents. */
async function intents(store: Store) {
  const { items } = await store.list({ limit: 100 });
  return items
    .map(({ record }) => record)
    .filter((one) => !one.action.startsWith("nevertwice.") && aliasTarget(one, store.now()) === null);
}

eachStore("K10: formerly beside other features", (open) => {
  function fleet(options: Omit<NevertwiceOptions, "store"> = {}) {
    const faults: Faults = {};
    const bench = open({ ...options, wrap: (store) => faulty(store, faults) });
    const sent: string[] = [];
    const define = (nt: ReturnType<typeof nevertwice>, given: Options, name = "send") =>
      nt.action<Mail, string>(name, {
        run: async (_, ctx) => {
          sent.push(ctx.key);
          return `m${sent.length}`;
        },
        ...given,
      });
    const process = (given: Options, name?: string) => define(bench.another(options), given, name);
    const down = (given: Options) => define(bench.nt, { ...given, whenStoreDown: "run" });
    return { ...bench, faults, sent, define, process, down };
  }

  it("an alias is no result: a process without formerly that mostly repeats gets the first one's", async () => {
    const { process, sent } = fleet();
    await process(NEW)(plain);
    const later = process(ALONE);
    await later({ ...plain, lead: "l0" });
    for (let i = 0; i < 30; i += 1) await later({ ...plain, lead: "l0" }, { scope: `s${i}` });
    for (let i = 0; i < 30; i += 1) await process(ALONE)({ ...plain, lead: "l0" }, { scope: `s${i}` });
    const repeating = process(ALONE);
    for (let i = 0; i < 30; i += 1) await repeating({ ...plain, lead: "l0" }, { scope: `s${i}` });
    const before = sent.length;
    expect(await repeating(plain)).toBe("m1");
    expect(sent).toHaveLength(before);
  });

  it("O15: run while the store was down: one effect in this process, under any spelling, and one record afterwards", async () => {
    const { down, faults, sent, nt, store, process } = fleet();
    const send = down(NEW);
    faults.down = true;
    expect(await send(plain)).toBe("m1");
    expect(await send.attempt(plain)).toMatchObject({ replayed: true, result: "m1" });
    expect(await send({ ...plain, to: "Ann@Example.com" })).toBe("m1");
    faults.down = false;
    await until(async () => (await intents(store)).some(({ state }) => state === "confirmed"), "the record");
    expect(await intents(store)).toMatchObject([{ state: "confirmed", history: [{ event: "ran-unguarded" }] }]);
    expect(await send(plain)).toBe("m1");
    expect(await process(OLD)(plain)).toBe("m1");
    expect(await process(ALONE)(plain)).toBe("m1");
    // The provider saw the key that old processes use.
    expect(sent).toEqual([await process(OLD).keyOf(plain)]);
    await nt.close();
  });

  it("O15: the store goes down between the look and the claim: not run again by the next call", async () => {
    const { down, faults, sent } = fleet();
    const send = down(NEW);
    await send({ ...plain, lead: "l0" });
    // The look and the aliases are written; the claim is not.
    faults.beforeWrite = (puts) => {
      if (puts.some(({ record }) => record.state === "sent" || record.state === "claimed")) {
        faults.down = true;
        throw new Error("connection to the store lost");
      }
    };
    expect(await send(plain)).toBe("m2");
    expect(await send(plain)).toBe("m2");
    expect(sent).toHaveLength(2);
  });

  it("O15: done under the former key by an old process, and run again while down: the duplicate is reported", async () => {
    const { down, faults, process, store, events, sent } = fleet();
    const send = down(NEW);
    await process(OLD)(plain);
    faults.down = true;
    await send(plain);
    faults.down = false;
    await until(() => kinds(events).includes("duplicate_detected"), "the duplicate");
    expect(sent).toHaveLength(2);
    expect(await intents(store)).toHaveLength(1);
    expect(await send(plain)).toBe("m1");
  });

  it("O15: an alias of a record that never ran: what was run while down is written there", async () => {
    const { down, faults, process, store, events, sent } = fleet();
    const fails = async () => Promise.reject(Object.assign(new Error("down"), { code: "ECONNREFUSED" }));
    await process({ ...NEW, run: fails, retry: { attempts: 1 } }).attempt(plain);
    const send = down(ALONE);
    faults.down = true;
    expect(await send(plain)).toBe("m1");
    faults.down = false;
    await until(async () => (await intents(store)).every(({ state }) => state === "confirmed"), "the record");
    expect(await process(OLD)(plain)).toBe("m1");
    expect(await send(plain)).toBe("m1");
    expect(kinds(events)).not.toContain("duplicate_detected");
    expect(sent).toHaveLength(1);
  });

  it("O15: an enqueue and a status by the former key after the outage tell the ledger first", async () => {
    const { down, faults, sent, nt } = fleet();
    const send = down(NEW);
    faults.down = true;
    const { key } = await send.attempt(plain);
    faults.down = false;
    expect(await nt.status({ key })).toMatchObject({ status: "done", result: "m1" });
    expect(await send.enqueue(plain)).toMatchObject({ created: false, state: "confirmed" });
    await nt.worker().drain();
    expect(sent).toHaveLength(1);
  });
});
