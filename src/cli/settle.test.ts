/** resolve, retry, resend, sweep, doctor: what changes the ledger, and what looks after it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LedgerRecord, nevertwice } from "nevertwice";
import { memoryStore } from "nevertwice/memory";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CliLedger, keyLike } from "../../test/support/cli.ts";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { fillSqlite } from "../../test/support/large-sqlite.ts";
import { deriveKey } from "../core/key/key.ts";
import { sampleRecord } from "../testing/index.ts";
import { sweep } from "./commands/sweep.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const silent = { state: "sent", attempt: 1, holder: "h.1", lease: { until: 0, epoch: "an earlier boot" } } as const;

/** An action whose first run leaves a doubt behind. */
async function doubt() {
  let runs = 0;
  const send = ledger.program().action("send_mail", {
    key: ["to"],
    wait: 0,
    run: (_: Record<string, unknown>) => {
      runs += 1;
      if (runs === 1) throw new Error("socket hang up");
      return { id: `msg_${runs}` };
    },
  });
  const { key } = await send.attempt({ to: "ada" });
  return { send, key, runs: () => runs };
}

describe("resolve", () => {
  it("--done settles it with the result, and a repeat gets it without running", async () => {
    const { send, key, runs } = await doubt();
    const reason = "found in the provider's log";
    const said = await ledger.run(["resolve", key, "--done", "--result", '{"id":"msg_1"}', "--reason", reason]);
    expect(said).toMatchObject({ code: 0, err: "" });
    expect(said.out).toBe(
      `send_mail ${key.slice(0, 14)}: unknown → confirmed\nIt is settled: a repeat of send_mail gets the stored result.\n`,
    );
    expect(await send({ to: "ada" })).toEqual({ id: "msg_1" });
    expect(runs()).toBe(1);
    const { json } = await ledger.run(["show", key, "--json"]);
    expect(json.record.history.at(-1)).toMatchObject({ event: "resolved-done", by: "ada", reason });
  });

  it("the command that an error suggests works as it is pasted", async () => {
    const { send } = await doubt();
    const message = await send({ to: "ada" }).then(String, (error: Error) => error.message);
    const pasted = /nevertwice (resolve \S+ --done) --reason "(…)"/.exec(message) ?? [];
    const argv = [...(pasted[1] ?? "").split(" "), "--reason", pasted[2] ?? ""];
    expect(await ledger.run(argv)).toMatchObject({ code: 0, err: "" });
  });

  it("--not-done lets the next call run it; --by names who decided", async () => {
    const { send, key } = await doubt();
    const argv = ["resolve", key, "--not-done", "--by", "ops bot", "--reason", "never arrived"];
    expect((await ledger.run(argv)).out).toContain("The next call of send_mail with this input will run it.");
    expect(await send({ to: "ada" })).toEqual({ id: "msg_2" });
    expect((await ledger.run(["show", key])).out).toContain("ops bot: never");
  });

  it("a result that was left out can be added later, once, and the history says by whom", async () => {
    const { send, key, runs } = await doubt();
    await ledger.run(["resolve", key, "--done", "--reason", "found"]);
    await expect(send({ to: "ada" })).rejects.toMatchObject({ code: "RESULT_UNAVAILABLE" });
    const add = (id: string) => ["resolve", key, "--done", "--result", JSON.stringify({ id }), "--reason", `id ${id}`];
    const { code, out } = await ledger.run(add("msg_1"));
    expect([code, out.split("\n")[0]]).toEqual([
      0,
      `send_mail ${key.slice(0, 14)}: already confirmed; its result was added`,
    ]);
    expect(await ledger.program().resolve({ key }, { as: "done", by: "k", reason: "r" })).toMatchObject({
      status: "done",
      result: { id: "msg_1" },
    });
    expect(await ledger.run(add("msg_2"))).toMatchObject({ code: 1, err: expect.stringContaining("was not stored") });
    const { json } = await ledger.run(["show", key, "--json"]);
    expect(json.record.result).toEqual({ value: { id: "msg_1" } });
    expect(json.record.history.map((entry: { reason: string }) => entry.reason).slice(-2)).toEqual([
      "found",
      "id msg_1",
    ]);
    expect(runs()).toBe(1);
  });

  it("so does a file of decisions", async () => {
    const { key } = await doubt();
    await ledger.run(["resolve", key, "--done", "--reason", "found"]);
    writeFileSync(join(ledger.folder, "d.jsonl"), JSON.stringify({ key, as: "done", result: "msg_1" }));
    const file = ["resolve", "--from", "d.jsonl", "--reason", "found", "--yes", "--json"];
    expect((await ledger.run(file)).json).toMatchObject({ settled: 1, unchanged: 0 });
    expect((await ledger.run(file)).json).toMatchObject({ settled: 0, unchanged: 1 });
  });

  it("names what a program calls: the run of a step, the sequence, the job", async () => {
    const settled = async (action: string, ...as: string[]) => {
      const key = keyLike(`${as.join("").slice(2, 4)}${action.replace(/\W/g, "")}`);
      await ledger.put({ key, action, state: "unknown", why: "timeout" });
      const { out, err } = await ledger.run(["resolve", key, ...as, "--reason", "r"], { columns: 200 });
      return out + err;
    };
    expect(await settled("step:onboard", "--not-done")).toContain(
      'The next call of nt.run("onboard", …) with the run\'s id will run it.',
    );
    expect(await settled("step:onboard", "--done", "--void")).toContain(
      "the next call of the run onboard goes on after this step, with undefined: it returns nothing",
    );
    expect(await settled("step:other", "--done")).toMatch(
      /a step of a run.*--result <json>, or --void.*Nothing was changed/,
    );
    expect(await settled("sequence:drip", "--done")).toContain(
      "the sequence drip goes on with the next step of this subject.",
    );
    expect(await settled("job:report", "--not-done")).toContain(
      "The next call for this slot will run it: nevertwice run --job report",
    );
    expect(await settled("job:report", "--done")).toContain("a repeat of the job report runs nothing");
  });

  it("--failed settles it as not done", async () => {
    const { key } = await doubt();
    const { json } = await ledger.run(["resolve", key, "--failed", "--reason", "dropped", "--json"]);
    expect(json).toMatchObject({ before: "unknown", after: "failed", changed: true, outcome: { status: "failed" } });
  });

  it("reads the result from a file, and settles a silent holder without a sweep", async () => {
    await ledger.put({ key: keyLike("silent01"), ...silent });
    writeFileSync(join(ledger.folder, "result.json"), '"msg_9"');
    const argv = ["resolve", "silent01", "--done", "--result-file", "result.json", "--reason", "r"];
    expect((await ledger.run(argv)).out).toContain("unknown* → confirmed");
    expect((await ledger.run(["show", "silent01", "--json"])).json.record.result).toEqual({ value: "msg_9" });
  });

  it("refuses what is not in doubt, and never claims to have stored a result it did not", async () => {
    await ledger.put({ key: keyLike("done0001"), state: "confirmed" });
    const sign = ["--reason", "r"];
    const refused = await ledger.run(["resolve", "done0001", "--not-done", ...sign]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("the record is confirmed")]);
    const again = await ledger.run(["resolve", "done0001", "--done", ...sign]);
    expect([again.code, again.out]).toEqual([0, expect.stringContaining("already confirmed, nothing changed")]);
    const result = await ledger.run(["resolve", "done0001", "--done", "--result", "1", ...sign]);
    expect([result.code, result.err]).toEqual([1, expect.stringContaining("yours was not stored")]);
  });

  it("puts no clear text into a sealed record", async () => {
    const key = keyLike("sealed01");
    await ledger.put({ key, state: "unknown", why: "timeout", input: { sealed: "ntseal1.00000000.1.AA.AA" } });
    const { code, err } = await ledger.run(["resolve", key, "--done", "--result", "1", "--reason", "r"]);
    expect([code, err]).toEqual([1, expect.stringContaining("would be stored in clear text")]);
    expect((await ledger.run(["resolve", key, "--done", "--reason", "r"])).code).toBe(0);
  });
});

