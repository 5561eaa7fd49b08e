/** `repeats`: identical calls of one turn count as first, second, …; a turn that is made again has the same intents. */
import { describe, expect, it, onTestFinished } from "vitest";
import { steeredClock } from "../../../test/support/each-store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { memoryStore } from "../../stores/memory.ts";
import { guardTool } from "../guard-tool.ts";
import type { Guarding } from "./options.ts";
import type { Turn } from "./turns.ts";

interface Mail {
  readonly to: string;
  readonly body?: string;
  readonly cents?: number;
}

function open(store = memoryStore()) {
  const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
  onTestFinished(() => nt.close());
  return nt;
}

const ada: Mail = { to: "ada" };

function sending(nt: Guarding, options: object = {}, fail: (run: number) => void = () => {}) {
  const sent: Mail[] = [];
  const guarded = guardTool<Mail, Turn | undefined, string>(
    nt,
    { name: "send", key: ["to"], free: ["body"], scope: "s", repeats: 2, turn: (turn) => turn, ...options },
    async (mail) => {
      const run = sent.push(mail);
      fail(run);
      return `mail_${run}`;
    },
  );
  const told = async (turn: Turn | undefined, mail: Mail = ada) => {
    const answer = await guarded.answer(mail, turn);
    if (answer.kind === "refused") return answer.text;
    return answer.note === null ? answer.result : `again ${answer.result}`;
  };
  return { sent, told };
}

const at = (call: string, turn: string | object = "t1"): Turn => ({ call, turn });

