/** Doubts with the same error: put together by ls --doubt, settled in one decision by resolve --group. */
import { join } from "node:path";
import { type LedgerRecord, NevertwiceError, nevertwice, type Store } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { flushableRedisDb, freshDatabase } from "../../../test/services/addresses.ts";
import { CliLedger, keyLike } from "../../../test/support/cli.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { kindOfDoubt, shapeOf } from "../../core/doubt-cause.ts";
import type { Put } from "../../core/store.ts";
import { memoryStore } from "../../stores/memory.ts";
import { sampleRecord } from "../../testing/index.ts";
import { settleGroup } from "../resolve/group.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const sign = ["--by", "me", "--reason", "the provider never saw them"];

/** `count` doubts of one action with the same kind of error, each about another address. */
async function doubts(count: number, { action = "send_mail", message = "invalid email", from = 0 } = {}) {
  const keys: string[] = [];
  for (let i = from; i < from + count; i += 1) {
    const key = keyLike(`${action.replace(/[^a-v]/g, "")}${i}k${message.length}k`);
    const error = { name: "Error", message: `${message} "user${i}@example.com" (request ${1000 + i})` };
    await ledger.put({
      key,
      action,
      state: "unknown",
      attempt: 1,
      why: "an error nobody classified (Error)",
      error,
      doubtSince: Date.now() - 60_000 + i,
    });
    keys.push(key);
  }
  return keys;
}

async function groups(...argv: string[]) {
  const { json } = await ledger.run(["ls", "--doubt", "--json", ...argv]);
  return json.groups as { id: string; action: string; error: string; count: number }[];
}

async function statesOf(keys: readonly string[]) {
  return (await ledger.store.read(keys)).map((stored) => stored?.record.state);
}

describe("the kind of an error", () => {
  it.each([
    ['invalid email "ada@example.com"', 'invalid email "bob@example.com"'],
    ["no account 8812", "no account 7"],
    ["no such user ada@example.com", "no such user bob@example.org"],
    ["it's not 'red' enough", "it's not 'blue' enough"],
    ["request req_8fA2 failed", "request req_9xB7 failed"],
    ["0c5d5bd8-6e0e-4be7-9df4-0a6d2f9d7c11 is gone", "7d0e13a0-91f1-4c3f-8d61-3f6f0f8a7b22 is gone"],
    ["cannot reach https://a.example/x?y=1", "cannot reach https://b.example/z"],
    ["no answer within 463 ms", "no answer within 1200 ms"],
    ["gave up after 500 attempts", "gave up after 17 attempts"],
    ["socket hang up (request 409)", "socket hang up (request 7)"],
    ["no order #512 of account: 404", "no order #9 of account: 7"],
  ])("is the same for %s and %s", (one, other) => {
    expect(shapeOf(one)).toBe(shapeOf(other));
  });

  it.each([
    ["invalid email", "invalid name"],
    ["Request failed with status code 400", "Request failed with status code 500"],
    ["500 Server Error", "400 Server Error"],
    ["request failed: 500", "request failed: 400"],
    ["the server answered 503", "the server answered 404"],
    ["don't send", "can't send"],
  ])("differs for %s and %s", (one, other) => {
    expect(shapeOf(one)).not.toBe(shapeOf(other));
  });

  it("is the action's too, and a code's; it is the same in every process", () => {
    const record = sampleRecord({ state: "unknown", action: "send", error: { name: "Error", message: "no" } });
    const kinds = [
      record,
      { ...record, action: "pay" },
      { ...record, error: { name: "TypeError", message: "no" } },
      { ...record, error: { name: "Error", message: "no", code: "ENO" } },
      { ...record, error: null, why: "no answer within 50s" },
      { ...record, error: null, why: null },
    ].map((one) => kindOfDoubt(one).id);
    expect(new Set(kinds).size).toBe(kinds.length);
    expect(kinds[0]).toBe("8fb32051");
  });

  it.each([
    ['"invalid email"', '"no such customer"'],
    ['{"error":"invalid email"}', '{"error":"no such customer"}'],
    ['Error: "invalid email"', 'Error: "no such customer"'],
    ["10001", "20002"],
    ["https://h/invalid-email", "https://h/no-such-customer"],
    ["Failed: …", "Failed: …"],
    ["…", "…"],
  ])("whose words are all left out is not taken for another's: %s and %s", (one, other) => {
    const kinds = [one, other].map((message, i) =>
      kindOfDoubt(sampleRecord({ key: keyLike(`k${i}`), state: "unknown", error: { name: "Error", message } })),
    );
    expect(kinds[0]?.id).not.toBe(kinds[1]?.id);
    expect(kinds[0]?.error).toBe(`Error: ${one}`);
  });

  it("whose words are all left out is the same for the same message", () => {
    for (const message of ['{"error":"invalid email"}', "10001", "", "failed"]) {
      const ids = [1, 2].map(
        (i) =>
          kindOfDoubt(sampleRecord({ key: keyLike(`k${i}`), state: "unknown", error: { name: "Error", message } })).id,
      );
      expect(ids[0]).toBe(ids[1]);
    }
  });

  it("is found in a moment, whatever somebody wrote", () => {
    expect(shapeOf("'".repeat(100_000)).length).toBeLessThan(600);
    expect(shapeOf(`${"a-".repeat(50_000)}!`).length).toBeLessThan(600);
  });
});