describe("retry", () => {
  it("brings one record back, and sends a doubt to resolve", async () => {
    await ledger.put({ key: keyLike("failed01"), state: "failed", final: true });
    const { out } = await ledger.run(["retry", "failed01", "--reason", "fixed"]);
    expect(out).toContain("send_followup nt1_failed0100: failed → pending\nThe next call of send_followup");
    expect((await ledger.run(["retry", "failed01", "--reason", "r"])).code).toBe(1);
    await ledger.put({ key: keyLike("doubt001"), state: "unknown" });
    const doubted = await ledger.run(["retry", "doubt001", "--reason", "r"]);
    expect([doubted.code, doubted.err]).toEqual([1, expect.stringContaining("in doubt, which is not a failure")]);
  });

  it("--all-failed takes them all, or those of one action, or the oldest few; --dry-run none", async () => {
    for (let n = 100; n < 350; n += 1) await ledger.put({ key: keyLike(`mail0${n}`), state: "failed" });
    await ledger.put({ key: keyLike("charge01"), state: "failed", action: "charge_card" });
    const dry = await ledger.run(["retry", "--all-failed", "--dry-run"]);
    expect(dry.out).toContain("251 records would become pending again. Nothing was changed.");
    const all = ["retry", "--all-failed", "--reason", "r", "--json"];
    expect((await ledger.run([...all, "--action", "charge_card"])).json.retried).toHaveLength(1);
    const { json } = await ledger.run([...all, "--limit", "2"]);
    expect(json.retried.map(({ key }: { key: string }) => key)).toEqual([keyLike("mail0100"), keyLike("mail0101")]);
    expect((await ledger.run(all)).json).toMatchObject({ dryRun: false, refused: [], retried: { length: 248 } });
    expect((await ledger.run(["ls", "--state", "failed"])).out).toContain("No record fits.");
  });
});

