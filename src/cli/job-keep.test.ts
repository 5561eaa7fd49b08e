/** `nevertwice run` whose schedule or keep changes: no finished slot is run again. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CliLedger } from "../../test/support/cli.ts";
import type { Store } from "../core/store.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";

// A ledger whose time passes as the test says, and which outlives each call of the command.
const there = vi.hoisted(() => ({ store: null as Store | null, now: 0 }));
vi.mock("./ledger/open.ts", async (original) => ({
  ...(await original<typeof import("./ledger/open.ts")>()),
  openLedger: () => there.store,
}));

let cli: CliLedger;
let closeStore: () => Promise<void>;
beforeEach(() => {
  cli = new CliLedger();
  writeFileSync(join(cli.folder, "package.json"), "{}\n");
  const store = memoryStore({ clock: { instant: () => ({ now: there.now, steady: there.now, epoch: "test" }) } });
  closeStore = () => store.close();
  there.store = new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return async () => {};
      const value = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
});
afterEach(async () => {
  await closeStore();
  await cli.close();
});

const env = { PATH: process.env.PATH ?? "" };
const command = ["--", "sh", "-c", 'echo "$NEVERTWICE_SLOT" >> ran'];
const ledger = () => there.store as Store;
const passTo = async (iso: string) => {
  there.now = Date.parse(iso);
  await ledger().sweep({ limit: 1_000 });
};
const at = async (iso: string, ...flags: string[]) => {
  await passTo(iso);
  return cli.run(["run", "--job", "report", ...flags, ...command], { env });
};
const ran = () => {
  const file = join(cli.folder, "ran");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
};
const DAILY = ["--cron", "0 0 * * *"];
const MONTHLY = ["--cron", "0 0 1 * *"];
const FIRST = "2026-12-01T00:00Z/slot";

it("a daily --cron that becomes a monthly one skips what may be done and forgotten, and says so", async () => {
  await at("2026-12-01T01:00Z", ...DAILY);
  expect(await at("2026-12-20T01:00Z", ...MONTHLY)).toMatchObject({ code: 0, out: "", err: "" });
  const skipped = await at("2026-12-31T10:00Z", ...MONTHLY, "--on-skip", "75");
  expect(skipped).toMatchObject({ code: 75, out: "" });
  expect(skipped.err).toMatch(
    /report 2026-12-01T00:00Z\/slot: not run: it is older than what the ledger still knows of this job, .* --slot '2026-12-01T00:00Z\/slot'\./,
  );
  expect((await at("2026-12-31T11:00Z", ...MONTHLY)).code).toBe(0);
  expect((await at("2026-12-31T12:00Z", ...MONTHLY, "--json")).json).toMatchObject({
    ran: false,
    exitCode: 0,
    slot: FIRST,
    outcome: { status: "absent" },
  });
  expect(ran()).toEqual([FIRST]);
  await at("2027-01-01T00:05Z", ...MONTHLY);
  expect((await at("2027-01-31T10:00Z", ...MONTHLY)).err).toBe("");
  expect(ran()).toEqual([FIRST, "2027-01-01T00:00Z/slot"]);
});

it("a slot that is named is run, and the note is as after any other run", async () => {
  await at("2026-12-01T01:00Z", ...DAILY);
  await at("2026-12-31T10:00Z", ...MONTHLY);
  await at("2026-12-31T11:00Z", "--slot", FIRST);
  expect(ran()).toEqual([FIRST, FIRST]);
  await at("2027-01-01T00:05Z", "--slot", "2027-01-01T00:00Z/slot", "--keep", "1d");
  expect((await at("2027-01-04T00:00Z", ...MONTHLY)).err).toMatch(/not run/);
  expect(ran()).toEqual([FIRST, FIRST, "2027-01-01T00:00Z/slot"]);
});

it("the first call of a job runs its slot, however old the slot is", async () => {
  expect(await at("2026-12-31T10:00Z", "--cron", "0 0 1 1 *")).toMatchObject({ code: 0, err: "" });
  expect(ran()).toEqual(["2026-01-01T00:00Z/slot"]);
});

it("what releases without the note left in the ledger counts for as long as they kept it", async () => {
  await at("2026-12-01T01:00Z", ...DAILY);
  const { items } = await ledger().list({ limit: 9, action: "nevertwice.job" });
  for (const { record, version } of items)
    await ledger().write([{ record: { ...record, expiresAt: there.now - 1 }, expected: version }]);
  await at("2026-12-30T10:00Z", ...MONTHLY);
  expect((await at("2026-12-31T10:00Z", ...MONTHLY)).err).toMatch(/not run/);
  expect(ran()).toEqual([FIRST]);
});

it("the command and nt.job of the same name know of each other's keep", async () => {
  await at("2026-12-01T01:00Z", ...DAILY);
  await passTo("2026-12-31T10:00Z");
  const inCode: string[] = [];
  const job = nevertwice({ store: ledger(), sweep: false, onWarning: () => {} }).job("report", {
    cron: "0 0 1 * *",
    run: ({ slot }) => void inCode.push(slot),
  });
  await expect(job.runAt(Date.parse("2026-12-01T00:00Z"))).rejects.toThrow(/older than what the ledger still knows/);
  await passTo("2027-01-01T10:00Z");
  await job.runAt(Date.parse("2027-01-01T00:00Z"));
  await at("2027-02-28T10:00Z", "--cron", "0 0 1 1 *");
  expect([...ran(), ...inCode]).toEqual([FIRST, "2027-01-01T00:00Z/slot"]);
});

it.each([
  ["day", ["2026-12-10T00:01Z", "2026-12-10T12:00Z", "2026-12-10T23:59Z"], ["2d", "90d", "2d", "forever", "3d"]],
  ["month", ["2026-12-01T00:01Z", "2026-12-15T12:00Z", "2026-12-31T23:59Z"], ["62d", "400d", "62d", "forever"]],
])("--per %s runs once in its window, whichever keep each call has", async (per, times, keeps) => {
  for (const [index, time] of times.entries())
    for (const keep of [...keeps.slice(index), ...keeps.slice(0, index)])
      expect((await at(time, "--per", per, "--keep", keep)).code).toBe(0);
  await at(times.at(-1) as string, "--per", per);
  expect(ran()).toHaveLength(1);
});
