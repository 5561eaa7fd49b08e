import { notSent, rejected } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Mail {
  to: string;
}
const mail = { to: "a" };
const ana = { by: "ana", reason: "the customer lost it" };

eachStore("resend", (open) => {
  const counting = () => {
    const bench = open();
    let runs = 0;
    const send = bench.nt.action("mail", { key: ["to"], run: async (_mail: Mail) => `m${++runs}` });
    return { ...bench, send, runs: () => runs };
  };

  it("W3 K2: a double click is a repeat, a resend is the next version", async () => {
    const { send, record } = counting();
    expect([await send(mail), await send(mail)]).toEqual(["m1", "m1"]);
    expect(await send.resend(mail, ana)).toBe("m2");
    expect(await send.resend(mail, ana)).toBe("m3");
    expect(await send(mail)).toBe("m1");
    expect(await send(mail, { version: 3 })).toBe("m3");
    const third = await record(await send.keyOf(mail, { version: 3 }));
    expect(third).toMatchObject({ version: 3, history: [{ event: "resend", ...ana }] });
  });

  it("W3: a double click on resend while the new version is in flight joins it", async () => {
    const { nt, another } = open();
    const finish = gate();
    let runs = 0;
    const options = {
      key: ["to"],
      run: async (_mail: Mail) => {
        const run = ++runs;
        if (run > 1) await finish.opened;
        return run;
      },
    } as const;
    const send = nt.action("mail", options);
    await send(mail);
    const first = send.resend(mail, ana);
    await until(() => runs === 2);
    const clicks = [send.resend(mail, ana), another().action("mail", options).resend(mail, ana)];
    await new Promise((done) => setTimeout(done, 20));
    finish.open();
    expect(await Promise.all([first, ...clicks])).toEqual([2, 2, 2]);
    expect(runs).toBe(2);
  });

  it("O14: three clicks on one resend button are one more mail, in a row or at once, in this process or another", async () => {
    const { nt, another } = open();
    let runs = 0;
    const options = { key: ["to"], run: async (_mail: Mail) => `m${++runs}` } as const;
    const send = nt.action("mail", options);
    const elsewhere = another().action("mail", options);
    await send(mail);
    for (const click of [send, send, elsewhere]) expect(await click.resend(mail, { ...ana, after: 1 })).toBe("m2");
    const clicks = [send, elsewhere, send].map((click) => click.resend(mail, { ...ana, after: 2 }));
    expect(await Promise.all(clicks)).toEqual(["m3", "m3", "m3"]);
    expect(await send.resend(mail, ana)).toBe("m4");
    expect(await send.resend(mail, { ...ana, after: 1 })).toBe("m2");
    expect(runs).toBe(4);
  });

  it("O14: a version is honoured: it is the one that is sent, once", async () => {
    const { send, runs, record } = counting();
    await send(mail);
    expect(await send.resend(mail, { ...ana, version: 2 })).toBe("m2");
    expect(await send.resend(mail, { ...ana, version: 2, after: 1 })).toBe("m2");
    expect(runs()).toBe(2);
    expect(await record(await send.keyOf(mail, { version: 2 }))).toMatchObject({
      version: 2,
      history: [{ event: "resend", ...ana }],
    });
  });

  it.each([
    [{ after: 0 }, /after is 0; it takes a whole number from 1 on/],
    [{ after: 1.5 }, /after is 1\.5/],
    [{ after: "1" as never }, /after is the text "1"; it takes a whole number/],
    [{ version: 1 }, /version is 1; it takes a whole number from 2 on/],
    [{ after: 1, version: 3 }, /after is 1 and version is 3, which are two different resends/],
    [{ after: undefined as never }, /after/],
    [{ version: undefined as never }, /version/],
  ])("O14: %o is refused, and nothing is sent", async (given, message) => {
    const { send, runs } = counting();
    await send(mail);
    await expect(send.resend(mail, { ...ana, ...given })).rejects.toThrow(message);
    expect(runs()).toBe(1);
  });

  it("O14: the version that was seen has to be settled: in doubt, under way or to be tried again, it is the one to go on with", async () => {
    const { nt } = open();
    const finish = gate();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      retry: { attempts: 1 },
      run: async ({ to }: Mail) => {
        runs += 1;
        if (to === "doubt") throw new Error("reset by peer");
        if (to === "later" && runs === 2) throw notSent(new Error("refused"));
        if (to === "slow") await finish.opened;
        return `m${runs}`;
      },
    });
    const click = (to: string) => send.resend({ to }, { ...ana, after: 1 });
    await send.attempt({ to: "doubt" });
    await expect(click("doubt")).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(runs).toBe(1);
    expect(await send.attempt({ to: "later" })).toMatchObject({ status: "failed" });
    expect(await click("later")).toBe("m3");
    expect(await send({ to: "later" })).toBe("m3");
    const first = send({ to: "slow" });
    await until(() => runs === 4);
    const clicked = click("slow");
    await new Promise((done) => setTimeout(done, 50));
    finish.open();
    expect(await Promise.all([first, clicked])).toEqual(["m4", "m4"]);
    await send.enqueue({ to: "queued" });
    await expect(click("queued")).resolves.toBe("m5");
    await nt.worker().drain();
    expect(runs).toBe(5);
  });

  it("O14: a version that follows none is refused, and nothing is sent", async () => {
    const { send, runs } = counting();
    await expect(send.resend(mail, { ...ana, after: 1 })).rejects.toThrow(
      /version 1 of this intent is not in the ledger/,
    );
    await send(mail);
    await expect(send.resend(mail, { ...ana, after: 7 })).rejects.toThrow(/version 7 of this intent/);
    await expect(send.resend(mail, { ...ana, version: 4 })).rejects.toThrow(/version 3 of this intent/);
    expect(runs()).toBe(1);
  });

  it("O14: a click after a doubtful resend sends nothing, and says so", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs === 2) throw new Error("reset by peer");
        return `m${runs}`;
      },
    });
    await send(mail);
    for (let click = 0; click < 3; click += 1)
      await expect(send.resend(mail, { ...ana, after: 1 })).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(runs).toBe(2);
  });

  it("W3: both clicks at the same instant: one new version", async () => {
    const { send, runs } = counting();
    await send(mail);
    expect(await Promise.all([send.resend(mail, ana), send.resend(mail, ana)])).toEqual(["m2", "m2"]);
    expect(runs()).toBe(2);
  });

  it("G3: refused while the latest version is in doubt", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail): Promise<void> => {
        runs += 1;
        throw new Error("reply lost");
      },
    });
    await send.attempt(mail);
    await expect(send.resend(mail, ana)).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(runs).toBe(1);
  });

  it("G3: an early version that is past its keep does not hide a later one in doubt", async () => {
    const { nt, clock } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      keep: "30d",
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs > 1) throw new Error("reply lost");
      },
    });
    await send(mail);
    await send.resend(mail, ana).catch(() => {});
    clock.advance(31 * 86_400_000);
    expect(await nt.sweep()).toMatchObject({ removed: 1 });
    await expect(send.resend(mail, ana)).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN" });
    expect(runs).toBe(2);
  });

  it("finds the latest of many versions", async () => {
    const { send } = counting();
    for (let i = 1; i <= 18; i += 1) expect(await send.resend(mail, ana)).toBe(`m${i}`);
  });

  it("a final failure may be sent as a new version", async () => {
    const { nt } = open();
    let runs = 0;
    const send = nt.action("mail", {
      key: ["to"],
      run: async (_mail: Mail) => {
        runs += 1;
        if (runs === 1) throw rejected(new Error("blocked"));
        return runs;
      },
    });
    await send.attempt(mail);
    expect(await send.resend(mail, ana)).toBe(2);
  });

  it("says who and why, or is refused", async () => {
    const { send, runs } = counting();
    await send(mail);
    await expect(send.resend(mail, { by: " ", reason: "x" })).rejects.toThrow(/by is missing/);
    await expect(send.resend(mail, { by: "ana", reason: "" })).rejects.toThrow(/reason is missing/);
    expect(runs()).toBe(1);
  });
});
