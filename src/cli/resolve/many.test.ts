/** Many doubts at once: ls --doubt --group, resolve --all, resolve --from. Told from the operator's side. */
import { utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LedgerRecord, nevertwice, type Store } from "nevertwice";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { CliLedger, keyLike } from "../../../test/support/cli.ts";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { hasCause, kindOfDoubt } from "../../core/doubt-cause.ts";
import { sampleRecord } from "../../testing/index.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const sign = ["--by", "me", "--reason", "looked up in the provider's export"];
const wide = { columns: 400 };

const CAUSES = [
  {
    name: "Error",
    message: (i: number) => `socket hang up (request req_${i})`,
    text: "Error: socket hang up (request #)",
  },
  {
    name: "TimeoutError",
    message: (i: number) => `no answer from 10.0.0.${i % 250} within ${i} ms`,
    code: "ETIMEDOUT",
    text: "TimeoutError: no answer from #.#.#.# within # ms (ETIMEDOUT)",
  },
  { name: "Error", message: (i: number) => `502 from https://api.example.com/mails/${i}`, text: "Error: 502 from …" },
] as const;

function doubt(i: number, overrides: Partial<LedgerRecord> = {}): LedgerRecord {
  const cause = CAUSES[i % 3] as (typeof CAUSES)[number];
  const error = { name: cause.name, message: cause.message(i), ...("code" in cause && { code: cause.code }) };
  return sampleRecord({
    key: keyLike(i.toString(32).padStart(8, "0")),
    action: "send_mail",
    state: "unknown",
    attempt: 1,
    createdAt: Date.now() - 3_600_000 + i,
    doubtSince: Date.now() - 60_000 + (i % 1_000),
    why: "an error nobody classified (Error)",
    error,
    ...overrides,
  });
}

async function fill(store: Store, count: number, of: (i: number) => Partial<LedgerRecord> = () => ({})) {
  for (let from = 0; from < count; from += 500) {
    const some = Array.from({ length: Math.min(500, count - from) }, (_, i) => doubt(from + i, of(from + i)));
    await store.write(some.map((record) => ({ record, expected: null })));
  }
}

const stateOf = async (i: number, store = ledger.store) =>
  (await store.read([keyLike(i.toString(32).padStart(8, "0"))]))[0]?.record.state;

/** As a shell would take a line apart. */
function words(line: string): string[] {
  const found = line.match(/(?:'[^']*'|\\.|[^\s'\\])+/g) ?? [];
  return found.map((word) => word.replace(/'([^']*)'|\\(.)/g, (_, quoted, escaped) => quoted ?? escaped));
}

const STORES: Readonly<Record<string, () => Promise<string>>> = {
  sqlite: async () => `sqlite:${join(temporaryFolder(), "ledger.db")}`,
  postgres: async () => (await freshDatabase()).url,
};

