/** What goes in comes out: every field, every text, in the order asked. */
import assert from "node:assert/strict";
import { STATES } from "../../core/record.ts";
import { assertHolds, assertRoundTrip, insert, readOne, seed } from "../checks.ts";
import { type Case, OFFERS } from "../harness.ts";
import { filledRecord, sampleRecord } from "../sample-record.ts";

export const basics: readonly Case[] = [
  {
    name: "offers what the options say it offers",
    body: async ({ ledger, offers }) => {
      const members = OFFERS.filter((member) => ledger[member] !== undefined);
      assert.deepEqual(
        members,
        OFFERS.filter((offer) => offers.includes(offer)),
        "options.offers and the ledger differ",
      );
      if (offers.includes("transaction"))
        assert.ok("within" in ledger.store, "a store with transactions has within(tx)");
    },
  },
  {
    name: "says its name and traits",
    body: async ({ store }) => {
      assert.match(store.name, /\S/, "a store has a name");
      assert.ok(["one", "many"].includes(store.traits.hosts), `traits.hosts is ${store.traits.hosts}`);
      assert.ok(["power-loss", "crash", "best-effort", "nothing"].includes(store.traits.survives), "traits.survives");
      assert.ok(["store", "client"].includes(store.traits.clock), `traits.clock is ${store.traits.clock}`);
      assert.equal(typeof store.traits.dueIndex, "boolean", "traits.dueIndex");
    },
  },
  {
    name: "answers null for an absent record",
    body: async ({ store }) => assert.deepEqual(await store.read(["nt1_absent"]), [null]),
  },
  {
    name: "answers an empty batch with an empty batch",
    body: async ({ store }) => {
      assert.deepEqual(await store.read([]), []);
      assert.deepEqual(await store.write([]), []);
    },
  },
  {
    name: "keeps every field of a record",
    body: ({ store }) => assertRoundTrip(store, filledRecord(), "a record with every field set"),
  },
  {
    name: "keeps null apart from absent and from empty",
    body: async ({ store }) => {
      await assertRoundTrip(
        store,
        sampleRecord({ dueAt: null, keepMs: null }),
        "a record with every optional field null",
      );
      await assertRoundTrip(
        store,
        sampleRecord({ key: "nt1_empty", scope: "", agent: "", holder: "", why: "" }),
        "empty texts",
      );
      await assertRoundTrip(store, sampleRecord({ key: "nt1_zero", dueAt: 0, keepMs: 0, expiresAt: 0 }), "zeros");
    },
  },
  {
    name: "keeps every state",
    body: async ({ store }) => {
      for (const state of STATES) await assertRoundTrip(store, sampleRecord({ key: `nt1_${state}`, state }), state);
    },
  },
  {
    name: "keeps text in any script, and quotes, and what looks like SQL",
    body: async ({ store }) => {
      const text = `Zoë 王 🦀 שלום e\u0301 \u{10FFFF} \t\n " ' \\ %_ $1 ? :a '); DROP TABLE records; --`;
      const filled = filledRecord({
        tenant: text,
        action: text,
        scope: text,
        agent: text,
        holder: text,
        why: text,
        providerId: text,
      });
      await assertRoundTrip(store, filled, "unicode columns");
      const json = JSON.stringify({ [text]: [text, "\u0000", "\ud800"] });
      await assertRoundTrip(
        store,
        filledRecord({ key: "nt1_text", input: { json }, result: { json } }),
        "unicode payloads",
      );
    },
  },
  {
    name: "keeps payload text to the byte: a resend must send the same",
    body: async ({ store }) => {
      const texts = ['{ "b":1,\n"a":2, "a":3 }', "1.0", "1e21", '"\\u0041"', "null", "[[[[[[[[{}]]]]]]]]", "-0"];
      for (const [index, json] of texts.entries()) {
        await assertRoundTrip(store, sampleRecord({ key: `nt1_json${index}`, draft: { json } }), `payload ${json}`);
      }
    },
  },
  {
    name: "keeps payloads of 256 KB",
    body: async ({ store }) => {
      const json = JSON.stringify("é".repeat(128 * 1024));
      const sealed = `ntseal1.0badcafe.1.bm9uY2U.${"A".repeat(256 * 1024)}`;
      await assertRoundTrip(store, sampleRecord({ input: { json }, draft: { sealed }, result: { json } }), "256 KB");
    },
  },
  {
    name: "reads in the order asked, absent ones and duplicates included",
    body: async ({ store }) => {
      const [a, b] = await seed(store, [sampleRecord({ key: "nt1_a" }), sampleRecord({ key: "nt1_b" })]);
      const rows = await store.read(["nt1_b", "nt1_none", "nt1_a", "nt1_b"]);
      assert.deepStrictEqual(rows, [b, null, a, b]);
    },
  },
  {
    name: "is not changed by a caller who changes what it was given",
    body: async ({ store }) => {
      const given = { ...sampleRecord({ action: "before" }) };
      const stored = await insert(store, given);
      const expected = { record: { ...given }, version: stored.version };
      Object.assign(given, { action: "after" });
      const got = await readOne(store, given.key);
      // A frozen answer throws here, which is as good as a copy.
      await Promise.resolve()
        .then(() => Object.assign(got?.record ?? {}, { action: "after" }))
        .catch(() => undefined);
      await assertHolds(store, expected, "the ledger's record changed from outside");
    },
  },
  {
    name: "a second connection sees what the first wrote, and the other way round",
    needs: "reopen",
    body: async ({ store, second }) => {
      const other = await second();
      await assertHolds(other, await insert(store, sampleRecord({ key: "nt1_here" })), "written on the first");
      await assertHolds(store, await insert(other, sampleRecord({ key: "nt1_there" })), "written on the second");
    },
  },
];
