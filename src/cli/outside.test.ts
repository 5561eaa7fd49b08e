/** claim, sent, heartbeat, settle, enqueue and take, for scripts. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger, type Surroundings } from "../../test/support/cli.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
  writeFileSync(join(ledger.folder, "package.json"), "{}\n");
  mkdirSync(join(ledger.folder, ".nevertwice"));
});
afterEach(() => ledger.close());

const run = (argv: readonly string[], around?: Surroundings) => ledger.run(argv, around);
const claim = async (...argv: string[]) => (await run(["claim", "send", ...argv])).out.trim();

describe("claim and settle", () => {
  it("D7: a claim prints its token; settled, the intent is done for scripts and programs", async () => {
    const claimed = await run(["claim", "send", "lead-7"]);
    expect(claimed).toMatchObject({ code: 0, err: "", out: expect.stringMatching(/^nta1_[\w-]+\n$/) });
    const token = claimed.out.trim();
    expect(await run(["claim", "send", "lead-7"])).toMatchObject({ code: 10, out: "" });
    expect(await run(["settle", token, "--as", "done", "--result-text", "m-1"])).toMatchObject({ code: 0, err: "" });
    expect(await run(["settle", token, "--as", "done", "--result-text", "m-1"])).toMatchObject({ code: 0 });
    const again = await run(["claim", "send", "lead-7"]);
    expect(again).toMatchObject({ code: 16, out: "", err: expect.stringContaining("done already, by attempt 1") });
    const shown = await run(["claim", "send", "lead-7", "--json"]);
    expect(shown).toMatchObject({ code: 16, json: { status: "done", result: "m-1", replayed: true } });
    const program = ledger.program();
    expect(await program.once("send", ["lead-7"], async () => "again")).toBe("m-1");
  });

  it("D7 G2: a late success of an input that was corrected since is said, and the corrected one has its own result", async () => {
    const first = await claim("lead-7", "--input", '{"to":"wrong"}');
    await run(["settle", first, "--as", "unknown"]);
    const { json } = await run(["claim", "send", "lead-7", "--input", '{"to":"wrong"}', "--json"]);
    await run(["resolve", json.key, "--not-done", "--reason", "looked too early"]);
    const second = await claim("lead-7", "--input", '{"to":"right"}');
    const late = await run(["settle", first, "--as", "done", "--result-text", "to wrong"]);
    expect(late).toMatchObject({ code: 0, out: expect.stringMatching(/^in_flight {2}nt1_/) });
    expect(late.err).toMatch(/duplicate_detected: send.*\n?.*input before its correction/s);
    const own = await run(["settle", second, "--as", "done", "--result-text", "to right", "--json"]);
    expect(own.json).toMatchObject({ status: "done", result: "to right", replayed: false });
    const shown = await run(["claim", "send", "lead-7", "--input", '{"to":"right"}', "--json"]);
    expect(shown.json).toMatchObject({ status: "done", result: "to right" });
    const { json: record } = await run(["show", json.key, "--json"]);
    expect(record.record.history.map(({ event }: { event: string }) => event)).toEqual([
      "doubt",
      "resolved-not-done",
      "corrected",
      "late-success",
    ]);
    expect(JSON.stringify(record)).not.toContain("guarded");
  });

  it('D7: words are texts, and --parts has any JSON: 7 and "7" are two intents', async () => {
    const program = ledger.program();
    await program.once("send", [7, "welcome"], async () => "by number");
    expect((await run(["claim", "send", "7", "welcome"])).code).toBe(0);
    const asNumber = await run(["claim", "send", "--parts", '[7,"welcome"]', "--json"]);
    expect(asNumber).toMatchObject({ code: 16, json: { result: "by number" } });
  });

  it.each([
    [
      "in doubt",
      ["--as", "unknown", "--error", "timed out"],
      13,
      /may have happened: timed out\. Look, and settle it: nevertwice show/,
    ],
    ["refused for good", ["--as", "rejected", "--error", "blocked"], 12, /refused for good/],
  ])("D7: an intent that is %s is not claimed, and the exit code says so", async (_, settle, code, words) => {
    const token = await claim("lead-7");
    expect((await run(["settle", token, ...settle])).code).toBe(0);
    expect(await run(["claim", "send", "lead-7"])).toMatchObject({ code, out: "", err: expect.stringMatching(words) });
  });

  it("D7: queued elsewhere, or with another input, nothing is claimed", async () => {
    await run(["enqueue", "send", "lead-7", "--delay", "1h"]);
    expect((await run(["claim", "send", "lead-7", "--input", "null"])).code).toBe(11);
    await claim("lead-8", "--input", '{"to":"a"}');
    const other = await run(["claim", "send", "lead-8", "--input", '{"to":"b"}']);
    expect(other).toMatchObject({ code: 14, err: expect.stringContaining("differs in: to") });
  });

  it("D7: what was not sent may be claimed again; the same request counts the tries", async () => {
    const again = ["lead-7", "--request", "run-1", "--attempts", "1", "--backoff", "1s", "--max-backoff", "1s"];
    const token = await claim(...again);
    expect(await claim(...again)).toBe(token);
    const settled = await run(["settle", token, "--as", "not-sent", "--error", "503", "--error-code", "E", "--json"]);
    expect(settled.json).toMatchObject({ status: "failed", final: false, error: { message: "503", code: "E" } });
    expect((await run(["claim", "send", ...again])).code).toBe(12);
    expect((await run(["claim", "send", "lead-7"])).code).toBe(0);
  });

  it("D7: --on-doubt retry and --resend-within say explicitly that a doubt may be sent again", async () => {
    const token = await claim("lead-7");
    await run(["settle", token, "--as", "unknown"]);
    expect((await run(["claim", "send", "lead-7"])).code).toBe(13);
    const again = await run(["claim", "send", "lead-7", "--resend-within", "1h", "--json"]);
    expect(again).toMatchObject({ code: 0, json: { resend: true, fence: 2 } });
    await run(["settle", again.json.token, "--as", "unknown"]);
    expect((await run(["claim", "send", "lead-7", "--on-doubt", "retry"])).code).toBe(0);
  });

  it("D7: with --mark manual the send mark is a step of its own; heartbeats keep a lease; a lost one says stop", async () => {
    const token = await claim("lead-7", "--mark", "manual", "--lease", "10m");
    expect(await run(["sent", token])).toMatchObject({ code: 0, out: "" });
    expect((await run(["heartbeat", token, "--json"])).json).toEqual({ leaseMs: 600_000 });
    await run(["settle", token, "--as", "done"]);
    for (const name of ["sent", "heartbeat"]) {
      const lost = await run([name, token]);
      expect(lost).toMatchObject({ code: 1, err: expect.stringContaining("no longer yours") });
    }
  });

  it("D7: tenants, secrets and sealed payloads are those of programs", async () => {
    const encrypt = Buffer.alloc(32, 7).toString("base64");
    const env = { NT_SECRET: "a secret of sixteen and more", NT_KEY: encrypt };
    const with_ = ["--tenant", "acme", "--secret-env", "NT_SECRET", "--encrypt-env", "NT_KEY"];
    const { out } = await run(["claim", "send", "lead-7", ...with_], { env });
    const token = out.trim();
    expect((await run(["settle", token, "--as", "done", "--tenant", "other"])).code).toBe(1);
    await run(["settle", token, "--as", "done", "--result", '{"id":1}', ...with_], { env });
    const [record] = (await ledger.store.list({ limit: 5 })).items;
    expect(record?.record).toMatchObject({ tenant: "acme", result: { sealed: expect.any(String) } });
    expect((await run(["claim", "send", "lead-7", "--json", ...with_], { env })).json).toMatchObject({
      result: { id: 1 },
    });
  });
});

describe("enqueue and take", () => {
  it("D7: enqueued ten times, it is there once, and is taken once", async () => {
    const input = ["--input", '{"to":"a"}'];
    const first = await run(["enqueue", "mail", "a", ...input]);
    expect(first).toMatchObject({ code: 0, out: expect.stringMatching(/^nt1_[0-9a-v]{52}\n$/) });
    for (let i = 0; i < 9; i += 1) expect((await run(["enqueue", "mail", "a", ...input])).out).toBe(first.out);
    const taken = await run(["take", "mail"]);
    expect(taken.code).toBe(0);
    const work = JSON.parse(taken.out);
    expect(work).toMatchObject({ action: "mail", input: { to: "a" }, leaseMs: 1_800_000, state: "sent" });
    expect(await run(["take", "mail", "other"])).toMatchObject({ code: 15, out: "" });
    await run(["settle", work.token, "--as", "done", "--result", '"m-1"']);
    expect((await run(["enqueue", "mail", "a", ...input, "--json"])).json).toMatchObject({
      status: "done",
      result: "m-1",
    });
    expect((await run(["enqueue", "mail", "a", "--input", '{"to":"b"}'])).code).toBe(14);
  });

  it("D7: several pieces of work are a line each, or one document", async () => {
    for (const id of ["a", "b", "c"]) await run(["enqueue", "mail", id, "--priority", "3", "--order", "one"]);
    await run(["enqueue", "mail", "d", "--expires", "2030-01-01T00:00:00Z", "--run-at", "2026-01-01T00:00:00Z"]);
    const taken = await run(["take", "mail", "--limit", "5"]);
    // Of an order, one at a time.
    expect(taken.out.trim().split("\n")).toHaveLength(2);
    expect((await run(["take", "mail", "--limit", "5", "--json"])).json).toEqual({ work: [] });
  });
});

describe("a wrong command line", () => {
  it.each<[string[], RegExp]>([
    [["claim"], /claim needs an action and what makes it this intent: nevertwice claim send_welcome user-7/],
    [["claim", "send"], /claim needs an action and what makes it this intent/],
    [["claim", "send", "a", "--parts", '["a"]'], /claim send: give words or --parts, not both/],
    [["claim", "send", ""], /the part is an empty string/],
    [["claim", "send", "--parts", "lead"], /--parts: it is not JSON/],
    [["claim", "send", "--parts", "[12345678901234567890]"], /cannot be held exactly.*Give it as text/],
    [["claim", "send", "--parts", '"a"'], /--parts takes a list/],
    [["claim", "send", "a", "--lease", "soon"], /--lease: "soon" is not a duration/],
    [["claim", "send", "a", "--on-doubt", "x"], /--on-doubt takes "hold", "retry"/],
    [
      ["claim", "send", "a", "--on-doubt", "retry", "--resend-within", "1h"],
      /give --on-doubt or --resend-within, not both/,
    ],
    [["claim", "send", "a", "--input", "1", "--input-file", "x"], /give --input or --input-file, not both/],
    [
      ["settle", "", "--as", "done"],
      /settle needs the token that claim or take printed.*empty where nothing was claimed/,
    ],
    [["settle", "nta1_x"], /say the outcome: --as done, not-sent/],
    [["settle", "nta1_x", "--as", "done"], /the token names no attempt/],
    [["settle", "nta1_x", "--as", "ok"], /--as takes "done"/],
    [["settle", "nta1_x", "--as", "done", "--result", "1", "--result-text", "1"], /one of them/],
    [["settle", "nta1_x", "--as", "refused", "--error-code", "1"], /--error-code goes with --error/],
    [["enqueue", "mail", "a", "--priority", "x"], /--priority takes a whole number/],
    [["enqueue", "mail", "a", "--run-at", "noon"], /--run-at takes an instant/],
    [["take"], /take needs the actions whose queued work is taken/],
    [["take", "mail", "--limit", "1000"], /--limit takes a whole number from 1 to 100/],
    [["sent"], /sent needs the token/],
  ])("D7: nevertwice %j is refused with exit code 2", async (argv, words) => {
    expect(await run(argv)).toMatchObject({ code: 2, out: "", err: expect.stringMatching(words) });
  });
});
