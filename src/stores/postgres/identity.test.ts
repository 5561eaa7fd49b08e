import pg from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { freshDatabase } from "../../../test/services/addresses.ts";
import { nevertwice } from "../../nevertwice.ts";
import { sampleRecord } from "../../testing/index.ts";
import { postgresStore } from "./index.ts";

async function bench() {
  const { url } = await freshDatabase();
  const admin = new pg.Client(url);
  await admin.connect();
  onTestFinished(() => admin.end());
  const program = () => {
    const nt = nevertwice({ store: postgresStore({ url }), sweep: false });
    onTestFinished(() => nt.close());
    return nt;
  };
  // Ten seconds pass for who reads the monotonic clock.
  const later = () => {
    const real = performance.now.bind(performance);
    const clock = vi.spyOn(performance, "now").mockImplementation(() => real() + 10_000);
    onTestFinished(() => clock.mockRestore());
  };
  return { admin, program, later };
}

it("a schema that another program made anew is not taken for the ledger of a running one", async () => {
  const { admin, program, later } = await bench();
  const old = program();
  let effects = 0;
  await old.once("send", ["a"], async () => ++effects);
  await admin.query("DROP SCHEMA nevertwice CASCADE");
  const next = program();
  await next.once("send", ["b"], async () => ++effects);
  later();
  const lost = {
    code: "STORE_UNAVAILABLE",
    message: expect.stringMatching(/was replaced by another one while this program used it.*start the program again/),
  };
  await expect(old.once("send", ["c"], async () => ++effects)).rejects.toMatchObject(lost);
  await expect(old.store.write([{ record: sampleRecord({ key: "nt1_x" }), expected: null }])).rejects.toMatchObject(
    lost,
  );
  await expect(old.store.lease({ limit: 1, holder: "h", leaseMs: 1_000, to: "claimed" })).rejects.toMatchObject(lost);
  await expect(old.store.read(["nt1_x"])).rejects.toMatchObject(lost);
  await expect(old.store.stats()).rejects.toMatchObject(lost);
  await expect(old.store.list({ limit: 10 })).rejects.toMatchObject(lost);
  await expect(old.store.sweep({ limit: 10 })).rejects.toMatchObject(lost);
  await expect(old.store.inspect?.()).rejects.toMatchObject(lost);
  await expect(old.store.quarantine?.("nt1_x")).rejects.toMatchObject(lost);
  expect(await next.once("send", ["d"], async () => ++effects)).toBe(3);
});

it("the ledger that it was is served on, also when its id is read again", async () => {
  const { program, later } = await bench();
  const nt = program();
  let effects = 0;
  await nt.once("send", ["a"], async () => ++effects);
  later();
  await Promise.all(["b", "c", "d"].map((id) => nt.once("send", [id], async () => ++effects)));
  expect(effects).toBe(4);
  expect(await nt.store.stats()).toMatchObject({ total: 4 });
});
