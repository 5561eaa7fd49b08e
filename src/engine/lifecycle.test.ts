import { nevertwice } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { gate, until } from "../../test/support/gate.ts";

interface Job {
  id: string;
}

eachStore("close", (open) => {
  it("waits for the calls that run, and their results are kept", async () => {
    const { nt } = open();
    const finish = gate();
    let started = 0;
    const send = nt.action("send", {
      run: async (_job: Job) => {
        started += 1;
        await finish.opened;
        return "ok";
      },
    });
    const call = send.attempt({ id: "1" });
    await until(() => started === 1);
    let closed = false;
    const closing = nt.close().then(() => {
      closed = true;
    });
    await new Promise((done) => setTimeout(done, 10));
    expect(closed).toBe(false);
    finish.open();
    expect(await call).toMatchObject({ status: "done", result: "ok" });
    await closing;
  });

  it("later calls are refused and run nothing, whatever the action says about a store that is down", async () => {
    const { nt } = open();
    let runs = 0;
    const run = async (_job: Job) => ++runs;
    const known = nt.action("known", { run });
    const careless = nt.action("careless", { whenStoreDown: "run", run });
    await known({ id: "1" });
    await nt.close();
    for (const call of [
      () => known.attempt({ id: "1" }),
      () => known({ id: "2" }),
      () => careless({ id: "1" }),
      () => known.resend({ id: "1" }, { by: "a", reason: "b" }),
      () => nt.once("x", [1], () => ++runs),
      () => known.status({ id: "1" }),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    }
    expect(runs).toBe(1);
  });

  it("may be called twice, and while nothing was ever used", async () => {
    const { nt } = open();
    await Promise.all([nt.close(), nt.close()]);
    await nt.close();
  });

  it("a call that is still reading its input when close() comes is refused, not run unguarded", async () => {
    const { nt } = open();
    const parsed = gate();
    let runs = 0;
    const send = nt.action("send", {
      whenStoreDown: "run",
      input: {
        "~standard": {
          version: 1,
          vendor: "test",
          validate: async (value: unknown) => {
            await parsed.opened;
            return { value: value as Job };
          },
        },
      },
      run: async (_job: Job) => ++runs,
    });
    const call = send.attempt({ id: "1" });
    await nt.close();
    parsed.open();
    await expect(call).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(runs).toBe(0);
  });
});

it("importing and defining actions opens nothing and keeps no process alive", () => {
  const nt = nevertwice({ store: "sqlite:/nowhere/that/exists/ledger.db" });
  expect(nt.action("send", { run: async (_job: Job) => 1 }).actionName).toBe("send");
  expect(nt.action("named", { run: async (_job: Job) => 1 }).name).toBe("named");
});

it("an action's name is taken once", () => {
  const { nt } = openMemory();
  nt.action("send", { run: async (_job: Job) => 1 });
  expect(() => nt.action("send", { run: async (_job: Job) => 2 })).toThrow(/defined twice/);
});