describe("repeats", () => {
  it("first, second, and from then on the last; by the turn's id, or an object that all of its calls have", async () => {
    for (const turn of ["t1", {}]) {
      const { told } = sending(open());
      const calls = [];
      for (const call of ["a", "b", "c"]) calls.push(await told(at(call, turn)));
      expect(calls).toEqual(["mail_1", "mail_2", "again mail_2"]);
      // The same call once more, in any order; another turn; a call of which no turn is known.
      expect(await told(at("b", turn))).toBe("again mail_2");
      expect(await told(at("a", turn))).toBe("again mail_1");
      expect(await told(at("x", "t2"))).toBe("again mail_1");
      expect(await told(at("y", "t2"))).toBe("again mail_2");
      expect(await told(undefined)).toBe("again mail_1");
    }
  });

  it("the turn is made again after a crash: what was begun is held, what was not runs, nothing twice", async () => {
    const clock = steeredClock();
    const store = Object.assign(memoryStore({ clock }), { close: async () => {} });
    const before = sending(open(store), {}, (run) => {
      if (run === 2) throw new TypeError("fetch failed");
    });
    expect(await before.told(at("a"))).toBe("mail_1");
    expect(await before.told(at("b"))).toMatch(/It may have happened all the same/);
    const after = sending(open(store), { repeats: 3 });
    const again = [await after.told(at("a")), await after.told(at("b")), await after.told(at("c"))];
    expect(again[0]).toBe("again mail_1");
    expect(again[1]).toMatch(/It may have happened all the same/);
    expect(again[2]).toBe("mail_1");
    expect([before.sent.length, after.sent.length]).toEqual([2, 1]);
  });

  it("a list of the turn's calls says which one it is, also where the others are not made again", async () => {
    const { told } = sending(open(), { repeats: 3 });
    const calls = [
      { id: "a", name: "send", args: ada },
      { id: "b", name: "other", args: ada },
      { id: "c", name: "send", args: { to: "bob" } },
      { id: "d", name: "send", args: { ...ada, body: "Hello" } },
      { id: "e", name: "send", args: ada },
    ];
    expect(await told({ call: "e", calls })).toBe("mail_1");
    expect(await told({ call: "d", calls })).toBe("mail_2");
    expect(await told({ call: "a", calls })).toBe("mail_3");
    expect(await told({ call: "c", calls }, { to: "bob" })).toBe("mail_4");
    expect(await told({ call: "e", calls })).toBe("again mail_1");
  });

  it("calls under way together: the second is another; one whose client is gone is made again in its place", async () => {
    const nt = open();
    const waiting: (() => void)[] = [];
    let runs = 0;
    const guarded = guardTool<Mail, Turn, string>(
      nt,
      { name: "send", key: ["to"], scope: "s", repeats: 3, turn: (turn) => turn, wait: "5s" },
      async () => {
        const mine = ++runs;
        await new Promise<void>((go) => void waiting.push(go));
        return `mail_${mine}`;
      },
    );
    const connection = {};
    const gone = new Set<string>();
    const call = (id: string) =>
      guarded(ada, { call: id, together: connection, gone: () => gone.has(id) }).catch(() => "lost");
    const a = call("a");
    await expect.poll(() => runs).toBe(1);
    const b = call("b");
    await expect.poll(() => runs).toBe(2);
    gone.add("b");
    const again = call("c");
    gone.add("c");
    for (const go of waiting) go();
    expect(await Promise.all([a, b, again])).toEqual(["mail_1", "mail_2", "mail_2"]);
    // Of the answers one did not arrive: its call comes back. After that, the next turn begins with the first.
    expect(await call("d")).toBe("mail_2");
    expect(await call("e")).toBe("mail_1");
    expect(runs).toBe(2);
  });

  it("another amount under the same key is no repeat: in conflict, whichever call of the turn it is", async () => {
    const { told, sent } = sending(open());
    expect(await told(at("a"), { ...ada, cents: 5 })).toBe("mail_1");
    expect(await told(at("b"), { ...ada, cents: 6 })).toMatch(/^Refused, and nothing was done/);
    expect(await told(at("c"), { ...ada, cents: 5, body: "Hello" })).toBe("mail_2");
    expect(sent).toHaveLength(2);
  });

  it("each takes a place under the limit, a repeat takes none", async () => {
    const { told, sent } = sending(open(), { limit: { rate: "1/h" } });
    expect(await told(at("a"))).toBe("mail_1");
    expect(await told(at("a"))).toBe("again mail_1");
    expect(await told(at("b"))).toMatch(/^It did not happen: its limit/);
    expect(sent).toHaveLength(1);
  });

  it("observed: all run, and only the third would have been prevented", async () => {
    const nt = open();
    const { told, sent } = sending(nt, { mode: "observe" });
    for (const call of ["a", "b", "c"]) await told(at(call));
    expect(sent).toHaveLength(3);
    expect(await nt.prevented()).toMatchObject({ prevented: 0, observed: 1 });
  });

  it("once more is granted to one of them, and leaves the other as it is", async () => {
    const nt = open();
    const { told } = sending(nt);
    await told(at("a"));
    const { items } = await nt.store.list({ action: "send", limit: 10 });
    await told(at("b"));
    const second = (await nt.store.list({ action: "send", limit: 10 })).items.find(
      ({ record }) => record.key !== items[0]?.record.key,
    );
    await nt.grantOnceMore({ key: second?.record.key as string }, { by: "kim", reason: "lost" });
    expect(await told(at("x", "t2"))).toBe("again mail_1");
    expect(await told(at("y", "t2"))).toBe("mail_3");
    expect(await told(at("y", "t3"))).toBe("again mail_1");
    expect(await told(at("z", "t3"))).toBe("again mail_3");
  });

  it("is refused without a turn, and where it is no number", () => {
    const nt = open();
    const guard = (options: object) => guardTool(nt, { name: "send", scope: null, ...options } as never, async () => 1);
    expect(() => guard({ repeats: 2 })).toThrow(/Give turn: \(call\) => \(\{ call, turn \}\)/);
    expect(() => guard({ repeats: 2, turn: "t1" })).toThrow(/turn must be a function of the call/);
    for (const repeats of [0, -1, 1.5, 1_001, "2", null, false])
      expect(() => guard({ repeats, turn: () => undefined })).toThrow(/repeats is .*a whole number from 1 to 1000/);
    guard({ repeats: 1 });
  });
});
