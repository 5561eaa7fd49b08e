/** The store's clock, and its end. */
import assert from "node:assert/strict";
import { instantOf } from "../../core/store.ts";
import { assertRefused, insert, LEASE } from "../checks.ts";
import type { Case } from "../harness.ts";
import { dueRecord, LONG, sampleRecord } from "../sample-record.ts";

export const clock: readonly Case[] = [
  {
    name: "is a time in epoch milliseconds, the same by both readings, and does not run backwards",
    body: async ({ store }) => {
      const before = instantOf(store);
      assert.ok(store.now() > Date.UTC(2020) && store.now() < Date.UTC(2200), `now() is ${store.now()}`);
      assert.ok(Math.abs(store.now() - before.now) < 5_000, "now() and instant().now are one clock");
      assert.equal(typeof before.epoch, "string", "the epoch is a text");
      let last = before;
      for (let reading = 0; reading < 1_000; reading += 1) {
        const next = instantOf(store);
        assert.ok(
          Number.isFinite(next.steady) && next.steady >= last.steady,
          `steady: ${next.steady} after ${last.steady}`,
        );
        assert.equal(next.epoch, last.epoch, "the epoch changed although nothing restarted");
        last = next;
      }
    },
  },
  {
    name: "is shared by two connections: a lease taken on one is alive on the other",
    needs: "reopen",
    body: async ({ store, second, at }) => {
      const other = await second();
      await insert(store, dueRecord(at, "nt1_due"));
      assert.equal((await store.lease(LEASE)).length, 1);
      assert.equal(instantOf(other).epoch, at.epoch, "both name the same epoch");
      assert.deepEqual(await other.lease(LEASE), [], "leased on the first connection");
      assert.deepEqual((await other.list({ limit: 10, lapsed: true })).items, [], "and alive on the second");
    },
  },
  {
    name: "moves when the test moves it",
    needs: "advance",
    body: async ({ store, ledger, at }) => {
      await ledger.advance?.(LONG);
      assert.ok(store.now() - at.now >= LONG, "now() moved");
      assert.ok(instantOf(store).steady - at.steady >= LONG, "the steady clock moved");
    },
  },
];

export const closing: readonly Case[] = [
  {
    name: "is inspected as a whole unless the query is quick: no finding is partial",
    body: async ({ store }) => {
      await insert(store, sampleRecord());
      const findings = (await store.inspect?.()) ?? [];
      assert.deepEqual(
        findings.filter(({ partial }) => partial === true),
        [],
      );
    },
  },
  {
    name: "may be closed twice, and refuses every later call",
    body: async ({ store }) => {
      await insert(store, sampleRecord());
      await store.close();
      await store.close();
      const put = { record: sampleRecord({ key: "nt1_late" }), expected: null };
      await assertRefused(store.read(["nt1_sample"]), "STORE_UNAVAILABLE", "read after close");
      await assertRefused(store.write([put]), "STORE_UNAVAILABLE", "write after close");
      await assertRefused(store.lease(LEASE), "STORE_UNAVAILABLE", "lease after close");
      await assertRefused(store.list({ limit: 1 }), "STORE_UNAVAILABLE", "list after close");
      await assertRefused(store.stats(), "STORE_UNAVAILABLE", "stats after close");
      await assertRefused(store.sweep({ limit: 1 }), "STORE_UNAVAILABLE", "sweep after close");
    },
  },
];