describe("ls --doubt", () => {
  it("a decision about one error whose words are all left out settles no other one", async () => {
    const put = (key: string, message: string) =>
      ledger.put({
        key: keyLike(key),
        action: "send_mail",
        state: "unknown",
        attempt: 1,
        why: "an error nobody classified (Error)",
        error: { name: "Error", message },
      });
    for (const [i, message] of ['"invalid email"', '"invalid email"', '"maybe sent"', "…", "…"].entries())
      await put(`mask${i}000`, message);
    const found = await groups();
    expect(found.map(({ count }) => count)).toEqual([2, 1, 1, 1]);
    await ledger.run(["resolve", "--group", found[0]?.id ?? "", "--not-done", "--yes", ...sign]);
    const keys = [0, 1, 2, 3, 4].map((i) => keyLike(`mask${i}000`));
    expect(await statesOf(keys)).toEqual(["pending", "pending", "unknown", "unknown", "unknown"]);
  });

  it("puts doubts with the same error together, and shows the command and the line of code", async () => {
    await doubts(3);
    await doubts(2, { action: "pay", message: "no answer" });
    await doubts(1, { action: "once", message: "alone" });
    const { out } = await ledger.run(["ls", "--doubt"], { columns: 160 });
    const [first] = await groups();
    const { groups: listed } = (await ledger.run(["ls", "--doubt", "--json"])).json;
    for (const { since } of listed) expect(since).toSatisfy((ms) => Number.isInteger(ms) && ms <= Date.now());
    expect(out).toContain("Doubts with the same error\n");
    expect(out).toMatch(new RegExp(`${first?.id} +3 +send_mail +\\d+[sm] +Error: invalid email … \\(request #\\)`));
    expect(out).toContain(`\n  nevertwice resolve --group ${first?.id} --not-done\n`);
    const text = out.replace(/\s+/g, " ");
    expect(text).toContain("throw refused(error)");
    expect(text).toContain('tools: { send_mail: { errors: "not-done" } }');
    expect(await groups()).toMatchObject([
      { action: "send_mail", count: 3 },
      { action: "pay", count: 2 },
      { action: "once", count: 1 },
    ]);
    expect(await groups("--action", "pay")).toMatchObject([{ action: "pay", count: 2 }]);
  });

  it("offers nothing to group where each has an error of its own; says nothing where nothing is in doubt", async () => {
    expect(await groups()).toEqual([]);
    await doubts(1);
    const { out } = await ledger.run(["ls", "--doubt"]);
    expect(out).not.toContain("--group");
  });

  it("escapes what an agent wrote into a name or a message", async () => {
    for (const n of [1, 2])
      await ledger.put({
        key: keyLike(`evi${n}0000`),
        action: "send\u001b[2J",
        state: "unknown",
        attempt: 1,
        why: "an error nobody classified (Error)",
        error: { name: "Error", message: "gone\u001b]0;x\u0007 \u202eliam" },
      });
    const shown = [await ledger.run(["ls", "--doubt"]), await ledger.run(["show", "evi10000"])];
    const [group] = await groups();
    shown.push(await ledger.run(["resolve", "--group", group?.id ?? "", "--not-done"]));
    for (const { out } of shown) {
      expect(out).toContain("\\u001b");
      for (const harmful of ["\u001b", "\u0007", "\u202e"]) expect(out).not.toContain(harmful);
    }
  });

  it("show names the group, and the line of code", async () => {
    const [key = ""] = await doubts(1);
    const { out } = await ledger.run(["show", key]);
    const [group] = await groups();
    expect(out).toContain(`nevertwice resolve --group ${group?.id} --not-done`);
    expect(out).toContain("`throw rejected(error)`");
  });
});

