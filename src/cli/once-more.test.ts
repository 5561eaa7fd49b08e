/** requests, and resend of a guarded tool's record: what people see and decide. */
import { guardTool, onceMoreTool } from "nevertwice/agents";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";

let ledger: CliLedger;
beforeEach(() => {
  ledger = new CliLedger();
});
afterEach(() => ledger.close());

const reason = ["--reason", "she lost it", "--by", "kim"];

async function sent() {
  const nt = ledger.program();
  const mails: string[] = [];
  const send = guardTool(nt, { name: "send_mail", key: ["to"], scope: "s1" }, async ({ to }: { to: string }) =>
    mails.push(to),
  );
  await send({ to: "ada" }, undefined);
  const { items } = await nt.store.list({ action: "send_mail", limit: 1 });
  return { nt, mails, call: () => send({ to: "ada" }, undefined), key: items[0]?.record.key as string };
}

describe("resend of a guarded tool", () => {
  it("says where the ledger does not know that it is one; --tool grants one more run", async () => {
    const { key, call, mails } = await sent();
    const unknown = await ledger.run(["resend", key, ...reason]);
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining(`resend ${key.slice(0, 14)} --reason`) });
    expect(unknown.err).toContain("--tool");
    const { code, out } = await ledger.run(["resend", key, ...reason, "--tool"]);
    expect(code).toBe(0);
    expect(out).toMatch(/^send_mail: granted\. The next identical call of the tool runs, as version 2\.\nkey {5}nt1_/);
    expect((await ledger.run(["resend", key, ...reason])).out).toContain("granted, as before");
    expect([await call(), await call()]).toEqual([2, 2]);
    expect(mails).toHaveLength(2);
    const { json } = await ledger.run(["resend", key, ...reason, "--json"]);
    expect(json).toMatchObject({ action: "send_mail", version: 2, state: "granted", by: "kim", unchanged: false });
  });

  it("is granted at once where the note of its key says that it is a tool", async () => {
    const { nevertwice } = await import("nevertwice");
    const nt = nevertwice({ store: `sqlite:${ledger.path}` });
    const mails: string[] = [];
    const send = guardTool(nt, { name: "send_mail", scope: null, key: ["to"] }, async ({ to }: { to: string }) =>
      mails.push(to),
    );
    await send({ to: "ada" }, undefined);
    await nt.close();
    const { items } = await ledger.store.list({ action: "send_mail", limit: 1 });
    const { code, out } = await ledger.run(["resend", items[0]?.record.key as string, ...reason]);
    expect([code, out.split("\n")[0]]).toEqual([
      0,
      "send_mail: granted. The next identical call of the tool runs, as version 2.",
    ]);
  });

  it("--deny takes a grant back, until it is used; with --actions it is refused", async () => {
    const { key, call, mails } = await sent();
    await ledger.run(["resend", key, ...reason, "--tool"]);
    const denied = await ledger.run(["resend", key, ...reason, "--deny"]);
    expect(denied.out).toBe("send_mail: denied. Identical calls get the first result.\n");
    await call();
    expect(mails).toHaveLength(1);
    expect(await ledger.run(["resend", key, ...reason, "--deny", "--actions", "./x.js"])).toMatchObject({ code: 2 });
  });
});

describe("requests", () => {
  it("lists what models ask for, with the commands that decide; doctor counts them", async () => {
    const { nt, key } = await sent();
    expect((await ledger.run(["requests"])).out).toBe("No open requests.\n");
    await onceMoreTool(nt, { agent: "mailer" }).execute({ reference: key, reason: "a second\ncopy" });
    const { out } = await ledger.run(["requests"], { columns: 120 });
    expect(out).toMatch(/^key +action +version +asked +agent +reason\n/);
    expect(out).toMatch(new RegExp(`${key.slice(0, 14)} +send_mail +1 +\\S+.* +mailer +a second.copy`));
    expect(out).toContain(`nevertwice resend ${key.slice(0, 14)} --deny --reason "…"`);
    expect((await ledger.run(["requests", "--json"])).json.requests).toMatchObject([
      { key, tenant: "", action: "send_mail", version: 1, agent: "mailer", at: expect.any(Number) },
    ]);
    const doctor = await ledger.run(["doctor"]);
    expect(doctor.out).toMatch(/! requests +1 request for a run once more/);
    expect(doctor.code).toBe(0);
    // Asked for by a model, so that it is a tool's.
    expect((await ledger.run(["resend", key, ...reason])).out).toContain("send_mail: granted.");
    expect((await ledger.run(["requests", "--json"])).json.requests).toEqual([]);
  });
});

describe("whose record it is", () => {
  it("show, and a missing reason, print the command that fits a tool, also of its next version", async () => {
    const { nt, key, call } = await sent();
    await onceMoreTool(nt, { agent: "mailer" }).execute({ reference: key, reason: "a copy" });
    const expected = `nevertwice resend ${key.slice(0, 14)} --reason '…'\n`;
    expect((await ledger.run(["show", key])).out).toContain(expected);
    expect((await ledger.run(["resend", key])).err).toContain(expected);
    await ledger.run(["resend", key, ...reason]);
    await call();
    const { items } = await nt.store.list({ action: "send_mail", limit: 5 });
    const second = items.find(({ record }) => record.version === 2)?.record.key ?? "";
    const { out } = await ledger.run(["show", second]);
    expect(out).toContain(`nevertwice resend ${second.slice(0, 14)} --reason '…'\n`);
    expect(out).not.toContain("--actions");
  });

  it("an action's record is granted nothing, since its calls look for no grant", async () => {
    const { nevertwice } = await import("nevertwice");
    const nt = nevertwice({ store: `sqlite:${ledger.path}` });
    let runs = 0;
    const mail = nt.action("mail", { key: ["x"], run: async (_: { x: string }) => ++runs });
    await mail({ x: "1" });
    const key = await mail.keyOf({ x: "1" });
    // The program has neither swept nor closed: the ledger cannot tell.
    const early = await ledger.run(["resend", key, "--tool", ...reason]);
    expect(early.err).toContain("the ledger does not know yet whether mail is a guarded tool");
    expect([await mail({ x: "1" }), runs]).toEqual([1, 1]);
    await nt.close();
    for (const flag of ["--tool", "--deny"]) {
      const { code, err } = await ledger.run(["resend", key, flag, ...reason]);
      expect([code, err]).toEqual([1, expect.stringContaining("mail is an action and no guarded tool")]);
      expect(err).toContain(`nevertwice resend ${key.slice(0, 14)} --reason '…' --actions ./actions.js`);
    }
  });

  it("--deny with nothing to deny says so", async () => {
    const { key } = await sent();
    const { code, err } = await ledger.run(["resend", key, "--deny", ...reason]);
    expect([code, err]).toEqual([1, expect.stringContaining("there is nothing to deny")]);
  });
});
