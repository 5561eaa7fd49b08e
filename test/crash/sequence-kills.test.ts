/** Sequences under kills, while a release changes the list: forward only, no step more often than its attempts allow. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";

const PROGRAM = new URL("./sequence-worker.mjs", import.meta.url).pathname;
const SUBJECTS = ["ada", "bob", "cyd", "dee", "eve", "fay"];
const FIRST = ["a", "fails", "b", "c"];
const SECOND = ["zero", "a", "half", "fails", "b", "between", "c", "d"];
const ATTEMPTS = 4;
const KILLS = effort(4, 8);

afterAll(cleanUp);

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function provider() {
  const arrived: { subject: string; step: string }[] = [];
  const server = createServer(async (request, response) => {
    const step = (await json(request)) as { subject: string; step: string };
    arrived.push(step);
    await pause(20);
    response.writeHead(step.step === "fails" ? 503 : 200).end("{}");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, arrived };
}

const stores: Record<string, () => Promise<string>> = {
  PostgreSQL: async () => (await freshDatabase()).url,
  "one SQLite file": async () => `sqlite:${temporaryFolder()}/ledger.db`,
};

describe.each(Object.keys(stores))("sequences on %s", (name) => {
  it("workers of two releases, killed at random: forward only, and attempts mean attempts", async () => {
    const store = await (stores[name] as () => Promise<string>)();
    const { url, arrived } = await provider();
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    const drip = nt.sequence("drip", SECOND, { run: () => {} });
    await nt.store.stats();
    const random = seeded(Number(process.env.NEVERTWICE_SEED ?? 11));
    const common = { store, provider: url, leaseMs: 1_000 };
    const work = (list: readonly string[], start: readonly string[] = []) =>
      startProgram(PROGRAM, { ...common, list, start });
    let list = FIRST;
    const fleet = [work(list, SUBJECTS), work(list)];
    await fleet[0]?.event("enrolled");
    for (let kills = 0; kills < KILLS; kills += 1) {
      const victim = kills % fleet.length;
      await fleet[victim]?.event("started");
      await pause(50 + random() * 400);
      await fleet[victim]?.kill();
      const isNew = kills === KILLS / 2;
      if (isNew) list = SECOND;
      // A start after a dead letter begins a new round of tries: each release starts its subjects once.
      const next = work(list, isNew ? SUBJECTS : []);
      fleet[victim] = next;
      if (isNew) await next.event("enrolled");
    }
    for (const one of fleet) await one.kill();
    const last = [work(SECOND), work(SECOND)];
    /** All steps are settled, or one is in doubt with no tries left: a person has to look at it, and the rest waits. */
    const isOver = async (subject: string) => {
      const { steps } = await drip.status(subject);
      const doubts = steps.filter(({ outcome }) => outcome.status === "unknown").map(({ outcome }) => outcome.key);
      const stored = await nt.store.read(doubts);
      if (stored.some((one) => one !== null && one.record.tries >= ATTEMPTS)) return true;
      return steps.every(({ outcome }) => ["done", "failed", "absent"].includes(outcome.status));
    };
    const tooLate = Date.now() + 100_000;
    while (!(await Promise.all(SUBJECTS.map(isOver))).every(Boolean)) {
      if (Date.now() > tooLate) throw new Error("not all subjects came to an end");
      await pause(100);
    }
    await pause(500);
    for (const one of last) one.end();

    for (const subject of SUBJECTS) {
      const own = arrived.filter((one) => one.subject === subject).map(({ step }) => step);
      expect(own).toContain("a");
      // One round of each release.
      expect(own.filter((step) => step === "fails").length, `${subject}: ${own}`).toBeLessThanOrEqual(2 * ATTEMPTS);
      // A killed caller's request may arrive before its resend: the same step again, never one before it.
      const places = own.filter((step) => step !== "fails").map((step) => SECOND.indexOf(step));
      expect(
        [...places].sort((a, b) => a - b),
        `${subject}: ${own}`,
      ).toEqual(places);
    }
  }, 150_000);
});
