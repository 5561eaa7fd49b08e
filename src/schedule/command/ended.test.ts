/** R2: a slot is settled by the exit code that its command left, as its runner would have done it. */
import { writeFileSync } from "node:fs";
import { type LedgerRecord, nevertwice, type Store, type Stored } from "nevertwice";
import { expect, it } from "vitest";
import { eachStore, temporaryFolder } from "../../../test/support/each-store.ts";
import { settleEnded } from "./ended.ts";
import { makeExitFile } from "./exit-file.ts";
import { thisProcess } from "./process-group.ts";

const HOUR_MS = 3_600_000;
const LAST_HOUR = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const ELSEWHERE = { group: 4_711, started: "1", realm: "another boot" };

interface Left {
  /** not: its shell was never told to begin. */
  readonly code: number | "not";
  /** Of the file; that of the record is 1. */
  readonly fence?: number;
  readonly draft?: object;
  readonly record?: Partial<LedgerRecord>;
}

const lapsed = { at: 1, event: "lapse", from: "sent", to: "unknown", attempt: 1 } as const;

/** A slot as a runner on another host has left it, and the file of its command. */
async function left(store: Store, key: string, { code, fence = 1, draft = {}, record = {} }: Left) {
  const slot = nevertwice({ store, sweep: false }).job("digest", {
    every: "1h",
    run: () => {
      throw new Error("only to have a record of the slot");
    },
  });
  expect(await slot.runAt(LAST_HOUR)).toMatchObject({ status: expect.stringMatching(/queued|failed/), key });
  const [begun] = await store.read([key]);
  const folder = temporaryFolder();
  const { path } = makeExitFile({ path: folder, mode: 0o600 }, { key, fence }, "ab");
  writeFileSync(path, `${String(code).padStart(3)} ${key} ${fence} ${Date.now() - 5_000}\n`);
  const written = { ...ELSEWHERE, failed: "retry", exit: path, ...draft };
  const now = Date.now();
  const lost: LedgerRecord = {
    ...(begun as Stored).record,
    state: "unknown",
    holder: "a runner",
    doubtSince: now,
    settledAt: null,
    expiresAt: null,
    dueAt: null,
    error: null,
    history: [lapsed],
    draft: { json: JSON.stringify(written) },
    ...record,
  };
  const [put] = await store.write([{ record: lost, expected: (begun as Stored).version }]);
  expect(put?.ok).toBe(true);
}