describe("resolve --group", () => {
  it("only shows without --yes; the command it prints settles those that were shown, and no later ones", async () => {
    const keys = await doubts(25);
    const others = await doubts(2, { message: "no answer" });
    const [group] = await groups();
    const seen = await ledger.run(["resolve", "--group", group?.id ?? "", "--not-done", ...sign], { columns: 300 });
    expect(seen).toMatchObject({ code: 0, err: "" });
    expect(seen.out).toContain("… and 5 more");
    expect(seen.out).toContain("25 doubts would become pending");
    expect(new Set(await statesOf(keys))).toEqual(new Set(["unknown"]));

    const line = /nevertwice (resolve --group .*)/.exec(seen.out)?.[1] ?? "";
    expect(line).toMatch(/--before \S+ --by me --reason 'the provider never saw them' --yes$/);
    const later = keyLike("later000");
    const [like] = await ledger.store.read([keys[0] as string]);
    await ledger.put({ ...(like?.record as object), key: later, doubtSince: Date.now() + 60_000 });
    const argv = line.split(/ (?=--)/).flatMap((part) => {
      const [, flag = "", value] = /^(\S+)(?: (.*))?$/.exec(part) ?? [];
      return value === undefined ? [flag] : [flag, value.replace(/^'|'$/g, "")];
    });
    const done = await ledger.run(argv);
    expect(done).toMatchObject({ code: 0, err: "" });
    expect(done.out).toContain("25 doubts: unknown → pending (they did not happen, and may be run again).");
    expect(new Set(await statesOf(keys))).toEqual(new Set(["pending"]));
    expect(await statesOf([...others, later])).toEqual(["unknown", "unknown", "unknown"]);
    const { json } = await ledger.run(["show", keys[7] as string, "--json"]);
    expect(json.record.history.at(-1)).toMatchObject({ event: "resolved-not-done", by: "me", reason: sign[3] });
  });

  it("--done and --failed, --limit, --tenant, and --json", async () => {
    const keys = await doubts(5);
    const [group] = await groups();
    const id = group?.id ?? "";
    const some = await ledger.run(["resolve", "--group", id, "--failed", "--limit", "2", "--yes", ...sign, "--json"]);
    expect(some.json).toMatchObject({ group: { id, action: "send_mail" }, as: "failed", dryRun: false, refused: [] });
    expect(some.json.settled).toHaveLength(2);
    const none = await ledger.run(["resolve", "--group", id, "--done", "--tenant", "other", "--yes", ...sign]);
    expect([none.code, none.err]).toEqual([1, expect.stringContaining(`there is no doubt of the group ${id}`)]);
    const dry = await ledger.run(["resolve", "--group", id, "--done", "--json"]);
    expect(dry.json).toMatchObject({ dryRun: true });
    expect(dry.json.settled).toHaveLength(3);
    await ledger.run(["resolve", "--group", id, "--done", "--yes", ...sign]);
    expect((await statesOf(keys)).toSorted()).toEqual(["confirmed", "confirmed", "confirmed", "failed", "failed"]);
    expect((await ledger.run(["resolve", "--group", id, "--done", "--yes", ...sign])).code).toBe(1);
  });

  it("silent holders are a group too, and are settled without a sweep", async () => {
    const silent = { state: "sent", attempt: 1, holder: "h.1", lease: { until: 0, epoch: "an earlier boot" } } as const;
    const keys = [1, 2, 3].map((n) => keyLike(`silent0${n}`));
    for (const key of keys) await ledger.put({ key, ...silent });
    const [group] = await groups();
    expect(group).toMatchObject({ count: 3, error: "its holder stopped answering after the send mark" });
    await ledger.run(["resolve", "--group", group?.id ?? "", "--not-done", "--yes", ...sign]);
    expect(await statesOf(keys)).toEqual(["pending", "pending", "pending"]);
  });

  it("one that cannot be settled stops no other; a store that is down ends it, and says what was done", async () => {
    const failing = (store: Store, fails: (keys: readonly string[]) => Error | null): Store =>
      new Proxy(store, {
        get: (target, name) => {
          const own = Reflect.get(target, name) as unknown;
          if (typeof own !== "function") return own;
          return async (...args: unknown[]) => {
            const keys = name === "write" ? (args[0] as readonly Put[]).map(({ record }) => record.key) : [];
            const error = name === "write" ? fails(keys) : null;
            if (error !== null) throw error;
            return own.apply(target, args);
          };
        },
      });
    const error = { name: "Error", message: "no" };
    const doubt = (n: number) =>
      sampleRecord({ key: keyLike(`doubt0${n}`), state: "unknown", attempt: 1, createdAt: n, error });
    const { id } = kindOfDoubt(doubt(1));
    const wanted = {
      id,
      as: "not-done",
      fits: (record: LedgerRecord) => kindOfDoubt(record).id === id,
      since: Number.NEGATIVE_INFINITY,
      before: Number.POSITIVE_INFINITY,
      limit: undefined,
      signature: { by: "me", reason: "r" },
    } as const;
    const filled = async () => {
      const store = memoryStore();
      for (const n of [1, 2, 3]) await store.write([{ record: doubt(n), expected: null }]);
      return store;
    };
    const [first, second, third] = [1, 2, 3].map((n) => keyLike(`doubt0${n}`));
    // Written together with others, one damaged row spoils the whole write.
    const damaged = failing(await filled(), (keys) => (keys.includes(second as string) ? new Error("damaged") : null));
    const { settled, refused, stopped } = await settleGroup(damaged, { order: "oldest" }, wanted, {
      named: true,
    });
    expect(settled.map(({ key }) => key)).toEqual([first, third]);
    expect(refused).toMatchObject([{ key: second }]);
    expect(stopped).toBeNull();
    const gone = failing(await filled(), () => new NevertwiceError("STORE_UNAVAILABLE", "down"));
    expect(await settleGroup(gone, { order: "oldest" }, wanted)).toMatchObject({
      count: 0,
      stopped: expect.stringContaining("down"),
    });
  });

  it("says what is missing or wrong", async () => {
    const cases: [string[], RegExp][] = [
      [["resolve", "--group", "x", "--done"], /--group x: that is not the id of a group/],
      [["resolve", "--group", "00000000"], /say how it is settled/],
      [["resolve", "--group", "00000000", "--done", "--yes"], /--reason is missing/],
      [["resolve", "nt1_q3v0m2k8ab", "--group", "00000000", "--done"], /a key or --group, not both/],
      [["resolve", "--group", "00000000", "--done", "--result", "1"], /--result is for one record/],
      [["resolve", "--group", "00000000", "--done", "--before", "noon"], /--before noon is not a time/],
      [["resolve", "--group", "00000000", "--done", "--before", "02/10/2026"], /--before 02\/10\/2026 is not a time/],
      [["resolve", "--group", "00000000", "--done", "--before", "2026-10-02 09:00"], /has no time zone.*T09:00:00Z/],
      [["resolve", "nt1_q3v0m2k8ab", "--done", "--yes", ...sign], /--yes goes with --group/],
    ];
    for (const [argv, said] of cases) {
      const { code, err } = await ledger.run(argv);
      expect([argv.join(" "), code, err]).toEqual([argv.join(" "), 2, expect.stringMatching(said)]);
    }
  });
});

