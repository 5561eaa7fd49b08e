/** `nevertwice import`: several rows of one key, and records that are there already. Nothing is weakened. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../../test/support/cli.ts";
import { notSent } from "../../core/errors.ts";

const DAY = 86_400_000;
let cli: CliLedger;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
});
afterEach(() => cli.close());

const load = (rows: readonly object[], ...flags: string[]) => {
  writeFileSync(join(cli.folder, "l.jsonl"), rows.map((row) => `${JSON.stringify({ key: "a", ...row })}\n`).join(""));
  return cli.run(["import", "l.jsonl", "--action", "send", ...flags]);
};

const s = (status: string, more: object = {}) => ({ status, ...more });

it("a row that says failed, of a record that says confirmed: reported, and left as it is", async () => {
  await load([s("done")]);
  const { out, code } = await load([s("failed")]);
  expect(out).toContain("1 row says failed, its record says confirmed; left as it is.");
  expect(code).toBe(0);
  expect((await load([s("failed")], "--json")).json).toMatchObject({ known: 1, confirmedAgainst: 1 });
});

describe("rows of one key", () => {
  it.each([
    ["a retry that worked", [s("failed"), s("sent")], { confirmed: 1 }],
    ["begun and done", [s("in_progress"), s("done")], { confirmed: 1 }],
    ["begun and failed", [s("in_progress"), s("failed")], { failed: 1 }],
    ["queued, begun and failed", [s("queued"), s("running"), s("failed")], { failed: 1 }],
    ["failed, and begun again", [s("failed"), s("in_progress")], { unknown: 1 }],
    [
      "begun twice, failed once: one of them may have happened",
      [s("started"), s("started"), s("failed")],
      { unknown: 1 },
    ],
    ["sent twice", [s("sent", { result: 1 }), s("sent", { result: 2 })], { confirmed: 1 }],
    [
      "newest first, by its times",
      [s("sent", { ts: 1_800_000_002 }), s("failed", { ts: 1_800_000_001 })],
      { confirmed: 1 },
    ],
    ["newest first, failed", [s("failed", { ts: 1_800_000_002 }), s("started", { ts: 1_800_000_001 })], { failed: 1 }],
  ])("%s", async (_, rows, states) => {
    const { json, code } = await load(rows, "--json");
    expect(code).toBe(0);
    expect(json).toMatchObject({ rows: rows.length, keys: 1, imported: 1, states, check: { unguarded: 0 } });
  });

  it("the same mail sent twice is one record, with the first result", async () => {
    await load([s("sent", { result: "m-1" }), s("sent", { result: "m-2" })]);
    expect(await cli.program().once("send", ["a"], () => "again")).toBe("m-1");
  });

  it.each(["failed", "in_progress"])(
    "done and later %s is refused with both lines, and done with --done-wins",
    async (later) => {
      const rows = [s("sent"), { ...s("sent"), key: "b" }, s(later)];
      const refused = await load(rows);
      expect([refused.code, refused.err]).toEqual([
        1,
        expect.stringMatching(new RegExp(`line 1 says sent and line 3, later, ${later}.*--done-wins`, "s")),
      ]);
      expect((await cli.program().store.stats()).total).toBe(0);
      const { json } = await load(rows, "--done-wins", "--json");
      expect(json).toMatchObject({ contradictions: 1, states: { confirmed: 2 }, check: { unguarded: 0 } });
    },
  );
});

describe("records that are there", () => {
  const program = () => cli.program();
  const failing = () =>
    program()
      .once("send", ["a"], () => Promise.reject(new Error("ECONNREFUSED")))
      .catch(() => {});

  it.each(["failed", "in_progress"])("a confirmed record stays when a row says %s", async (status) => {
    await program().once("send", ["a"], () => "first");
    const { json, code } = await load([s(status)], "--json");
    expect([code, json.known]).toEqual([0, 1]);
    expect(await program().once("send", ["a"], () => "again")).toBe("first");
  });

  it("a record in doubt is confirmed by a row that says done, and is not changed by one that says failed", async () => {
    await failing();
    expect((await load([s("failed")], "--json")).json).toMatchObject({ known: 1, imported: 0, strengthened: 0 });
    await expect(program().once("send", ["a"], () => "again")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    const done = await load([s("sent", { result: "m-1" })]);
    expect(done.out).toMatch(/1 record was failed or in doubt, and is confirmed now/);
    expect(await program().once("send", ["a"], () => "again")).toBe("m-1");
  });

  it("a failed record, which the next call would run, is confirmed by a row that says done", async () => {
    await load([s("failed")]);
    expect((await load([s("sent", { result: "m-1" })], "--json")).json).toMatchObject({ strengthened: 1 });
    expect(await program().once("send", ["a"], () => "again")).toBe("m-1");
  });

  it.each([
    ["forever unless --keep is given", [], null],
    ["for --keep", ["--keep", "30d"], 30 * DAY],
    ["not shorter than before", ["--keep", "1d"], 7 * DAY],
  ])("what was failed, in doubt or queued and is confirmed is kept %s", async (_, flags, keepMs) => {
    const nt = program();
    const send = nt.action("send", {
      key: (input: { id: string }) => [input.id],
      keep: "7d",
      retry: { attempts: 1 },
      run: ({ id }: { id: string }) => {
        throw id === "doubt" ? new Error("connection reset") : notSent(new Error("no connection"));
      },
    });
    expect((await send.attempt({ id: "doubt" })).status).toBe("unknown");
    expect((await send.attempt({ id: "failed" })).status).toBe("failed");
    await send.enqueue({ id: "queued" });
    const ids = ["doubt", "failed", "queued"];
    await load(
      ids.map((key) => ({ key, status: "done" })),
      ...flags,
    );
    for (const id of ids) {
      const [stored] = await nt.store.read([await send.keyOf({ id })]);
      expect(stored?.record, id).toMatchObject({ state: "confirmed", keepMs });
      expect(stored?.record.expiresAt === null, id).toBe(keepMs === null);
    }
  });

  it("an expired record that no sweep has removed yet is replaced", async () => {
    const nt = program();
    await nt.once("send", ["a"], () => "first", { keep: "1ms" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await load([s("sent", { result: "m-1" })], "--json")).json).toMatchObject({ imported: 1, known: 0 });
    expect(await program().once("send", ["a"], () => "again")).toBe("m-1");
  });

  it("work that is queued for later is confirmed too: it would be sent once more then", async () => {
    const send = program().action("send", { key: (input: { id: string }) => [input.id], run: () => "again" });
    await send.enqueue({ id: "a" }, { delay: "1h" });
    const { json, code } = await load([s("sent")], "--json");
    expect([code, json.strengthened, json.check.repeats]).toEqual([0, 1, 1]);
    expect(await send.status({ id: "a" })).toMatchObject({ status: "done" });
  });

  it("work that is queued and due is confirmed: a worker does not run it", async () => {
    const nt = program();
    const ran: unknown[] = [];
    const send = nt.action("send", { key: ({ id }: { id: string }) => [id], run: (input) => void ran.push(input) });
    await send.enqueue({ id: "a" });
    const { json, code } = await load([s("sent")], "--json");
    expect([code, json.strengthened]).toEqual([0, 1]);
    await nt.worker().drain();
    expect(ran).toEqual([]);
  });
});
