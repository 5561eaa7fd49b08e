/** `nevertwice forget`, as a person types it. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const REASON = ["--reason", "erasure, ticket 12"];

async function mailed(options: { tenant?: string } = {}) {
  const nt = ledger.program(options);
  const send = nt.action("send_mail", {
    key: ["id"],
    wait: 0,
    run: async ({ id, to }: { id: string; to: string }) => {
      if (id === "doubt") throw new Error("socket hang up");
      return { id: `msg_${id}`, to };
    },
  });
  await send({ id: "1", to: "ada@example.org" });
  await send.attempt({ id: "doubt", to: "ada@example.org" });
  const keyOf = (id: string) => send.keyOf({ id, to: "" });
  return { nt, send, keyOf };
}

describe("forget", () => {
  it("empties the record, says what follows, and show says who did it: by the beginning of the key, and after the sweep by the whole", async () => {
    const { send, keyOf } = await mailed();
    const key = await keyOf("1");
    const { code, out } = await ledger.run(["forget", key.slice(0, 14), ...REASON, "--by", "kim"], { columns: 200 });
    expect(out).toMatch(
      /^send_mail nt1_\w+: confirmed → forgotten\nIts payloads, errors and history are gone\. If it is asked for again, it runs a second time\./,
    );
    expect(code).toBe(0);
    const shown = await ledger.run(["show", key.slice(0, 14)], { columns: 200 });
    expect(shown.out).toMatch(/forgotten +forgotten by kim on .*: erasure, ticket 12 \(it was confirmed\)/);
    expect(shown.out).not.toContain("ada@");
    expect((await ledger.run(["ls"])).out).not.toContain(key.slice(0, 14));
    expect((await ledger.run(["status", key])).out).toMatch(/absent/);
    await ledger.run(["sweep"]);
    expect((await ledger.run(["show", key])).out).toContain("forgotten by kim on");
    expect((await ledger.run(["show", key, "--json"])).json).toMatchObject({
      record: null,
      key,
      forgotten: [{ by: "kim" }],
    });
    expect((await ledger.run(["show", key.slice(0, 14)])).err).toMatch(/there is no record/);

    await send({ id: "1", to: "ada@example.org" });
    const again = await ledger.run(["show", key], { columns: 200 });
    expect(again.out).toMatch(/before +a record with this key was forgotten by kim on/);
    expect(again.out).toContain("ada@example.org");
  });

  it("asked twice nothing changes; --json says so", async () => {
    const { keyOf } = await mailed();
    const key = await keyOf("1");
    const first = await ledger.run(["forget", key, ...REASON, "--json"]);
    expect(first.json).toMatchObject({
      key,
      action: "send_mail",
      was: "confirmed",
      records: 1,
      changed: true,
      reason: "erasure, ticket 12",
    });
    const second = await ledger.run(["forget", key, ...REASON, "--json"]);
    expect([second.code, second.json.changed, second.json.records]).toEqual([0, false, 0]);
    expect((await ledger.run(["forget", key, ...REASON])).out).toMatch(/already forgotten by .* Nothing was changed/);
  });

  it("a doubt is refused, and taken with --even-in-doubt", async () => {
    const { keyOf, nt } = await mailed();
    const key = await keyOf("doubt");
    const refused = await ledger.run(["forget", key, ...REASON]);
    expect([refused.code, refused.out]).toEqual([1, ""]);
    expect(refused.err).toMatch(/in doubt: it may have happened\..*--even-in-doubt/);
    expect(await nt.status({ key })).toMatchObject({ status: "unknown" });
    const taken = await ledger.run(["forget", key, ...REASON, "--even-in-doubt"]);
    expect([taken.code, taken.out]).toEqual([0, expect.stringContaining("unknown → forgotten")]);
  });

  it("an attempt under way is refused", async () => {
    const at = ledger.store.instant?.() ?? { steady: 0, epoch: "" };
    const key = `nt1_${"live".padEnd(52, "0")}`;
    await ledger.put({ key, state: "sent", holder: "h", lease: { until: at.steady + 60_000, epoch: at.epoch } });
    const { code, err } = await ledger.run(["forget", key, ...REASON, "--even-in-doubt"]);
    expect([code, err]).toEqual([1, expect.stringContaining("an attempt is still under way")]);
  });

  it("it asks for a key, a reason and a record", async () => {
    await mailed();
    const said = async (...argv: string[]) => {
      const { code, err } = await ledger.run(["forget", ...argv]);
      return [code, err] as const;
    };
    expect(await said()).toEqual([2, expect.stringContaining("forget needs a key")]);
    expect(await said("nt1_00000000")).toEqual([2, expect.stringContaining("--reason is missing")]);
    expect(await said("nt1_00000000", ...REASON)).toEqual([
      1,
      expect.stringContaining("there is no record whose key begins with"),
    ]);
    expect(await said("send_mail", ...REASON)).toEqual([2, expect.stringContaining("is not a key")]);
  });

  it("--tenant keeps to its tenant's records, and another's note is not shown", async () => {
    const { keyOf } = await mailed({ tenant: "acme" });
    const key = await keyOf("1");
    expect((await ledger.run(["forget", key, ...REASON, "--tenant", "globex"])).err).toMatch(
      /no record of the tenant "globex"/,
    );
    expect((await ledger.run(["forget", key, ...REASON, "--tenant", "acme"])).code).toBe(0);
    expect((await ledger.run(["show", key, "--tenant", "globex"])).code).toBe(1);
    expect((await ledger.run(["show", key, "--tenant", "acme"])).out).toContain("forgotten by");
    expect((await ledger.run(["show", key])).out).toContain("forgotten by");
  });

  it("what the notes say can be listed, and is no record of something that was done", async () => {
    const { keyOf } = await mailed();
    await ledger.run(["forget", await keyOf("1"), ...REASON, "--by", "kim"]);
    const { json } = await ledger.run(["ls", "--action", "nevertwice.forgotten", "--json"]);
    expect(json.records).toHaveLength(1);
    expect((await ledger.run(["ls", "--json"])).json.records.map((one: { state: string }) => one.state)).toEqual([
      "unknown",
    ]);
    const note = await ledger.run(["forget", json.records[0].key, ...REASON]);
    expect(note.err).toMatch(/a note that the ledger keeps for itself/);
  });
});