const STORES: Readonly<Record<string, () => Promise<string>>> = {
  sqlite: async () => `sqlite:${join(temporaryFolder(), "ledger.db")}`,
  file: async () => `file:${join(temporaryFolder(), "ledger.jsonl")}`,
  postgres: async () => (await freshDatabase()).url,
  redis: () => flushableRedisDb(),
};

describe.each(Object.entries(STORES))("on %s", (_, open) => {
  it("the doubts of a tool are grouped, and settled in one decision", async () => {
    const store = await open();
    const nt = nevertwice({ store, sweep: false, onWarning: () => {} });
    onTestFinished(() => nt.close());
    let broken = true;
    const send = nt.action("send_mail", {
      key: ["to"],
      run: ({ to }: { to: number }) => {
        if (broken) throw new Error(`invalid email "${to}"`);
        return to;
      },
    });
    for (let to = 0; to < 30; to += 1) await send.attempt({ to });
    const { json } = await ledger.run(["ls", "--doubt", "--json", "--limit", "5", "--store", store]);
    expect(json.groups).toMatchObject([{ action: "send_mail", error: "Error: invalid email …", count: 30 }]);
    const settle = ["resolve", "--group", json.groups[0].id, "--not-done", "--yes", ...sign, "--store", store];
    expect((await ledger.run([...settle, "--json"])).json.settled).toHaveLength(30);
    broken = false;
    expect(await send({ to: 29 })).toBe(29);
  });
});
