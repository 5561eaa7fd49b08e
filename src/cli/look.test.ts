/** ls, show, status, stats: what a person sees. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";
import { widthOf } from "./term/text.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const silent = { state: "sent", attempt: 1, holder: "h.1", lease: { until: 0, epoch: "an earlier boot" } } as const;
const abandoned = { ...silent, state: "claimed" } as const;
const doubtful = (key: string) => ({ key, state: "unknown", attempt: 1, why: "connection reset" }) as const;

describe("ls", () => {
  it("leaves the ledger's own notes out, over pages too, unless they are asked for", async () => {
    for (let i = 0; i < 3; i += 1) {
      await ledger.put({ key: keyLike(`record0${i}`), state: "confirmed", createdAt: i });
      await ledger.put({
        key: keyLike(`notenote${i}`),
        state: "confirmed",
        action: "nevertwice.key",
        createdAt: 10 + i,
      });
    }
    const actionsOf = (json: { records: { action: string }[] }) => json.records.map(({ action }) => action);
    const plain = await ledger.run(["ls", "--json", "--limit", "2"]);
    expect(actionsOf(plain.json)).toEqual(["send_followup", "send_followup"]);
    const rest = await ledger.run(["ls", "--json", "--limit", "2", "--cursor", plain.json.cursor]);
    expect(actionsOf(rest.json)).toEqual(["send_followup"]);
    expect(actionsOf((await ledger.run(["ls", "--json", "--notes"])).json)).toHaveLength(6);
    expect(actionsOf((await ledger.run(["ls", "--json", "--action", "nevertwice.key"])).json)).toHaveLength(3);
  });

  it("shows a silent holder as what it is, and where to go from there", async () => {
    await ledger.put({ key: keyLike("silent01"), ...silent });
    const { out } = await ledger.run(["ls"]);
    expect(out).toMatch(/nt1_silent0100 {2}send_followup {2}unknown\* {4}1 /);
    expect(out).toContain("* its holder stopped answering");
    expect(out).toContain("1 record in doubt");
    expect(out).toContain("\n  nevertwice ls --doubt\n");
  });

  it("shows a record whose holder fell silent before sending as what it is: waiting, and no doubt", async () => {
    await ledger.put({ key: keyLike("lapsed01"), ...abandoned });
    await ledger.put({ key: keyLike("lapsed02"), ...abandoned, queued: true });
    const { out } = await ledger.run(["ls"]);
    expect(out).toMatch(/nt1_lapsed0100 {2}send_followup {2}pending\* {4}1 /);
    expect(out).toContain("pending* its holder stopped answering before anything was sent");
    expect(out).not.toContain("in doubt");
    const { json } = await ledger.run(["ls", "--json", "--oldest"]);
    const seen = json.records.map((one: { state: string; status: string; lapsed: boolean }) => [
      one.state,
      one.status,
      one.lapsed,
    ]);
    expect(seen).toEqual([
      ["claimed", "failed", true],
      ["claimed", "queued", true],
    ]);
    expect((await ledger.run(["show", "lapsed01"])).out).toMatch(/state +pending\*\n.*surely not happened/);
    expect((await ledger.run(["status", "lapsed01"])).out).toMatch(
      /^failed .*stopped answering before anything was sent/,
    );
    expect((await ledger.run(["stats"])).out).toMatch(/silent holders {2}2: .*free for a worker or the next call/);
  });

  it("--doubt lists silent holders and unknown ones, page by page, each once", async () => {
    for (const n of [1, 2, 3]) await ledger.put({ key: keyLike(`silent0${n}`), ...silent });
    for (const n of [1, 2, 3]) await ledger.put(doubtful(keyLike(`doubt0${n}`)));
    await ledger.put({ key: keyLike("fine0001"), state: "confirmed" });
    for (const limit of ["1", "2", "3", "4", "6", "7"]) {
      const seen: string[] = [];
      let cursor: string[] = [];
      for (let page = 0; page < 10; page += 1) {
        const { json } = await ledger.run(["ls", "--doubt", "--json", "--limit", limit, ...cursor]);
        seen.push(...json.records.map((record: { key: string }) => record.key));
        for (const record of json.records) expect(record.status).toBe("unknown");
        if (json.cursor === null) break;
        cursor = ["--cursor", json.cursor];
      }
      expect([limit, seen.length, new Set(seen).size]).toEqual([limit, 6, 6]);
    }
  });

  it("filters, and prints the command for the next page with the same filters", async () => {
    for (const n of [1, 2, 3]) await ledger.put({ key: keyLike(`failed0${n}`), state: "failed", tenant: "ac me" });
    await ledger.put({ key: keyLike("other001"), action: "charge_card" });
    const argv = ["ls", "--state", "failed", "--tenant", "ac me", "--limit", "2", "--oldest"];
    const { out } = await ledger.run(argv);
    expect(out).toContain("nt1_failed0100");
    expect(out).not.toContain("nt1_failed0300");
    const next = /nevertwice (ls .*--cursor \S+)/.exec(out)?.[1] ?? "";
    expect(next).toContain("--oldest --state failed --tenant 'ac me' --limit 2");
    const second = await ledger.run(
      next
        .replace("'ac me'", "ac_me")
        .split(" ")
        .map((word) => word.replace("_me", " me")),
    );
    expect(second.out).toContain("nt1_failed0300");
    expect((await ledger.run(["ls", "--action", "charge_card", "--json"])).json.records).toHaveLength(1);
    expect((await ledger.run(["ls", "--scope", "none"])).out).toBe("No record fits.\n");
  });

  it.each([60, 80, 120])("fits %i columns, and cuts with an ellipsis", async (columns) => {
    const message =
      "550 mailbox unavailable, 用户不存在, and a good deal more to say about that 🙂 than fits on any line".repeat(2);
    const error = { name: "Error", message };
    await ledger.put({ key: keyLike("broad001"), action: "a_rather_long_name_for_an_action", state: "failed", error });
    const { out } = await ledger.run(["ls"], { columns });
    for (const line of out.split("\n")) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    expect(out).toContain("…");
    expect(out).toContain("nt1_broad00100");
  });

  it("has no colour but on a terminal that wants it", async () => {
    await ledger.put(doubtful(keyLike("colour01")));
    expect((await ledger.run(["ls"])).out).not.toContain("\u001b");
    expect((await ledger.run(["ls"], { tty: true, env: { NO_COLOR: "1" } })).out).not.toContain("\u001b");
    expect((await ledger.run(["ls"], { tty: true })).out).toContain("\u001b[33munknown");
  });

  it("lets no stored text move the cursor", async () => {
    const error = { name: "Error", message: "a\u001b[2J\r\nb\u202e\u009b31mc" };
    await ledger.put({ ...doubtful(keyLike("escape01")), state: "failed", error, action: "a\u001b[31m" });
    for (const argv of [["ls"], ["show", "escape01"], ["status", "escape01"], ["stats"]]) {
      const { out } = await ledger.run(argv);
      for (const harmful of ["\u001b", "\r", "\u009b", "\u202e"]) expect(out).not.toContain(harmful);
    }
  });
});

describe("show", () => {
  it("tells a person all there is, and the commands that settle a doubt", async () => {
    const nt = ledger.program();
    const send = nt.action<{ to: string; body: string }, unknown>("send_mail", {
      key: ["to"],
      wait: 0,
      run: () => Promise.reject(new Error("socket hang up")),
    });
    const { key } = await send.attempt({ to: "ada", body: "hello" }, { scope: "run-7" });
    const { out, code } = await ledger.run(["show", key.slice(4, 12)]);
    expect(code).toBe(0);
    expect(out).toContain(`send_mail  ${key}\n`);
    expect(out).toMatch(/state {7}unknown\n {12}in doubt: it may or may not have happened/);
    expect(out).toMatch(/scope {7}run-7/);
    expect(out).toMatch(/created {5}\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d \(now\)/);
    expect(out).toContain('"body": "hello"');
    expect(out).toMatch(/doubt {2}sent → unknown {4}1/);
    for (const as of ["--done --result", "--not-done", "--failed"]) {
      expect(out).toContain(`nevertwice resolve ${key.slice(0, 14)} ${as} `);
    }
    const { json } = await ledger.run(["show", key, "--json"]);
    expect(json.record).toMatchObject({ key, status: "unknown", input: { value: { to: "ada", body: "hello" } } });
  });

  it("repeats --store in what it suggests", async () => {
    await ledger.put(doubtful(keyLike("doubt001")));
    const { out } = await ledger.run(["show", "doubt001", "--store", `sqlite:${ledger.path}`]);
    expect(out).toContain(`--not-done --reason '…' --store sqlite:${ledger.path}`);
  });

  it("shows what is sealed as sealed", async () => {
    const nt = ledger.program({ encrypt: "a".repeat(64) });
    const pay = nt.action("pay", { key: ["order"], run: (_: Record<string, unknown>) => ({ id: "ch_1" }) });
    await pay({ order: "secret order" });
    const key = await pay.keyOf({ order: "secret order" });
    const { out } = await ledger.run(["show", key]);
    expect(out).toMatch(/input {7}\(sealed\)\nresult {6}\(sealed\)/);
    const { json } = await ledger.run(["show", key, "--json"]);
    expect(json.record).toMatchObject({ input: { sealed: true }, result: { sealed: true } });
    expect(JSON.stringify(json)).not.toContain("ntseal");
    expect((await ledger.run(["status", key])).code).toBe(0);
  });

  it("commands to copy keep the tenant of this call", async () => {
    await ledger.put({ key: keyLike("tenant01"), state: "unknown", tenant: "ac me" });
    const listed = await ledger.run(["ls", "--tenant", "ac me"]);
    expect(listed.out).toMatch(/nevertwice ls --doubt --tenant 'ac me'/);
    const doubts = await ledger.run(["ls", "--doubt", "--tenant", "ac me"]);
    expect(doubts.out).toMatch(/nevertwice show nt1_\S+ --tenant 'ac me'/);
    const absent = await ledger.run(["show", keyLike("tenant02"), "--tenant", "ac me"]);
    expect(absent.err).toContain("nevertwice ls --tenant 'ac me'");
    const health = await ledger.run(["doctor", "--tenant", "ac me", "--json"]);
    expect(health.out).toContain("nevertwice ls --doubt --tenant 'ac me'");
  });

  it("lists the candidates of an ambiguous beginning, and finds nothing of another tenant", async () => {
    await ledger.put({ key: keyLike("pairs0001"), tenant: "acme" });
    await ledger.put({ key: keyLike("pairs0002"), tenant: "bolt" });
    const { code, err } = await ledger.run(["show", "nt1_pairs000"]);
    expect(code).toBe(2);
    expect(err).toContain(keyLike("pairs0001"));
    expect(err).toContain(keyLike("pairs0002"));
    expect((await ledger.run(["show", "nt1_pairs000", "--tenant", "acme"])).out).toContain(keyLike("pairs0001"));
    const foreign = await ledger.run(["show", keyLike("pairs0002"), "--tenant", "acme"]);
    expect([foreign.code, foreign.err]).toEqual([1, expect.stringContaining('no record of the tenant "acme"')]);
    expect((await ledger.run(["show", "NT1_PAIRS0002…"])).code).toBe(0);
  });
});

it("B6 ls, show and status say when queued work is tried next, and when it is given up", async () => {
  const now = Date.now();
  const waiting = { state: "pending", queued: true, dueAt: now + 7_200_500, attempt: 9, tries: 9 } as const;
  const terms = { givesUpAt: now + 2 * 86_400_500 };
  const error = { name: "Error", message: "connect ECONNREFUSED" };
  await ledger.put({ key: keyLike("queue001"), ...waiting, terms, error });
  expect((await ledger.run(["ls"])).out).toContain("due in 2 hours, gives up in 2");
  expect((await ledger.run(["show", "queue001"])).out).toMatch(
    /\n *due +20.* \(in 2 hours\)\n *gives up +20.* \(in 2 days\)/,
  );
  expect((await ledger.run(["status", "queue001"])).out).toMatch(/^queued .*due 20.*; gives up 20.* \(in 2 days\)/);
  const { json } = await ledger.run(["ls", "--json"]);
  expect(json.records).toMatchObject([{ givesUpAt: terms.givesUpAt, dueAt: waiting.dueAt }]);
  expect((await ledger.run(["status", "queue001", "--json"])).json.outcome).toMatchObject(terms);
});

describe("status", () => {
  const now = Date.now();
  const cases = [
    ["done", 0, { state: "confirmed", settledAt: now }],
    ["queued", 11, { state: "pending", queued: true, dueAt: now + 60_000 }],
    ["failed", 12, { state: "failed", final: true, settledAt: now }],
    ["failed", 12, { state: "pending", queued: false }],
    ["unknown", 13, { state: "unknown" }],
    ["unknown", 13, silent],
    ["queued", 11, { ...abandoned, queued: true }],
    ["failed", 12, abandoned],
    ["absent", 15, { state: "confirmed", settledAt: now - 2, expiresAt: now - 1 }],
  ] as const;
  it.each(cases)("%s exits %i", async (status, code, overrides) => {
    await ledger.put({ key: keyLike("status01"), ...overrides });
    const said = await ledger.run(["status", "status01"]);
    expect([said.code, said.out.split(" ")[0], said.out.trim().split("\n").length]).toEqual([code, status, 1]);
    const { json } = await ledger.run(["status", "status01", "--json"]);
    expect(json.outcome).toMatchObject({ status, key: keyLike("status01") });
  });

  it("in_flight exits 10, absent 15", async () => {
    const { steady, epoch } = ledger.store.instant?.() ?? { steady: 0, epoch: "" };
    await ledger.put({ key: keyLike("flight01"), ...silent, lease: { until: steady + 60_000, epoch } });
    expect((await ledger.run(["status", "flight01"])).code).toBe(10);
    expect((await ledger.run(["status", keyLike("none0001")])).code).toBe(15);
  });
});

describe("stats", () => {
  it("counts per action and state, and one tenant's alone", async () => {
    await ledger.put({ key: keyLike("stats001"), state: "confirmed", tenant: "acme" });
    await ledger.put({ key: keyLike("stats002"), action: "charge_card", tenant: "bolt" });
    await ledger.put({ key: keyLike("stats003"), ...silent, tenant: "acme" });
    const { out } = await ledger.run(["stats"]);
    expect(out).toMatch(/^3 records in sqlite:/);
    expect(out).toMatch(/send_followup +0 +0 +1 +1 +0 +0 +2\n/);
    expect(out).toMatch(/all +1 +0 +1 +1 +0 +0 +3\n/);
    expect(out).toContain("silent holders  1");
    const { json } = await ledger.run(["stats", "--tenant", "acme", "--json"]);
    expect(json).toMatchObject({ total: 2, lapsed: 1, states: { confirmed: 1, sent: 1, pending: 0 } });
  });

  it("does not count the ledger's own notes, and neither does any other list of intents", async () => {
    const nt = ledger.program();
    const send = nt.action("send", { key: ["to"], run: (_: { to: string }) => ({ id: "msg_1" }) });
    await send({ to: "ada" });
    await send({ to: "ada" });
    await nt.sweep();
    await ledger.put({ key: keyLike("note01"), action: "nevertwice.line", state: "confirmed" });
    await ledger.put({ key: keyLike("note02"), action: "job-since:digest", state: "confirmed" });
    expect(await nt.store.stats()).toMatchObject({ total: 4 });
    const counted = { total: 1, states: { confirmed: 1 }, actions: [{ action: "send", total: 1 }] };
    expect((await ledger.run(["stats", "--json"])).json).toMatchObject(counted);
    expect((await ledger.run(["stats"])).out).toMatch(/^1 record in .*\n\n.*\nsend .* 1\n\nprevented +1 duplicate/);
    expect((await ledger.run(["ls", "--json"])).json.records).toMatchObject([{ action: "send" }]);
    expect(await nt.find({ providerId: "msg_1" })).toMatchObject([{ action: "send" }]);
    expect((await ledger.run(["doctor", "--deep", "--json"])).json.healthy).toBe(true);
    await nt.forget({ key: await send.keyOf({ to: "ada" }) }, { by: "ada", reason: "asked" });
    await nt.sweep();
    expect((await ledger.run(["stats", "--json"])).json).toMatchObject({ total: 0, actions: [] });
    expect((await ledger.run(["stats"])).out).toMatch(/^0 records in .*\n\nprevented +1 duplicate/);
  });
});

it.each(["report", "send_mail", "Send Mail"])(
  "show %s: a name that is no key is taken for an action's",
  async (name) => {
    await ledger.program().action("send", { key: ["to"], run: (_: Record<string, unknown>) => "sent" })({ to: "ada" });
    const { code, err } = await ledger.run(["show", name]);
    const word = name.includes(" ") ? `'${name}'` : name;
    expect([code, err]).toEqual([
      2,
      expect.stringContaining(`The records of an action of that name: nevertwice ls --action ${word}\n`),
    ]);
  },
);

it("show of a key that is too short does not take it for a name", async () => {
  const { code, err } = await ledger.run(["show", "nt1_abc"]);
  expect([code, err]).toEqual([2, expect.stringContaining("List what there is with: nevertwice ls\n")]);
});

it.each([45, 184, 300, 364, 732])("ls and show say a keep of %i days as it was configured", async (days) => {
  const send = ledger
    .program()
    .action("send", { key: ["to"], keep: `${days}d`, run: (_: Record<string, unknown>) => "sent" });
  await send({ to: "ada" });
  expect((await ledger.run(["ls"], { columns: 120 })).out).toContain(`kept ${days}d more`);
  const key = await send.keyOf({ to: "ada" });
  expect((await ledger.run(["show", key], { columns: 120 })).out).toMatch(new RegExp(`keep .*\\(in ${days} days\\)`));
});
