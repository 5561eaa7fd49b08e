import { sampleRecord } from "nevertwice/testing";
import { expect, it } from "vitest";
import { eachStore, kinds } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";
import { printInput, toFingerprint } from "../core/key/fingerprint.ts";

interface Mail {
  to: string;
}
const mail = { to: "a" };
const ana = { by: "ana", reason: "looked it up" };

eachStore("resolve", (open) => {
  const inDoubt = async () => {
    const bench = open();
    let runs = 0;
    const send = bench.nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs === 1) throw new Error("reply lost");
        return `m${runs}`;
      },
    });
    await send.attempt(mail);
    return { ...bench, send, key: await send.keyOf(mail), runs: () => runs };
  };

  it("done: confirmed with the given result, by a named person, in the history", async () => {
    const { send, record, key, events, runs } = await inDoubt();
    const outcome = await send.resolve(mail, { as: "done", result: "m0", ...ana });
    expect(outcome).toMatchObject({ status: "done", result: "m0", replayed: true });
    expect(await send(mail)).toBe("m0");
    expect((await record(key)).history.at(-1)).toMatchObject({ event: "resolved-done", from: "unknown", ...ana });
    expect(events).toContainEqual(expect.objectContaining({ type: "settled", as: "done", how: "resolve" }));
    expect(runs()).toBe(1);
  });

  it("not-done: claimable again", async () => {
    const { send, key, runs } = await inDoubt();
    expect(await send.resolve({ key }, { as: "not-done", ...ana })).toMatchObject({ status: "failed", final: false });
    expect(await send(mail)).toBe("m2");
    expect(runs()).toBe(2);
  });

  it("failed: not to be tried again, until retry brings it back", async () => {
    const { nt, send, key, runs } = await inDoubt();
    expect(await nt.resolve({ key }, { as: "failed", ...ana })).toMatchObject({ status: "failed", final: true });
    await expect(send(mail)).rejects.toMatchObject({ code: "FAILED" });
    expect(runs()).toBe(1);
    await nt.retry({ key }, ana);
    expect(await send(mail)).toBe("m2");
  });

  it("a double click on the same decision is no mistake, another decision is refused", async () => {
    const { send, key } = await inDoubt();
    await send.resolve({ key }, { as: "done", ...ana });
    expect(await send.resolve({ key }, { as: "done", ...ana })).toMatchObject({ status: "done" });
    await expect(send.resolve({ key }, { as: "not-done", ...ana })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it("G1: an attempt under way cannot be resolved; one whose lease has run out can", async () => {
    const { nt, clock } = open();
    const finish = gate();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        await finish.opened;
      },
    });
    const first = send.attempt(mail);
    await until(() => runs === 1);
    await expect(send.resolve(mail, { as: "not-done", ...ana })).rejects.toMatchObject({ code: "IN_FLIGHT" });
    clock.advance(61_000);
    expect(await send.resolve(mail, { as: "done", ...ana })).toMatchObject({ status: "done" });
    finish.open();
    await first;
  });

  it("what is not there, not in doubt, unsigned or misspelt is refused, and says so", async () => {
    const { nt, send, key } = await inDoubt();
    const absent = await send.keyOf({ to: "nobody" });
    await expect(nt.resolve({ key: absent }, { as: "done", ...ana })).rejects.toMatchObject({ code: "INVALID_KEY" });
    await expect(nt.resolve({ key }, { as: "done", by: "", reason: "x" })).rejects.toThrow(/by is missing/);
    for (const as of ["maybe", "toString", "__proto__"]) {
      await expect(nt.resolve({ key }, { as: as as "done", ...ana })).rejects.toThrow(/it takes "done", "not-done"/);
    }
    await expect(nt.retry({ key }, ana)).rejects.toThrow(/Only a failed record can be retried/);
    expect(await send.status(mail)).toMatchObject({ status: "unknown" });
  });
});

eachStore("status", (open) => {
  it("never runs anything: absent, in_flight, done, unknown, failed", async () => {
    const { nt, events } = open();
    const finish = gate();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async ({ to }: Mail) => {
        runs += 1;
        if (to === "lost") throw new Error("reply lost");
        if (to === "bad") throw Object.assign(new Error("no"), { status: 422 });
        await finish.opened;
        return to;
      },
    });
    expect(await send.status(mail)).toEqual({ status: "absent", key: await send.keyOf(mail) });
    expect([runs, kinds(events)]).toEqual([0, []]);
    const first = send(mail);
    await until(async () => (await send.status(mail)).status === "in_flight");
    finish.open();
    await first;
    expect(await send.status({ key: await send.keyOf(mail) })).toMatchObject({ status: "done", result: "a" });
    await send.attempt({ to: "lost" });
    await send.attempt({ to: "bad" });
    expect(await send.status({ to: "lost" })).toMatchObject({ status: "unknown", attempt: 1 });
    expect(await send.status({ to: "bad" })).toMatchObject({ status: "failed", error: { message: "no" } });
    expect(await nt.status({ key: await send.keyOf({ to: "bad" }) })).toMatchObject({ status: "failed" });
    expect(runs).toBe(3);
  });

  it("queued: in the outbox and not due yet, due, and run by a direct call then", async () => {
    const { nt, store, clock } = open();
    let runs = 0;
    const send = nt.action("mail", { key: ["to"], run: async (_mail: Mail) => ++runs });
    const key = await send.keyOf(mail);
    const dueAt = Math.round(clock.instant().now) + 3_600_000;
    const fingerprint = toFingerprint(printInput(mail, []));
    const queued = sampleRecord({ key, action: "mail", queued: true, dueAt, fingerprint });
    await store.write([{ record: queued, expected: null }]);
    expect(await send.status(mail)).toEqual({ status: "queued", key, dueAt });
    expect(await send.attempt(mail, { wait: 0 })).toMatchObject({ status: "queued" });
    clock.advance(3_600_001);
    expect(await send.attempt(mail)).toMatchObject({ status: "done", result: 1 });
  });
});
