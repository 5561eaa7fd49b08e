/** nt.prevented(): calls that were answered from the ledger instead of being run, by action and cause. */
import { describe, expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";
import { PREVENTED_ACTION, PREVENTED_KEEP_MS } from "../core/prevented.ts";

interface Mail {
  readonly to: string;
  readonly amount?: number;
}

const HOUR = 3_600_000;

eachStore("prevented", (open) => {
  const sending = (nt: ReturnType<typeof open>["nt"], run = async (_mail: Mail): Promise<unknown> => ({ id: 1 })) =>
    nt.action("send_mail", { key: ["to"], retry: { attempts: 1 }, run });

  it("counts by action and cause, with times and the latest key; a first call and a plain failure are none", async () => {
    const { nt } = open();
    const send = sending(nt);
    await send({ to: "ada" });
    expect(await nt.prevented()).toEqual({ prevented: 0, observed: 0, entries: [] });
    await send({ to: "ada" });
    await send({ to: "ada" });
    expect((await send.attempt({ to: "ada", amount: 2 })).status).toBe("conflict");
    const key = await send.keyOf({ to: "ada" });
    const { prevented, entries } = await nt.prevented();
    expect(prevented).toBe(3);
    const about = { tenant: "", action: "send_mail", observed: 0, key, first: expect.any(Number) };
    expect(entries).toEqual([
      { ...about, cause: "done", prevented: 2, last: expect.any(Number) },
      { ...about, cause: "conflict", prevented: 1, last: expect.any(Number) },
    ]);
    expect(JSON.stringify(entries)).not.toContain("ada");
  });

  it("counts calls that joined one of this process, met one of another, a doubt and a refusal; never the call that ran", async () => {
    const { nt, another } = open();
    let letGo = () => {};
    const gate = new Promise<void>((done) => {
      letGo = done;
    });
    const slow = sending(nt, () => gate.then(() => ({ id: 1 })));
    const first = slow({ to: "ada" });
    const joined = slow({ to: "ada" });
    while ((await slow.status({ to: "ada" })).status === "absent") await new Promise((done) => setTimeout(done, 5));
    const elsewhere = another();
    expect((await sending(elsewhere).attempt({ to: "ada" }, { wait: 0 })).status).toBe("in_flight");
    letGo();
    await Promise.all([first, joined]);
    const broken = nt.action("break", { key: ["to"], run: async (_mail: Mail) => Promise.reject(new Error("hm")) });
    for (let call = 0; call < 3; call += 1) expect((await broken.attempt({ to: "eve" })).status).toBe("unknown");
    const refusing = nt.action("refuse", {
      key: ["to"],
      classify: () => "rejected",
      run: async (_mail: Mail) => Promise.reject(new Error("no")),
    });
    for (let call = 0; call < 2; call += 1) expect((await refusing.attempt({ to: "eve" })).status).toBe("failed");
    await elsewhere.sweep();
    const { entries } = await nt.prevented();
    expect(entries.map(({ action, cause, prevented }) => [action, cause, prevented]).sort()).toEqual([
      ["break", "in-doubt", 2],
      ["refuse", "refused", 1],
      ["send_mail", "in-flight", 2],
    ]);
  });

  it("a doubt that a call's own attempt left, and settled by looking, is no duplicate", async () => {
    const { nt } = open();
    const probe = nt.action("probe", {
      key: ["to"],
      doubt: { probe: () => ({ as: "done", result: { id: 7 } }), quietFor: 0 },
      retry: { attempts: 2, backoff: 1 },
      run: async (_mail: Mail): Promise<{ id: number }> => Promise.reject(new Error("reset")),
    });
    expect(await probe({ to: "ada" })).toEqual({ id: 7 });
    expect(await nt.prevented()).toMatchObject({ prevented: 0 });
  });

  it("counts what is enqueued again", async () => {
    const { nt } = open();
    const send = sending(nt);
    await send.enqueue({ to: "ada" });
    await send.enqueue({ to: "ada" });
    await send.enqueueMany([{ to: "ada" }, { to: "bob" }]);
    expect((await nt.prevented()).entries).toMatchObject([{ action: "send_mail", cause: "queued", prevented: 2 }]);
  });

  it("adds up over processes and hours; since cuts by the hour; after 90 days nothing is left", async () => {
    const { nt, clock, store, another } = open();
    const send = sending(nt);
    await send({ to: "ada" });
    await send({ to: "ada" });
    await nt.sweep();
    clock.advance(3 * HOUR);
    const elsewhere = another();
    const sendThere = sending(elsewhere);
    await sendThere({ to: "ada" });
    await sendThere({ to: "ada" });
    await elsewhere.sweep();
    const all = await nt.prevented();
    expect(all).toMatchObject({ prevented: 3, entries: [{ cause: "done", prevented: 3 }] });
    const [entry] = all.entries;
    expect((entry?.last ?? 0) - (entry?.first ?? 0)).toBeGreaterThanOrEqual(3 * HOUR);
    expect(await nt.prevented({ since: "1h" })).toMatchObject({ prevented: 2 });
    expect(await nt.prevented({ since: new Date(clock.instant().now - 4 * HOUR) })).toMatchObject({ prevented: 3 });
    const notes = await store.list({ action: PREVENTED_ACTION, limit: 10 });
    expect(notes.items.length).toBeLessThanOrEqual(2);
    clock.advance(PREVENTED_KEEP_MS + 24 * HOUR);
    expect(await nt.prevented()).toMatchObject({ prevented: 0 });
    await nt.sweep();
    expect((await store.list({ action: PREVENTED_ACTION, limit: 10 })).items).toEqual([]);
  });

  it("keeps to its tenant; all of them for who serves all", async () => {
    const { another } = open();
    const [acme, globex, all] = [
      another({ tenant: "acme" }),
      another({ tenant: "globex" }),
      another({ tenant: "acme", tenants: "all" }),
    ] as const;
    for (const send of [sending(acme), sending(globex)]) await Promise.all([send({ to: "ada" }), send({ to: "ada" })]);
    await globex.prevented();
    expect((await acme.prevented()).entries).toMatchObject([{ tenant: "acme", prevented: 1 }]);
    expect((await globex.prevented()).entries).toMatchObject([{ tenant: "globex", prevented: 1 }]);
    expect((await all.prevented()).entries.map(({ tenant }) => tenant).sort()).toEqual(["acme", "globex"]);
    expect((await acme.prevented({ tenants: "all" })).prevented).toBe(2);
    await expect(acme.prevented({ tenant: "globex" })).rejects.toThrow(/confined to "acme"/);
  });

  it("counts nothing twice when the reply of a write was lost, and loses nothing while the store is down", async () => {
    const faults: Faults = {};
    const { another } = open();
    const nt = another({ wrap: (store) => faulty(store, faults) });
    const send = sending(nt);
    await send({ to: "ada" });
    await send({ to: "ada" });
    let lost = 0;
    faults.loseReply = ({ record }) => record.action === PREVENTED_ACTION && ++lost === 1;
    await nt.sweep();
    await nt.sweep();
    expect(lost).toBe(1);
    faults.down = true;
    await nt.sweep().catch(() => {});
    faults.down = false;
    expect(await nt.prevented()).toMatchObject({ prevented: 1 });
  });
});

describe("prevented()", () => {
  it("refuses options that it does not know, and a time that is none", async () => {
    const { nt } = openMemory();
    await expect(nt.prevented({ last: "7d" } as never)).rejects.toThrow(/no option "last"/);
    await expect(nt.prevented({ since: "last week" })).rejects.toThrow(/prevented\(\): since/);
    await expect(nt.prevented({ since: new Date(Number.NaN) })).rejects.toThrow(/since/);
  });
});