describe("resend", () => {
  const reason = ["--reason", "the customer lost it"];
  const module = (options: string, name = "actions.mjs") => {
    const source = `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
      const nt = nevertwice({ sweep: false, ${options} });
      export const tools = { mail: nt.action("send_mail", { key: ["to"], run: (i) => ({ id: "again_" + i.to }) }) };`;
    writeFileSync(join(ledger.folder, name), source);
    return ["--actions", `./${name}`];
  };

  async function sent() {
    const send = ledger
      .program()
      .action("send_mail", { key: ["to"], run: (_: Record<string, unknown>) => ({ id: "msg_1" }) });
    await send({ to: "ada" }, { scope: "run-7" });
    return send.keyOf({ to: "ada" }, { scope: "run-7" });
  }

  it("explains the two ways where the action's code is missing", async () => {
    const { code, err } = await ledger.run(["resend", await sent(), ...reason]);
    expect(code).toBe(2);
    expect(err).toContain("--actions ./actions.js");
    expect(err).toContain("await sendMail.resend(input, {");
  });

  it("runs the next version with the stored input, each time a new one", async () => {
    const key = await sent();
    const actions = module(`store: "sqlite:${ledger.path}"`);
    const { out, code, err } = await ledger.run(["resend", key, ...reason, ...actions]);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(
      /^send_mail: version 1 → version 2, done\nkey {5}nt1_\w{52}\nresult {2}\{"id":"again_ada"\}\n$/,
    );
    for (let click = 0; click < 2; click += 1)
      expect((await ledger.run(["resend", key, ...reason, ...actions, "--once"])).out).toContain(
        "version 1 → version 2",
      );
    const { json } = await ledger.run(["resend", key, ...reason, ...actions, "--json"]);
    expect(json).toMatchObject({ key, action: "send_mail", version: 3, outcome: { status: "done" } });
    const shown = await ledger.run(["show", json.newKey, "--json"]);
    expect(shown.json.record).toMatchObject({ version: 3, scope: "run-7", history: [{ by: "ada" }] });
  });

  it("sends nothing where the module has another secret or another ledger", async () => {
    const key = await sent();
    const secret = module(`store: "sqlite:${ledger.path}", secret: "0123456789abcdef"`, "secret.mjs");
    const other = module(`store: "memory:"`, "other.mjs");
    const one = await ledger.run(["resend", key, ...reason, ...secret]);
    expect([one.code, one.err]).toEqual([1, expect.stringContaining("derives another key")]);
    const two = await ledger.run(["resend", key, ...reason, ...other]);
    expect([two.code, two.err]).toEqual([1, expect.stringContaining("uses another ledger")]);
    expect((await ledger.run(["ls", "--json"])).json.records).toHaveLength(1);
  });

  it("says what is wrong with a module", async () => {
    const key = await sent();
    writeFileSync(join(ledger.folder, "empty.mjs"), "export const one = 1;");
    writeFileSync(join(ledger.folder, "throws.mjs"), "throw new Error('no DATABASE_URL');");
    const said = async (file: string) => {
      const { code, err } = await ledger.run(["resend", key, ...reason, "--actions", file]);
      return [code, err];
    };
    expect(await said("none.mjs")).toEqual([2, expect.stringContaining("there is no such file")]);
    expect(await said("empty.mjs")).toEqual([2, expect.stringContaining("exports no action")]);
    expect(await said("throws.mjs")).toEqual([1, expect.stringContaining("no DATABASE_URL")]);
  });
});

