/** R2: a slot that was claimed and not begun is taken over at once from a process of this host that has ended, and from no other. */
import { spawnSync } from "node:child_process";
import type { LedgerRecord, Store, Stored } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, openMemory } from "../../test/support/each-store.ts";
import { processNote, type RunningProcess, thisProcess } from "./command/process-group.ts";
import { noticeDeadRunner } from "./slot-attempt.ts";

const HOUR_MS = 3_600_000;
const LAST_HOUR = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

/** A process of this host that has ended: its start and realm are true, so that only its end tells. */
function endedProcess(): RunningProcess {
  const { pid } = spawnSync("true");
  return { ...(thisProcess() as RunningProcess), pid, started: "1" };
}

const holderOf = (runner: RunningProcess) => `abc.1@${processNote(runner)}`;

eachStore("a claimed slot", (open) => {
  async function claimed(holder: string, more: Partial<LedgerRecord> = {}) {
    const bench = open();
    const ran: string[] = [];
    const job = bench.nt.job("digest", {
      every: "1h",
      run: () => {
        ran.push("ran");
        if (ran.length === 1) throw new Error("only to have a record of the slot");
      },
    });
    const { key } = await job.runAt(LAST_HOUR);
    const [begun] = await bench.store.read([key]);
    const { record, version } = begun as Stored;
    const { steady, epoch } = bench.clock.instant();
    const held: LedgerRecord = {
      ...record,
      state: "claimed",
      holder,
      lease: { until: steady + 1_800_000, epoch },
      dueAt: null,
      settledAt: null,
      expiresAt: null,
      error: null,
      history: [],
      draft: null,
      ...more,
    };
    const [written] = await bench.store.write([{ record: held, expected: version }]);
    expect(written?.ok).toBe(true);
    return { ...bench, job, ran, key, held };
  }

  it("its runner has ended: it is given back, uncounted, and run", async () => {
    const { store, job, ran, key, held, record } = await claimed(holderOf(endedProcess()));
    expect(await noticeDeadRunner(store, key)).toBe(true);
    const back = await record(key);
    expect(back).toMatchObject({ state: "pending", lease: null, attempt: held.attempt - 1, fence: held.fence });
    expect(back.history).toMatchObject([{ event: "not-begun", from: "claimed", to: "pending" }]);
    expect(await noticeDeadRunner(store, key)).toBe(false);
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "done", attempt: held.attempt });
    expect(ran).toHaveLength(2);
  });

  it("the job in code sees it by itself", async () => {
    const { job, ran } = await claimed(holderOf(endedProcess()));
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "done", replayed: false });
    expect(ran).toHaveLength(2);
  });

  it("two who see it at once: one gives it back", async () => {
    const { store, key } = await claimed(holderOf(endedProcess()));
    const seen = await Promise.all([noticeDeadRunner(store, key), noticeDeadRunner(store, key)]);
    expect(seen.filter(Boolean)).toHaveLength(1);
  });

  const own = thisProcess() as RunningProcess;
  it.each([
    ["its runner lives", holderOf(own)],
    ["its runner is on another host, or was before a reboot", holderOf({ ...endedProcess(), realm: "a boot pid:[1]" })],
    ["its runner is not named: an earlier release, or no Linux", "abc.1"],
    ["its holder's id cannot be understood", "abc.1@12 x"],
  ])("%s: it is left alone until its lease is over", async (_, holder) => {
    const { store, clock, job, ran, key, held, record } = await claimed(holder);
    expect(await noticeDeadRunner(store, key)).toBe(false);
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "in_flight" });
    expect(await record(key)).toEqual(held);
    expect(ran).toHaveLength(1);
    clock.advance(1_800_001);
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "done" });
  });

  it("a ledger of many hosts goes by the lease: copies of one machine may have the same numbers", async () => {
    const { store, key, held, record } = await claimed(holderOf(endedProcess()));
    const many: Store = Object.create(store, { traits: { value: { ...store.traits, hosts: "many" } } });
    expect(await noticeDeadRunner(many, key)).toBe(false);
    expect(await record(key)).toEqual(held);
  });

  it("an attempt that was resent is its holder's, though its draft names the process before", async () => {
    const draft = { json: JSON.stringify({ runner: endedProcess() }) };
    const { store, key } = await claimed(holderOf(own), { state: "sent", draft });
    expect(await noticeDeadRunner(store, key)).toBe(false);
  });

  it("sent by a runner of an earlier release, which only its draft names: it is in doubt", async () => {
    const draft = { json: JSON.stringify({ runner: endedProcess() }) };
    const { store, key, record } = await claimed("abc.1", { state: "sent", draft });
    expect(await noticeDeadRunner(store, key)).toBe(true);
    expect(await record(key)).toMatchObject({ state: "unknown", why: expect.stringMatching(/process has ended/) });
  });
});

it("R2: what a job claims names its process, in `prepare` already", async () => {
  const bench = openMemory();
  const holders: (string | null)[] = [];
  const job = bench.nt.job("digest", {
    every: "1h",
    doubt: "hold",
    plan: async () => {
      const { items } = await bench.store.list({ limit: 10 });
      for (const { record } of items) if (record.state !== "confirmed") holders.push(record.holder);
      return null;
    },
    run: () => {},
  });
  await job.runAt(LAST_HOUR);
  const note = processNote(thisProcess() as RunningProcess);
  // The slot and its plan.
  expect(holders).toEqual([expect.stringContaining(`@${note}`), expect.stringContaining(`@${note}`)]);
});
