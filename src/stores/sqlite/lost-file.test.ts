/** A SQLite ledger that is deleted, moved or replaced while programs have it open. */
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import type { Put, Store } from "../../core/store.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { sqliteStore } from "./index.ts";

interface Place {
  readonly folder: string;
  readonly path: string;
}

/** `current` is a link to the folder `first`, as a deployment makes one. */
function place(): Place {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "first"));
  mkdirSync(join(folder, "second"));
  symlinkSync("first", join(folder, "current"));
  return { folder, path: join(folder, "current", "ledger.db") };
}

const ways: readonly (readonly [what: string, lose: (place: Place) => void])[] = [
  [
    "a link that was pointed elsewhere",
    ({ folder }) => {
      unlinkSync(join(folder, "current"));
      symlinkSync("second", join(folder, "current"));
    },
  ],
  [
    "deleted files",
    ({ folder }) => {
      for (const name of readdirSync(join(folder, "first"))) rmSync(join(folder, "first", name));
    },
  ],
  [
    "a folder that was moved away",
    ({ folder }) => {
      renameSync(join(folder, "first"), join(folder, "gone"));
      mkdirSync(join(folder, "first"));
    },
  ],
];

const put = (key: string): Put => ({ record: sampleRecord({ key, state: "pending" }), expected: null });

function open(path: string): Store {
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  return store;
}

const operations: readonly (readonly [what: string, call: (store: Store) => Promise<unknown>])[] = [
  ["write", (store) => store.write([put("nt1_b")])],
  ["a write of many", (store) => store.write(Array.from({ length: 20 }, (_, i) => put(`nt1_b${i}`)))],
  ["lease", (store) => store.lease({ to: "claimed", holder: "h", leaseMs: 1_000, limit: 1 })],
  ["list", (store) => store.list({ limit: 3 })],
  ["stats", (store) => store.stats()],
  ["sweep", (store) => store.sweep({ limit: 10 })],
  ["inspect", async (store) => store.inspect?.()],
  ["a quick inspect", async (store) => store.inspect?.({ quick: true })],
  ["quarantine", async (store) => store.quarantine?.("nt1_a")],
];

describe.each(ways)("F13 %s", (_what, lose) => {
  it.each(operations)("%s is refused at once", async (_operation, call) => {
    const at = place();
    const store = open(at.path);
    await store.write([put("nt1_a")]);
    await store.stats();
    lose(at);
    await expect(call(store)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining("removed or replaced while this program had it open"),
    });
  });

  it("read is refused within a quarter of a second", async () => {
    const at = place();
    const store = open(at.path);
    await store.write([put("nt1_a")]);
    lose(at);
    await expect
      .poll(
        () =>
          store.read(["nt1_a"]).then(
            () => "answered",
            (error) => error.code,
          ),
        { timeout: 10_000 },
      )
      .toBe("STORE_UNAVAILABLE");
  });

  it("a new program that starts at once and the old one do not both run an intent", async () => {
    const at = place();
    let effects = 0;
    const program = () => {
      const nt = nevertwice({ store: sqliteStore({ path: at.path }), sweep: false });
      onTestFinished(() => nt.close());
      return nt.action("a", { key: ["id"], run: async (_: { id: string | number }) => ++effects });
    };
    const old = program();
    await old({ id: "before" });
    lose(at);
    effects = 0;
    const fresh = program();
    await fresh({ id: 1 });
    await expect(old({ id: 1 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(effects).toBe(1);
  });

  it("a queued intent of the lost ledger is not run by its worker, nor a failed one by a call", async () => {
    const at = place();
    let effects = 0;
    const nt = nevertwice({ store: sqliteStore({ path: at.path }), sweep: false });
    onTestFinished(() => nt.close());
    const run = async ({ fails }: { id: string; fails: boolean }) => {
      effects += 1;
      if (fails) throw new Error("no");
    };
    const action = nt.action("a", { key: ["id"], run, classify: () => "refused" });
    await action.enqueue({ id: "queued", fails: false });
    await expect(action({ id: "failed", fails: true })).rejects.toThrow("no");
    lose(at);
    effects = 0;
    await expect(action({ id: "failed", fails: true })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const drained = nt.worker().drain();
    await Promise.race([drained.catch(() => {}), new Promise((done) => setTimeout(done, 300))]);
    expect(effects).toBe(0);
  });
});