describe.each(Object.entries(STORES))("5 000 doubts of three causes on %s", (_, open) => {
  it("are grouped, previewed, settled by cause and by file, and none is left out", async () => {
    const name = await open();
    const nt = nevertwice({ store: name, sweep: false });
    onTestFinished(() => nt.close());
    await fill(nt.store, 5_000);
    // A password is not repeated on the screen: the store is named anew.
    const copied = (command: string) => words(command.replace(/^nevertwice /, "").replace(/ --store .*$/, ""));
    const run = (...argv: string[]) => ledger.run([...argv, "--store", name], wide);

    const { json } = await run("ls", "--doubt", "--group", "--json");
    expect(json).toMatchObject({ counted: 5_000, beyond: 0 });
    expect(json.groups.map(({ error, count }: { error: string; count: number }) => [error, count])).toEqual([
      [CAUSES[0].text, 1_667],
      [CAUSES[1].text, 1_667],
      [CAUSES[2].text, 1_666],
    ]);
    const listed = await run("ls", "--doubt", "--group");
    expect(listed.out).toMatch(/doubts +action +oldest +example +cause/);
    expect(listed.out).toMatch(/1667 +send_mail +\d+[sm] +nt1_\w+ +Error: socket hang up \(request #\)/);

    // The command of each group, copied as it stands, is about that group and no other.
    for (const { command, count, error } of json.groups) {
      expect(listed.out).toContain(`  ${command}\n`);
      const dry = await run(...copied(command), "--json");
      expect([dry.code, dry.json.dryRun, dry.json.count]).toEqual([0, true, count]);
      expect(dry.json.groups).toMatchObject([{ error, count }]);
    }
    const dry = await run(...copied(json.groups[0].command));
    expect(dry.out).toContain(
      "1667 doubts would become pending: they did not happen, and may be run again. Nothing was changed.",
    );
    const settle = /^ {2}nevertwice (resolve --all .* --yes.*)$/m.exec(dry.out)?.[1] ?? "";
    expect(settle).toMatch(/--before \S+ .*--reason '…' --yes/);
    const done = await run(...copied(settle), ...sign);
    expect([done.code, done.err]).toEqual([0, ""]);
    expect(done.out).toContain("1667 doubts: unknown → pending");
    expect((await nt.store.stats()).states).toMatchObject({ pending: 1_667, unknown: 3_333 });

    const decisions = join(ledger.folder, "decisions.jsonl");
    const line = (i: number) => ({
      key: doubt(i).key,
      as: i % 3 === 1 ? "done" : "failed",
      ...(i % 3 === 1 && { result: { id: i } }),
    });
    const lines = Array.from({ length: 5_000 }, (_, i) => i)
      .filter((i) => i % 3 !== 0)
      .map((i) => JSON.stringify(line(i)));
    writeFileSync(decisions, `${lines.join("\n")}\n`);
    const apply = ["resolve", "--from", "decisions.jsonl", ...sign, "--yes"];
    const preview = await run(...apply.slice(0, -1));
    expect(preview.out).toMatch(/1667 +done +send_mail +TimeoutError/);
    expect(preview.out).toContain("3333 of 3333 decisions in decisions.jsonl would be applied. Nothing was changed.");
    expect((await nt.store.stats()).states.unknown).toBe(3_333);
    const applied = await run(...apply);
    expect([applied.code, applied.err]).toEqual([0, ""]);
    expect(applied.out).toContain("3333 of 3333 decisions in decisions.jsonl were applied.");
    expect((await nt.store.stats()).states).toMatchObject({ confirmed: 1_667, failed: 1_666, unknown: 0 });
    const again = await run(...apply);
    expect([again.code, again.err]).toEqual([0, ""]);
    expect(again.out).toContain("Nothing was changed by the 3333 decisions in decisions.jsonl.");
    expect(again.out).toContain("3333 of them: the record was settled the same way before, and stays as it is.");
  }, 120_000);
});

describe("the cause that --error takes", () => {
  const record = (message: string, more: object = {}, name = "Error") =>
    sampleRecord({ key: keyLike("k"), state: "unknown", error: { name, message, ...more } });

  it("is the shown one, or the error as it came, and selects what the group shows", () => {
    for (const one of [
      doubt(0),
      doubt(1),
      doubt(2),
      record("E11000 dup key", { code: "E11000" }),
      record('"only quotes"'),
    ]) {
      const { error } = kindOfDoubt(one);
      expect(hasCause(error)(one)).toBe(true);
      expect(hasCause(`  ${error}\n`)(one)).toBe(true);
      const code = one.error?.code === undefined ? "" : ` (${one.error.code})`;
      expect(hasCause(`${one.error?.name}: ${one.error?.message}${code}`)(one)).toBe(true);
    }
    expect(hasCause("Error: socket hang up (request req_77)")(doubt(0))).toBe(true);
  });

  it("is no part of one, and no other error's", () => {
    for (const text of [
      "socket hang up",
      "Error: socket",
      "socket hang up (request #)",
      "TypeError: socket hang up (request #)",
      "",
    ])
      expect(hasCause(text)(doubt(0))).toBe(false);
    const nested = record("Error: foo", {}, "Wrapped");
    expect([hasCause("Error: foo")(nested), hasCause("Wrapped: Error: foo")(nested)]).toEqual([false, true]);
    expect(hasCause("Error: 502 from …")(record("503 from https://x.y"))).toBe(false);
    expect(hasCause("Error: dup key (E1)")(record("dup key", { code: "E2" }))).toBe(false);
    // Redacted to nothing: two of them need not be alike.
    expect(hasCause("Error: …")(record("…"))).toBe(false);
  });

  it("a silent holder's doubt has the same cause before and after a sweep has written it down", () => {
    const silent = sampleRecord({ key: keyLike("k"), state: "sent", error: null, why: null });
    const written = {
      ...silent,
      state: "unknown",
      why: "its holder stopped answering after the send mark: the lease ran out",
    } as const;
    expect(kindOfDoubt(written)).toEqual(kindOfDoubt(silent));
  });
});

describe("resolve --all", () => {
  it("keeps to its filters: action, agent, scope, tenant, --since and --before", async () => {
    const at = Date.parse("2026-01-15T09:00:00Z");
    await fill(ledger.store, 12, (i) => ({
      error: { name: "Error", message: "socket hang up" },
      action: i < 6 ? "send_mail" : "pay",
      agent: i % 2 === 0 ? "mailer" : "billing",
      scope: i % 3 === 0 ? "s1" : "s2",
      tenant: i % 4 === 0 ? "acme" : "",
      doubtSince: at + i * 60_000,
    }));
    const count = async (...flags: string[]) => {
      const { json } = await ledger.run([
        "resolve",
        "--all",
        "--error",
        "Error: socket hang up",
        "--failed",
        "--json",
        ...flags,
      ]);
      return json.settled
        .map(({ key }: { key: string }) => Number.parseInt(key.slice(4, 12), 32))
        .sort((a: number, b: number) => a - b);
    };
    expect(await count()).toHaveLength(12);
    expect(await count("--action", "pay")).toEqual([6, 7, 8, 9, 10, 11]);
    expect(await count("--agent", "mailer")).toEqual([0, 2, 4, 6, 8, 10]);
    expect(await count("--scope", "s1")).toEqual([0, 3, 6, 9]);
    expect(await count("--tenant", "acme")).toEqual([0, 4, 8]);
    expect(await count("--since", "2026-01-15T09:02:00Z", "--before", "2026-01-15T09:05:00Z")).toEqual([2, 3, 4]);
    expect(await count("--limit", "2")).toEqual([0, 1]);
    await ledger.run(["resolve", "--all", "--action", "pay", "--agent", "mailer", "--failed", "--yes", ...sign]);
    expect(await Promise.all([5, 6, 7, 8].map((i) => stateOf(i)))).toEqual(["unknown", "failed", "unknown", "failed"]);
  });

  it("a doubt that somebody else settles meanwhile stays as it was, and one that came up again is not decided", async () => {
    await fill(ledger.store, 40, () => ({ error: { name: "Error", message: "socket hang up" } }));
    const other = ledger.program();
    const key = (i: number) => doubt(i).key;
    // Between the listing and the writes, at the first write: two are settled, one is tried again and in doubt again.
    let isFirst = true;
    const write = ledger.store.write.bind(ledger.store);
    const { settleGroup } = await import("./group.ts");
    const racing = new Proxy(ledger.store, {
      get(target, name) {
        const own = Reflect.get(target, name) as unknown;
        if (name !== "write") return typeof own === "function" ? own.bind(target) : own;
        return async (puts: Parameters<Store["write"]>[0]) => {
          if (isFirst) {
            isFirst = false;
            await other.resolve({ key: key(1) }, { as: "done", result: { id: "msg_1" }, by: "bob", reason: "saw it" });
            await other.resolve({ key: key(2) }, { as: "not-done", by: "bob", reason: "not there" });
            const [again] = await ledger.store.read([key(3)]);
            if (again === null || again === undefined) throw new Error("it is gone");
            const { record, version } = again;
            await write([{ record: { ...record, fence: record.fence + 1, attempt: 2 }, expected: version }]);
          }
          return write(puts);
        };
      },
    });
    const wanted = {
      id: null,
      as: "not-done",
      fits: hasCause("Error: socket hang up"),
      since: 0,
      before: Date.now() + 1,
      limit: undefined,
      signature: { by: "me", reason: "the provider was down" },
    } as const;
    const { count, already, refused } = await settleGroup(racing, { order: "oldest" }, wanted);
    expect([count, already]).toEqual([37, 1]);
    expect(refused).toMatchObject([
      { key: key(1), why: "it was settled meanwhile, and is confirmed; it stays as it is" },
      { key: key(3), why: expect.stringContaining("is in doubt again: this decision is about the attempt before") },
    ]);
    expect(await other.status({ key: key(1) })).toMatchObject({ status: "done", result: { id: "msg_1" } });
    expect(await Promise.all([1, 2, 3, 4].map((i) => stateOf(i)))).toEqual([
      "confirmed",
      "pending",
      "unknown",
      "pending",
    ]);
  });

  it("says what is missing or wrong, and names the causes there are", async () => {
    await fill(ledger.store, 6);
    const cases: [string[], number, RegExp][] = [
      [["--not-done"], 2, /--all needs --action or --error.*ls --doubt --group/],
      [["--action", "send_mail"], 2, /say how it is settled/],
      [["--action", "send_mail", "--not-done", "--yes"], 2, /--reason is missing/],
      [["--action", "send_mail", "--not-done", "--group", "00000000"], 2, /--all or --group, not both/],
      [["--error", "x", "--done", "--result", "1"], 2, /--result is for one record/],
      [["--error", "", "--done"], 2, /--error is empty/],
      [["--error", "x", "--done", "--since", "noon"], 2, /--since noon is not a time/],
      [["nt1_q3v0m2k8ab", "--error", "x", "--done"], 2, /a key or --all, not both/],
      [
        ["--error", "socket hang up", "--done"],
        1,
        /takes a whole cause.*The causes in this ledger:\n {2}2 {2}send_mail {2}Error: socket hang up \(request #\)\n/s,
      ],
      [["--action", "pay", "--done"], 1, /there is no doubt that fits/],
    ];
    for (const [flags, code, said] of cases) {
      const ran = await ledger.run(["resolve", "--all", ...flags]);
      expect([flags.join(" "), ran.code, ran.err]).toEqual([flags.join(" "), code, expect.stringMatching(said)]);
    }
    const wrong = await ledger.run(["ls", "--group"]);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("--group belongs to --doubt")]);
  });
});

describe("ls --doubt --group", () => {
  it("takes the flag anywhere, and no value; resolve --group takes one", async () => {
    await fill(ledger.store, 3);
    for (const argv of [
      ["ls", "--doubt", "--group", "--json"],
      ["--json", "ls", "--group", "--doubt"],
    ])
      expect((await ledger.run(argv)).json.groups).toHaveLength(3);
    const { json } = await ledger.run(["ls", "--doubt", "--group", "--json"]);
    expect((await ledger.run(["resolve", "--group", json.groups[0].id, "--not-done", "--json"])).json.count).toBe(1);
    expect((await ledger.run(["ls", "--doubt", "--group", "--limit", "5"])).err).toContain("--limit is for a list");
  });

  it("names a record where its words are all left out, and the id where the text cannot be copied", async () => {
    await fill(ledger.store, 2, (i) => ({
      error: { name: "Error", message: i === 0 ? "…" : "gone \u202eliam\u0007 now" },
    }));
    const { json, out } = await ledger.run(["ls", "--doubt", "--group", "--json"]);
    const commands = json.groups.map(({ command }: { command: string }) => command);
    expect(commands).toContain("nevertwice resolve nt1_0000000000 --not-done --reason '…'");
    expect(commands).toContainEqual(expect.stringMatching(/^nevertwice resolve --group [0-9a-f]{8} --not-done$/));
    for (const harmful of ["\u0007", "\u202e"]) expect(out).not.toContain(harmful);
  });

  it("says so where nothing is in doubt, also without a ledger", async () => {
    expect((await ledger.run(["ls", "--doubt", "--group", "--json"])).json).toMatchObject({ groups: [], counted: 0 });
    await ledger.store.stats();
    expect((await ledger.run(["ls", "--doubt", "--group"])).out).toBe("Nothing is in doubt.\n");
  });
});

describe("resolve --from", () => {
  const from = (lines: readonly (string | object)[], ...flags: string[]) => {
    const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");
    writeFileSync(join(ledger.folder, "decisions.jsonl"), text);
    return ledger.run(["resolve", "--from", "decisions.jsonl", ...flags], wide);
  };
  const key = (i: number) => doubt(i).key;

  it("names each bad line by its number, and applies the others", async () => {
    await fill(ledger.store, 9);
    const lines = [
      { key: key(0), as: "done", result: { id: "msg_0" }, by: "ada", reason: "in the export" },
      "{ not json",
      { key: key(1), as: "sent" },
      { key: key(2), as: "failed", resault: 1 },
      { key: "nt1_short", as: "done" },
      [1],
      "",
      { key: keyLike("nobody"), as: "done" },
      { key: key(3), as: "failed", result: 1 },
      { key: key(4), as: "not-done", reason: 7 },
      { key: key(5), as: "not-done" },
    ];
    const { code, out, err } = await from(lines, ...sign, "--yes");
    expect(code).toBe(1);
    expect(out).toContain("2 of 10 decisions in decisions.jsonl were applied.");
    expect(out).toContain("8 of them were not applied.");
    for (const said of [
      "line 2: it is not JSON",
      /line 3 \(nt1_\w+\): as is "sent"; it takes "done", "not-done" or "failed"\./,
      /line 4 \(nt1_\w+\): there is no field "resault"\. Did you mean result\?/,
      'line 5 (nt1_short): key is "nt1_short"; it takes a whole key',
      "line 6: it is not a decision",
      /line 8 \(nt1_nobody\w+\): there is no record with this key/,
      /line 9 \(nt1_\w+\): result goes with "done"/,
      /line 10 \(nt1_\w+\): reason is 7; it takes a text/,
    ])
      expect(err).toMatch(said);
    expect(await Promise.all([0, 1, 2, 3, 4, 5].map((i) => stateOf(i)))).toEqual([
      "confirmed",
      "unknown",
      "unknown",
      "unknown",
      "unknown",
      "pending",
    ]);
    const { json } = await ledger.run(["show", key(0), "--json"]);
    expect(json.record).toMatchObject({ result: { value: { id: "msg_0" } } });
    expect(json.record.history.at(-1)).toMatchObject({ by: "ada", reason: "in the export" });
    expect((await ledger.run(["show", key(5), "--json"])).json.record.history.at(-1)).toMatchObject({
      by: "me",
      reason: sign[3],
    });
  });

  it("a reason must come from the line or from --reason; a dry run needs none", async () => {
    await fill(ledger.store, 2);
    const lines = [
      { key: key(0), as: "done" },
      { key: key(1), as: "done", reason: "saw it" },
    ];
    const dry = await from(lines);
    expect([dry.code, dry.err]).toEqual([0, ""]);
    expect(dry.out).toContain("2 of 2 decisions in decisions.jsonl would be applied");
    expect(dry.out).toContain("nevertwice resolve --from decisions.jsonl --reason '…' --yes");
    const { code, err } = await from(lines, "--yes");
    expect([code, err]).toEqual([1, expect.stringMatching(/line 1 .*reason is missing/)]);
    expect([await stateOf(0), await stateOf(1)]).toEqual(["unknown", "confirmed"]);
  });

  it("a record that is settled otherwise is reported and left; two lines about one record do not fight", async () => {
    await fill(ledger.store, 3);
    await ledger.program().resolve({ key: key(0) }, { as: "done", by: "bob", reason: "saw it" });
    const lines = [
      { key: key(0), as: "not-done" },
      { key: key(1), as: "failed" },
      { key: key(1), as: "done" },
      { key: key(2), as: "failed" },
      { key: key(2), as: "failed" },
    ];
    const dry = await from(lines, ...sign, "--json");
    expect(dry.json).toMatchObject({ dryRun: true, settled: 2, unchanged: 1, refusedCount: 2 });
    const { code, json } = await from(lines, ...sign, "--yes", "--json");
    expect([code, json]).toMatchObject([1, { settled: 2, unchanged: 1, lines: 5 }]);
    expect(json.refused).toMatchObject([
      { line: 1, why: 'the record is confirmed, and not in doubt any more: "not-done" was not applied' },
      { line: 3, why: 'the record is failed, and not in doubt any more: "done" was not applied' },
    ]);
    expect(await Promise.all([0, 1, 2].map((i) => stateOf(i)))).toEqual(["confirmed", "failed", "failed"]);
  });

  it("applied again after a record was tried again and is in doubt again, it decides nothing about that", async () => {
    const nt = ledger.program();
    const send = nt.action("send", {
      key: ["to"],
      run: async (_: { to: string }) => {
        throw new Error("socket hang up");
      },
    });
    const first = await send.attempt({ to: "ada" });
    const decision = { key: first.key, as: "not-done" };
    expect((await from([decision], ...sign, "--yes")).out).toContain("1 of 1 decision in decisions.jsonl was applied");
    expect((await from([decision], ...sign, "--yes")).out).toContain("Nothing was changed by the 1 decision");
    expect(await send.attempt({ to: "ada" })).toMatchObject({ status: "unknown", attempt: 2 });
    const again = await from([decision], ...sign, "--yes");
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringContaining("in doubt again: decide anew, with another reason"),
    ]);
    // With another reason: the file is older than the doubt.
    utimesSync(join(ledger.folder, "decisions.jsonl"), new Date(Date.now() - 60_000), new Date(Date.now() - 60_000));
    const argv = ["resolve", "--from", "decisions.jsonl", "--by", "me", "--reason", "another", "--yes"];
    const old = await ledger.run(argv, wide);
    expect([old.code, old.err]).toEqual([1, expect.stringContaining("after the decision was made")]);
    expect(await send.status({ to: "ada" })).toMatchObject({ status: "unknown" });
    const now = await ledger.run([...argv, "--before", new Date(Date.now() + 1_000).toISOString()], wide);
    expect(now.code).toBe(0);
    expect(await send.status({ to: "ada" })).toMatchObject({ status: "failed", final: false });
  });

  it("keeps to --tenant, and stores no result of a sealed record in clear text", async () => {
    await fill(ledger.store, 2, (i) => ({ tenant: i === 0 ? "acme" : "other" }));
    const lines = [
      { key: key(0), as: "done" },
      { key: key(1), as: "done" },
    ];
    const { json } = await from(lines, ...sign, "--yes", "--tenant", "acme", "--json");
    expect(json).toMatchObject({ settled: 1, refused: [{ line: 2, why: "there is no record with this key" }] });
    const nt = ledger.program({ encrypt: "a".repeat(64) });
    const send = nt.action("send", {
      key: ["to"],
      run: async (_: { to: string }) => {
        throw new Error("socket hang up");
      },
    });
    const { key: sealedKey } = await send.attempt({ to: "ada" });
    const sealed = await from([{ key: sealedKey, as: "done", result: { secret: 1 } }], ...sign, "--yes");
    expect([sealed.code, sealed.err]).toEqual([1, expect.stringContaining("would be stored in clear text")]);
    expect(await send.status({ to: "ada" })).toMatchObject({ status: "unknown" });
  });

  it("says what does not go together, and what there is not", async () => {
    await fill(ledger.store, 1);
    const wrong = async (...flags: string[]) => (await from([{ key: key(0), as: "done" }], ...flags)).err;
    expect(await wrong("--done")).toContain("--done does not go with --from");
    expect(await wrong("--all")).toContain("--all does not go with --from");
    expect(await wrong("nt1_00000000")).toContain("a key or --from, not both");
    const none = await ledger.run(["resolve", "--from", "nothing.jsonl"]);
    expect([none.code, none.err]).toEqual([2, expect.stringContaining("nothing.jsonl: there is no such file")]);
    expect((await from(["", " "])).err).toContain("decisions.jsonl has no decisions in it");
  });
});