eachStore("a slot whose command left its exit code", (open) => {
  const jobOf = (bench: ReturnType<typeof open>, ran: string[], options: object = {}) =>
    bench.nt.job("digest", { every: "1h", run: () => void ran.push("ran"), ...options });
  const keyOf = async (job: ReturnType<typeof jobOf>) => (await job.statusAt(LAST_HOUR)).key;

  it("0: the job in code of the same name is answered as done, and does not run", async () => {
    const bench = open();
    const ran: string[] = [];
    const job = jobOf(bench, ran);
    const key = await keyOf(job);
    await left(bench.store, key, { code: 0 });
    const outcome = await job.runAt(LAST_HOUR);
    expect(outcome).toMatchObject({ status: "done", replayed: true, result: { exitCode: 0, lastLines: [] } });
    expect((outcome as unknown as { result: { durationMs: number } }).result.durationMs).toBeGreaterThan(4_000);
    expect(ran).toEqual([]);
    expect((await bench.record(key)).history.map(({ event }) => event)).toEqual(["lapse", "late-success"]);
  });

  it("0, and the job in code has `encrypt`, which refuses what is not sealed: nothing is run or stored in the open", async () => {
    const bench = open({ encrypt: "k".repeat(43) });
    const ran: string[] = [];
    const job = jobOf(bench, ran);
    const key = await keyOf(job);
    await left(bench.store, key, { code: 0 });
    await expect(job.runAt(LAST_HOUR)).rejects.toThrow(/seal|encrypt/);
    expect(ran).toEqual([]);
    expect(await bench.record(key)).toMatchObject({ state: "unknown", result: null });
  });

  it("7: the slot is failed with it, and the job in code runs it again", async () => {
    const bench = open();
    const ran: string[] = [];
    const job = jobOf(bench, ran);
    const key = await keyOf(job);
    await left(bench.store, key, { code: 7 });
    expect(await settleEnded(bench.store, key)).toMatchObject({ as: "failed", error: { code: "EXIT_7" } });
    expect(await bench.record(key)).toMatchObject({
      state: "failed",
      final: false,
      error: { name: "CommandFailed", code: "EXIT_7", message: expect.stringMatching(/exited with 7 after \d+ ms/) },
    });
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "done", replayed: false });
    expect(ran).toEqual(["ran"]);
  });

  it.each([[{ failed: "hold" }], [{ doubt: "hold" }]])(
    "7, and %j: it waits for a person, who reads the code",
    async (draft) => {
      const bench = open();
      const ran: string[] = [];
      const job = jobOf(bench, ran);
      const key = await keyOf(job);
      await left(bench.store, key, { code: 7, draft });
      expect(await job.runAt(LAST_HOUR)).toMatchObject({
        status: "unknown",
        why: "the command exited with 7, and --on-failure is hold",
      });
      expect(ran).toEqual([]);
      expect((await bench.record(key)).history.map(({ event }) => event)).toEqual(["lapse", "probed-unknown"]);
    },
  );

  it("the file of another attempt settles nothing", async () => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    await left(bench.store, key, { code: 0, fence: 2 });
    expect(await settleEnded(bench.store, key)).toBe(null);
    expect(await bench.record(key)).toMatchObject({ state: "unknown" });
  });

  it("a runner that lives reports the end itself; one whose lease is over does not", async () => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    const { steady, epoch } = bench.clock.instant();
    const lease = { until: steady + 60_000, epoch };
    const runner = thisProcess();
    await left(bench.store, key, { code: 0, draft: { runner }, record: { state: "sent", lease, history: [] } });
    expect(await settleEnded(bench.store, key)).toBe(null);
    bench.clock.advance(61_000);
    expect(await settleEnded(bench.store, key)).toMatchObject({ as: "done" });
    expect(await bench.record(key)).toMatchObject({ state: "confirmed", history: [] });
  });

  it.each([
    ["the runner wrote the doubt itself: a failure adds nothing", 7, null],
    ["the runner wrote the doubt itself: a success settles it", 0, "done"],
  ])("%s", async (_, code, as) => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    await left(bench.store, key, { code, record: { history: [{ ...lapsed, event: "doubt" }] } });
    expect((await settleEnded(bench.store, key))?.as ?? null).toBe(as);
  });

  it.each([
    ["its lease is over", {}],
    ["it was to be held", { doubt: "hold" }],
  ])("never begun, %s: it is given back uncounted, and the job in code runs it", async (_, draft) => {
    const bench = open();
    const ran: string[] = [];
    const job = jobOf(bench, ran);
    const key = await keyOf(job);
    await left(bench.store, key, { code: "not", draft });
    expect(await settleEnded(bench.store, key)).toEqual({ as: "not-begun", error: null, note: null });
    expect(await bench.record(key)).toMatchObject({ state: "pending", attempt: 0, draft: null });
    expect(await job.runAt(LAST_HOUR)).toMatchObject({ status: "done", replayed: false });
    expect(ran).toEqual(["ran"]);
  });

  it("never begun, and its runner lives: it says so itself", async () => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    const { steady, epoch } = bench.clock.instant();
    const lease = { until: steady + 60_000, epoch };
    const record = { state: "sent", lease, history: [] } as const;
    await left(bench.store, key, { code: "not", draft: { runner: thisProcess() }, record });
    expect(await settleEnded(bench.store, key)).toBe(null);
    expect(await bench.record(key)).toMatchObject({ state: "sent", lease });
  });

  it("never begun, and its runner wrote a doubt itself: that stays", async () => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    await left(bench.store, key, { code: "not", record: { history: [{ ...lapsed, event: "doubt" }] } });
    expect(await settleEnded(bench.store, key)).toBe(null);
    expect(await bench.record(key)).toMatchObject({ state: "unknown" });
  });

  it("a slot that a person settled meanwhile is left as it is", async () => {
    const bench = open();
    const key = await keyOf(jobOf(bench, []));
    await left(bench.store, key, { code: 0, record: { state: "failed", final: true } });
    expect(await settleEnded(bench.store, key)).toBe(null);
    expect(await bench.record(key)).toMatchObject({ state: "failed" });
  });
});
