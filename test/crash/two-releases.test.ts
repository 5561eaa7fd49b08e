/**
 * K10: a deploy that changes a key, as real processes. Those of the release before, with `formerly`, and after it work on the
 * same intents, and are killed at random moments: no effect twice, and what a kill left open is seen as a doubt.
 */
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { afterAll, expect, it } from "vitest";
import { aliasTarget } from "../../src/core/key/formerly.ts";
import type { LedgerRecord } from "../../src/core/record.ts";
import type { Page } from "../../src/core/store.ts";
import { freshDatabase } from "../services/addresses.ts";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { storeAt } from "./lib/store-at.mjs";

const RELEASE = fileURLToPath(new URL("./release.mjs", import.meta.url));
const LEADS = 60;
const MAX_LIFE_MS = 500;
const KILLS = effort(6, 24);
const ROUND_MS = 100_000;
const DEPLOYS = [
  ["old", "new", "old", "new"],
  ["new", "later", "new", "later"],
] as const;

afterAll(cleanUp);

async function recordsOf(ledger: string): Promise<LedgerRecord[]> {
  const nt = nevertwice({ store: storeAt(ledger), sweep: false });
  const { store } = nt;
  try {
    const found: LedgerRecord[] = [];
    let cursor: string | null = null;
    do {
      const from: { cursor?: string } = cursor === null ? {} : { cursor };
      const page: Page = await store.list({ limit: 500, action: "send", ...from });
      found.push(...page.items.map(({ record }) => record));
      cursor = page.cursor;
    } while (cursor !== null);
    return found.filter((record) => aliasTarget(record, store.now()) === null);
  } finally {
    await nt.close();
  }
}

function leadOf({ input }: LedgerRecord): string {
  return (JSON.parse((input as { json: string }).json) as { lead: string }).lead;
}

/**
 * Processes of the releases, each killed after a while and started again; after so many kills they live to see everything
 * settled. Where all is settled before, there is more to do.
 */
async function deploy(
  releases: readonly string[],
  order: { readonly ledger: string; readonly effects: string; readonly round: number },
  random: () => number,
): Promise<{ kills: number; said: { event: string }[]; all: string[] }> {
  const all: string[] = [];
  const more = () => all.push(...Array.from({ length: LEADS }, (_, i) => `lead-${order.round}-${all.length + i}`));
  more();
  const said: { event: string }[] = [];
  const end = Date.now() + ROUND_MS;
  let [kills, over] = [0, false];
  let finish = () => {};
  const isOver = new Promise<boolean>((done) => {
    finish = () => {
      over = true;
      done(false);
    };
  });
  const lane = async (release: string) => {
    while (!over && Date.now() < end) {
      const leads = [...all].sort(() => random() - 0.5);
      const one = startProgram(RELEASE, { ...order, release, leads });
      const opened = await one.event("opened").catch(() => null);
      const settled = one.event("settled").then(
        () => true,
        () => false,
      );
      const lifeMs = kills < KILLS ? random() * MAX_LIFE_MS : ROUND_MS;
      const life = new Promise<boolean>((done) => setTimeout(() => done(false), lifeMs).unref());
      if (opened !== null && (await Promise.race([settled, life, isOver]))) {
        if (kills < KILLS && leads.length === all.length) more();
        else if (leads.length === all.length) finish();
      } else {
        kills += 1;
        await one.kill();
      }
      await one.exited;
      said.push(...one.said);
    }
  };
  await Promise.all(releases.map(lane));
  expect(over, "some intent is never settled").toBe(true);
  return { kills, said, all };
}

const { url } = await freshDatabase();
const LEDGERS = {
  sqlite: () => `${temporaryFolder()}/ledger.db`,
  postgres: () => `${url}?schema=t_${randomBytes(6).toString("hex")}`,
} as const;

it.each(Object.entries(LEDGERS))(
  "K10: %s: old and new releases, killed at random moments: no effect twice, every gap a doubt",
  async (name, newLedger) => {
    const random = seeded(Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31)));
    for (const [round, releases] of DEPLOYS.entries()) {
      const ledger = newLedger();
      const effects = `${temporaryFolder()}/effects`;
      writeFileSync(effects, "");
      const { kills, said, all: leads } = await deploy(releases, { ledger, effects, round }, random);
      const lines = readFileSync(effects, "utf8").split("\n").filter(Boolean);
      const twice = leads.filter((lead) => lines.filter((one) => one === lead).length > 1);
      expect(twice).toEqual([]);
      expect(kills).toBeGreaterThanOrEqual(KILLS);
      const records = await recordsOf(ledger);
      expect(records.map(leadOf).sort()).toEqual([...leads].sort());
      const unknown = records.filter(({ state }) => state === "unknown").map(leadOf);
      const confirmed = records.filter(({ state }) => state === "confirmed").map(leadOf);
      expect(confirmed.filter((lead) => !lines.includes(lead))).toEqual([]);
      expect([...confirmed, ...unknown].sort()).toEqual([...leads].sort());
      expect(said.filter(({ event }) => event === "duplicate" || event === "gave-up" || event === "threw")).toEqual([]);
      console.log(`${name}, ${releases.join(" ")}: ${kills} kills, ${lines.length} effects, ${unknown.length} held`);
    }
  },
  240_000,
);
