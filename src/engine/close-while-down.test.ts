/** The store is away when an attempt ends, and close() is called: what became of the attempt is not thrown away. */
import { expect, it, onTestFinished } from "vitest";
import { eachStore, type Open } from "../../test/support/each-store.ts";
import { until } from "../../test/support/gate.ts";
import { type Faults, faulty } from "../../test/support/store-faults.ts";

type Wrap = NonNullable<NonNullable<Parameters<Open>[0]>["wrap"]>;

eachStore("close() while the store is down", (open) => {
  function bench() {
    const faults: Faults = {};
    const warnings: { code: string; message: string }[] = [];
    const onWarning = (warning: { code: string; message: string }) => void warnings.push(warning);
    // The memory store would forget its records.
    const wrap: Wrap = (store) => {
      onTestFinished(() => store.close());
      return { ...faulty(store, faults), close: async () => {} };
    };
    return { ...open({ onWarning, wrap }), faults, warnings };
  }

  it("a success is written when the store is back, and the intent is not run again", async () => {
    const { nt, faults, another, record, warnings } = bench();
    let runs = 0;
    const run = async (_input: { id: string }) => {
      faults.down = true;
      return ++runs;
    };
    const send = nt.action("send", { key: ["id"], doubt: "retry", run });
    expect(await send.attempt({ id: "1" })).toMatchObject({ status: "done" });
    const key = await send.keyOf({ id: "1" });
    let isClosed = false;
    const closing = nt.close().then(() => {
      isClosed = true;
    });
    // The first tries have failed.
    let reads = 0;
    faults.beforeRead = () => {
      reads += 1;
    };
    await new Promise((done) => setTimeout(done, 300));
    expect([isClosed, reads]).toEqual([false, 0]);
    faults.down = false;
    await closing;
    expect(await record(key)).toMatchObject({ state: "confirmed" });
    expect(warnings.filter(({ code }) => code === "FACTS_NOT_WRITTEN")).toEqual([]);
    const again = another().action("send", { key: ["id"], doubt: "retry", run });
    expect(await again.attempt({ id: "1" })).toMatchObject({ status: "done", replayed: true, result: 1 });
    expect(runs).toBe(1);
  });

  it("a store that stays away: close() ends with the lease, and names what was not written", async () => {
    const { nt, faults, warnings } = bench();
    const send = nt.action("send", {
      key: ["id"],
      lease: "1s",
      timeout: "500ms",
      run: async (_input: { id: string }) => {
        faults.down = true;
        return 1;
      },
    });
    await send.attempt({ id: "1" });
    const key = await send.keyOf({ id: "1" });
    await nt.close();
    const said = warnings.filter(({ code }) => code === "FACTS_NOT_WRITTEN");
    expect(said).toEqual([expect.objectContaining({ message: expect.stringContaining(key) })]);
    expect(said[0]?.message).toContain("1 attempts");
  });

  it("a write that is under way when close() is called is waited for", async () => {
    const { nt, faults, record } = bench();
    const send = nt.action("send", {
      key: ["id"],
      run: async (_input: { id: string }) => {
        faults.down = true;
        return 1;
      },
    });
    await send.attempt({ id: "1" });
    let letGo = () => {};
    const held = new Promise<void>((done) => {
      letGo = done;
    });
    let reading = false;
    faults.beforeRead = () => {
      reading = true;
      return held;
    };
    faults.down = false;
    await until(() => reading);
    const closing = nt.close();
    letGo();
    await closing;
    expect(await record(await send.keyOf({ id: "1" }))).toMatchObject({ state: "confirmed" });
  });
});
