/** One ledger, opened by many processes through different paths at once, compacted all the time, and killed. */
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { effort } from "../support/effort.mjs";
import { runFleet } from "./lib/fleet.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { viewLedger } from "./lib/recovery.mjs";

const RIVAL = fileURLToPath(new URL("./rival.mjs", import.meta.url));
const KILLS = effort(6, 25);

afterAll(cleanUp);

const KINDS = [
  { kind: "file", end: ".jsonl", intents: 150 },
  { kind: "sqlite", end: ".db", intents: 300 },
];

/** A link, a link to a link, a linked folder, a folder in between, and the file itself. */
function pathsTo(end: string) {
  const folder = temporaryFolder();
  mkdirSync(`${folder}/data`);
  const ledger = `${folder}/data/ledger${end}`;
  symlinkSync(`data/ledger${end}`, `${folder}/link${end}`);
  symlinkSync(`${folder}/link${end}`, `${folder}/again${end}`);
  symlinkSync(`${folder}/data`, `${folder}/linked`);
  const links = [`${folder}/link${end}`, `${folder}/again${end}`];
  const paths = [ledger, ...links, `${folder}/linked/ledger${end}`, `${folder}/data/../link${end}`];
  return { folder, ledger, links, paths };
}

describe.each(KINDS)("$kind", ({ kind, end, intents }) => {
  it("five processes by five paths, the file made by whoever is first: every effect once", async () => {
    const { folder, ledger, links, paths } = pathsTo(end);
    const effects = `${folder}/effects`;
    writeFileSync(effects, "");
    const shared = { kind, effects, intents, atOnce: 8, open: false, compactAfterLines: -1_000_000 };
    const rivals = paths.map((path, me) => startProgram(RIVAL, { ...shared, ledger: path, me }));
    await Promise.all(rivals.map((rival) => rival.event("ready")));
    for (const rival of rivals) rival.tell("go");
    await Promise.all(rivals.map((rival) => rival.exited));
    expect(rivals.flatMap(({ said }) => said.filter(({ event }) => event === "threw" || event === "odd"))).toEqual([]);
    const ran = readFileSync(effects, "utf8").trim().split("\n").sort();
    expect(ran).toEqual(Array.from({ length: intents }, (_, i) => `i${i}`).sort());
    for (const path of paths) {
      const { bad, records } = await viewLedger(path);
      expect(bad).toEqual([]);
      expect(records.filter(({ state }) => state === "confirmed").length).toBe(intents);
    }
    expect(lstatSync(ledger).isFile()).toBe(true);
    expect(links.map((link) => lstatSync(link).isSymbolicLink())).toEqual([true, true]);
    expect(readdirSync(folder).sort()).toEqual(["data", "effects", ...[`again${end}`, `link${end}`, "linked"]].sort());
  }, 120_000);

  it("a fleet on different paths, killed at random moments: no effect twice, nothing acknowledged lost", async () => {
    const seed = Number(process.env.NEVERTWICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { ledger, links, paths } = pathsTo(end);
    const store = { kind, compactAfterLines: 20 };
    const enough = ({ kills, rounds }: { kills: number; rounds: number }) => kills >= KILLS || rounds >= 30;
    const sum = await runFleet({ seed, ledger, paths: paths.slice(0, 4), store, enough });
    console.log(`${kind} by several paths, seed ${seed}: ${sum.kills} kills, ${sum.intents} intents`);
    expect(sum.violations).toEqual([]);
    expect(sum.kills).toBeGreaterThanOrEqual(KILLS);
    expect(links.map((link) => lstatSync(link).isSymbolicLink())).toEqual([true, true]);
  }, 240_000);
});