describe("sweep and doctor", () => {
  const numbered = (n: number) => String(n).padStart(8, "0");

  it("sweep makes silent holders doubts and removes what is past its keep, all of it", async () => {
    const past = { state: "confirmed", settledAt: 1, expiresAt: 2 } as const;
    await Promise.all(Array.from({ length: 1_200 }, (_, n) => ledger.put({ key: keyLike(`past${n + 1e4}`), ...past })));
    await ledger.put({ key: keyLike("silent01"), ...silent });
    const { out } = await ledger.run(["sweep"]);
    expect(out).toContain("1 silent holder: now in doubt (sent → unknown).\n1200 records past their keep: removed.\n");
    expect((await ledger.run(["sweep", "--json"])).json).toMatchObject({ lapsed: 0, removed: 0 });
    expect((await ledger.run(["ls", "--json"])).json.records).toMatchObject([{ state: "unknown" }]);
  });

  it("sweep --tenant keeps to that tenant's records", async () => {
    const past = { state: "confirmed", settledAt: 1, expiresAt: 2 } as const;
    for (const tenant of ["acme", "globex"]) {
      await ledger.put({ key: keyLike(`past${tenant}`), tenant, ...past });
      await ledger.put({ key: keyLike(`gone${tenant}`), tenant, ...silent });
    }
    const { json } = await ledger.run(["sweep", "--tenant", "acme", "--json"]);
    expect(json).toMatchObject({ lapsed: 1, removed: 1 });
    const left = await ledger.run(["ls", "--tenant", "globex", "--json"]);
    expect(left.json.records.map(({ state }: { state: string }) => state).sort()).toEqual(["confirmed", "sent"]);
    expect((await ledger.run(["stats", "--tenant", "globex", "--json"])).json).toMatchObject({ total: 2, lapsed: 1 });
    expect((await ledger.run(["stats", "--tenant", "acme", "--json"])).json).toMatchObject({ total: 1, lapsed: 0 });
    await ledger.put({ key: keyLike("failedglobex"), tenant: "globex", state: "failed" });
    const retry = (tenant: string) => ledger.run(["retry", "--all-failed", "--tenant", tenant, "--dry-run", "--json"]);
    expect((await retry("acme")).json.retried).toEqual([]);
    expect((await retry("globex")).json.retried).toHaveLength(1);
  });

  it("sweep removes what is past its keep behind any number of records that stay", async () => {
    const put = (from: number, count: number, expiresAt: number | null) =>
      ledger.store.write(
        Array.from({ length: count }, (_, n) => ({
          record: sampleRecord({ key: keyLike(numbered(from + n)), state: "confirmed", expiresAt }),
          expected: null,
        })),
      );
    await put(0, 6_000, null);
    await put(6_000, 2_500, 1_000);
    expect((await ledger.run(["sweep", "--json"])).json).toMatchObject({ lapsed: 0, removed: 2_500 });
    expect((await ledger.store.stats()).total).toBe(6_000);
  });

  it("sweep looks for silent holders once, not once per thousand records that it removes", async () => {
    const store = memoryStore();
    const puts = Array.from({ length: 5_000 }, (_, n) => ({
      record: sampleRecord({ key: keyLike(numbered(n)), state: "confirmed", expiresAt: 1_000 }),
      expected: null,
    }));
    await store.write(puts);
    const list = vi.spyOn(store, "list");
    const said: unknown[] = [];
    const args = { on: () => true, text: () => undefined };
    const context = { args, io: { stderr: {} }, json: (one: unknown) => said.push(one) };
    await sweep.run({ ...context, ledger: () => ({ exists: true, name: "memory", why: "", store }) } as never);
    expect(said).toMatchObject([{ lapsed: 0, removed: 5_000 }]);
    expect(list.mock.calls.filter(([{ lapsed }]) => lapsed === true)).toHaveLength(1);
  });

  it("doctor is quick on a large ledger and says so; --deep reads every record", async () => {
    await ledger.put({ key: keyLike("done0001"), state: "confirmed" });
    fillSqlite(ledger.path, 40_000);
    const db = new DatabaseSync(ledger.path);
    db.exec("UPDATE nevertwice_records SET doc = doc || ' ' WHERE id = 100");
    db.close();
    const integrity = (json: { checks: { name: string }[] }) => json.checks.find(({ name }) => name === "integrity");
    const quick = await ledger.run(["doctor", "--json"]);
    expect(quick.json.deep).toBe(false);
    expect(integrity(quick.json)).toMatchObject({ level: "ok", value: expect.stringContaining("not checked") });
    const { out } = await ledger.run(["doctor"]);
    expect(out).toContain("none among the newest 2000; older records were not read");
    expect(out).toMatch(/^Healthy in what was read\.$/m);
    expect(out).toMatch(/To read every record: .*nevertwice doctor --deep/);
    const deep = await ledger.run(["doctor", "--deep", "--json"]);
    expect(deep).toMatchObject({ code: 1, json: { deep: true, healthy: false } });
    expect(integrity(deep.json)).toMatchObject({ level: "problem", value: expect.stringContaining("1 of its rows") });
    const damaged = deep.json.checks.find(({ name }: { name: string }) => name === "damaged");
    expect(damaged.value).toMatch(/^1 record cannot be read: /);
  });

  it("doctor says that it was quick only where it was: a small ledger is read as a whole", async () => {
    await ledger.put({ key: keyLike("done0001"), state: "confirmed" });
    const { out } = await ledger.run(["doctor"]);
    expect(out).not.toMatch(/quick checks|--deep/);
    expect(out).toMatch(/lease clock +the (host's monotonic|wall) clock/);
    const file = `file:${join(ledger.folder, "ledger.jsonl")}`;
    const nt = nevertwice({ store: file, sweep: false });
    await nt.once("greet", ["ada"], () => "hello");
    await nt.close();
    const lines = (await ledger.run(["doctor", "--store", file])).out;
    expect(lines).not.toMatch(/quick checks|--deep|epoch/);
    expect(lines).toMatch(/lease clock +the (host's monotonic|wall) clock/);
  });

  it("doctor is content with a sound ledger", async () => {
    await ledger.put({ key: keyLike("done0001"), state: "confirmed" });
    const { json, code } = await ledger.run(["doctor", "--json"]);
    const found = json.checks.map(({ name }: { name: string }) => name);
    expect(found).toEqual(
      expect.arrayContaining(["store", "chosen", "journal", "integrity", "survives", "free space"]),
    );
    // Where the tests run may itself lie on a disk that does not last.
    const elsewhere = json.checks.filter(({ area }: { area: string }) => area !== "disk");
    expect(elsewhere.filter(({ level }: { level: string }) => level === "problem")).toEqual([]);
    expect(code).toBe(json.healthy ? 0 : 1);
    expect(json.traits).toMatchObject({ hosts: "one", survives: "power-loss" });
  });

  describe("a record that cannot be read", () => {
    const bad = keyLike("bad00001");
    const damaged = async () => {
      await ledger.put({ key: keyLike("done0001"), state: "confirmed" });
      await ledger.put({ key: bad, state: "unknown" });
      const db = new DatabaseSync(ledger.path);
      db.exec(`UPDATE nevertwice_records SET doc = doc || ' ' WHERE key = '${bad}'`);
      db.close();
    };

    it("is a problem that doctor names, and ls and sweep show, beside all the others", async () => {
      await damaged();
      const { out, code } = await ledger.run(["doctor"]);
      expect(code).toBe(1);
      expect(out).toMatch(/✗ damaged {9}1 record cannot be read:/);
      expect(out).toMatch(new RegExp(`^ +nevertwice doctor --quarantine ${bad}$`, "m"));
      expect(out).toContain("2 problems found."); // the record, and the doubt that it was before
      const listed = await ledger.run(["ls"]);
      expect(listed.out).toContain(
        `1 damaged record: there, and cannot be read. Calls for them are refused.\n  ${bad}\n`,
      );
      expect(listed.out).toContain("nt1_done0001");
      expect((await ledger.run(["ls", "--json"])).json).toMatchObject({
        records: [{ state: "confirmed" }],
        damaged: [{ key: bad, message: expect.stringMatching(/is damaged/) }],
      });
      expect((await ledger.run(["show", bad])).err).toMatch(/is damaged: its row does not match its checksum/);
      expect((await ledger.run(["sweep", "--json"])).json).toMatchObject({ lapsed: 0, removed: 0 });
      expect((await ledger.run(["stats", "--json"])).json).toMatchObject({ total: 2 });
    });

    it("is set aside by its key alone, with what that means, and doctor is content", async () => {
      await damaged();
      const sound = await ledger.run(["doctor", "--quarantine", keyLike("done0001")]);
      expect(sound.code).not.toBe(0);
      expect(sound.err).toMatch(/can be read, and guards its key/);
      const none = await ledger.run(["doctor", "--quarantine", keyLike("none0001")]);
      expect(none.err).toMatch(/there is no record with the key/);
      const short = await ledger.run(["doctor", "--quarantine", bad.slice(0, 14)]);
      expect(short).toMatchObject({ code: 2, err: expect.stringMatching(/is not a full key\. Give the full key/) });
      const { out, code } = await ledger.run(["doctor", "--quarantine", bad]);
      expect(code).toBe(0);
      expect(out).toContain(`${bad}: set aside. Its bytes are in the table nevertwice_quarantine of ${ledger.path}.`);
      expect(out).toContain("These intents are guarded no more: the next call of each runs it.");
      const { json } = await ledger.run(["doctor", "--json"]);
      expect(json.checks).toContainEqual(expect.objectContaining({ name: "damaged", value: "none", level: "ok" }));
      const db = new DatabaseSync(ledger.path);
      expect(db.prepare("SELECT key, state, quarantined_at > 0 AS dated FROM nevertwice_quarantine").all()).toEqual([
        expect.objectContaining({ key: bad, state: "unknown", dated: 1 }),
      ]);
      db.close();
    });

    it("stops no import: it is counted, and the other rows are imported", async () => {
      const key = deriveKey({ tenant: "", action: "old", version: 1, scope: null, parts: ["b"] });
      await ledger.put({ key, action: "old", state: "confirmed" });
      const db = new DatabaseSync(ledger.path);
      db.exec(`UPDATE nevertwice_records SET doc = doc || ' ' WHERE key = '${key}'`);
      db.close();
      writeFileSync(join(ledger.folder, "rows.jsonl"), '{"key":"a"}\n{"key":"b"}\n{"key":"c"}\n');
      for (const dry of [["--dry-run"], []]) {
        const { json, code } = await ledger.run(["import", "rows.jsonl", "--action", "old", "--json", ...dry]);
        expect(json).toMatchObject({ imported: 2, known: 0, damaged: 1 });
        expect(code).toBe(1);
      }
      writeFileSync(join(ledger.folder, "odd.jsonl"), '{"key":"z","kind":"a\\u0000b"}\n');
      const odd = await ledger.run(["import", "odd.jsonl", "--action-column", "kind"]);
      expect(odd.err).toMatch(/line 1: action .*it contains the character U\+0000.*Nothing was imported/);
    });
  });

  it("R9: a slot of a job that its next call runs again is no decision and no dead letter", async () => {
    const slot = { action: "job:digest", why: "the command was ended", draft: { json: '{"failed":"retry"}' } };
    const key = keyLike("slotdoubt");
    await ledger.put({ key, ...slot, state: "unknown" });
    await ledger.put({ key: keyLike("slotfailed"), ...slot, state: "failed" });
    const doctor = await ledger.run(["doctor"]);
    expect(doctor.code).toBe(0);
    expect(doctor.out).toMatch(/! to run again {4}2 slots or runs not done: the next call of each runs it\s+again/);
    expect(doctor.out).toMatch(/doubts {10}none/);
    expect(doctor.out).toMatch(/dead letters {4}none/);
    const listed = await ledger.run(["ls", "--doubt"], { columns: 200 });
    expect(listed.out).toContain("1 slot or run not known to be done: its next call runs it again. Nothing has to be");
    expect(listed.out).not.toContain("Ask the provider");
    const shown = await ledger.run(["show", key], { columns: 200 });
    expect(shown.out).toMatch(/The next call for this slot runs\s+it again/);
    expect(shown.out).not.toMatch(/until somebody decides|--not-done/);
    // One that was to be held waits for a person.
    const held = keyLike("slotheld1");
    await ledger.put({ key: held, ...slot, draft: { json: '{"failed":"hold"}' }, state: "unknown" });
    expect((await ledger.run(["doctor"])).out).toMatch(/✗ doubts {10}1, the oldest for/);
    expect((await ledger.run(["show", held], { columns: 200 })).out).toMatch(/until somebody decides/);
    expect((await ledger.run(["ls", "--doubt"], { columns: 200 })).out).toContain("1 record in doubt");
  });

  it("doctor counts what waits truly, also behind thousands of slots that are run again", async () => {
    const put = async (count: number, prefix: string, overrides: Partial<LedgerRecord>) => {
      const keys = Array.from({ length: count }, (_, i) => keyLike(`${prefix}${i.toString().padStart(6, "0")}`));
      const puts = keys.map((key) => ({ record: sampleRecord({ createdAt: 1, ...overrides, key }), expected: null }));
      for (let from = 0; from < count; from += 500) await ledger.store.write(puts.slice(from, from + 500));
    };
    const slot = { action: "job:digest", why: "the command was ended", draft: { json: '{"failed":"retry"}' } };
    await put(1_500, "slot", { ...slot, state: "unknown" });
    await put(1_200, "sent", { ...silent });
    await put(1_100, "fail", { ...slot, state: "failed" });
    expect((await ledger.run(["doctor"])).out).toMatch(/doubts {10}none/);
    await put(30, "doubt", { state: "unknown", createdAt: Date.now(), doubtSince: Date.now() - 3_600_000 });
    const { out } = await ledger.run(["doctor"], { columns: 200 });
    expect(out).toMatch(/✗ doubts {10}30, the oldest for 1h/);
    expect(out).toContain("nevertwice ls --doubt --group");
    expect(out).toMatch(/✗ silent holders {2}1200 holders silent/);
    expect(out).toMatch(/! to run again {4}2600 slots or runs not done/);
    expect(out).toMatch(/dead letters {4}none/);
    const grouped = await ledger.run(["ls", "--doubt", "--group", "--json"]);
    expect(grouped.json).toMatchObject({ counted: 1_230, again: 1_500 });
    const all = await ledger.run(["resolve", "--all", "--error", "the command was ended", "--failed"]);
    expect([all.code, all.err]).toEqual([1, expect.stringContaining("there is no doubt that fits")]);
    const named = ["resolve", "--all", "--action", "job:digest", "--not-done", "--json"];
    expect((await ledger.run(named)).json.count).toBe(1_500);
  });

  it("doctor names doubts and silent holders as problems, dead letters as a note", async () => {
    await ledger.put({ key: keyLike("doubt001"), state: "unknown", why: "timeout" });
    await ledger.put({ key: keyLike("silent01"), ...silent });
    await ledger.put({ key: keyLike("failed01"), state: "failed" });
    const { out, code } = await ledger.run(["doctor"]);
    expect(code).toBe(1);
    expect(out).toMatch(/✗ doubts {10}1, the oldest for/);
    expect(out).toMatch(/✗ silent holders {2}1 holder/);
    expect(out).toMatch(/! dead letters {4}1/);
    expect(out).toMatch(/survives {8}process crash and power loss/);
  });
});
