/** Orders under kills: two processes enqueue into the same orders, others run them, and any of them dies at any moment. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type Nevertwice, nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { effort, seeded } from "../support/effort.mjs";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";

const PROGRAM = new URL("./ordered-worker.mjs", import.meta.url).pathname;
const LEASE_MS = 2_000;
const ORDERS = ["ada", "bob", "cyd"];
const EACH = effort(15, 40);
const AT_ONCE = 40;
const KILLS = { enqueuers: 4, workers: 5 };

afterAll(cleanUp);

interface Step {
  readonly id: string;
  readonly order: string;
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Sees which steps of an order are under way at the same time. A killed caller's request ends with its connection. */
async function watchingProvider() {
  const underWay = new Map<string, Set<string>>();
  const arrived: Step[] = [];
  const overlaps: string[] = [];
  const server = createServer(async (request, response) => {
    const step = JSON.parse(await bodyOf(request)) as Step;
    const others = underWay.get(step.order) ?? new Set<string>();
    underWay.set(step.order, others);
    if (others.size > 0) overlaps.push(`${step.id} with ${[...others].join(", ")}`);
    others.add(step.id);
    arrived.push(step);
    response.on("close", () => others.delete(step.id));
    await pause(3);
    others.delete(step.id);
    response.end("{}");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return { url, arrived, overlaps, close: () => server.close() };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}

async function untilConfirmed(nt: Nevertwice, steps: number): Promise<void> {
  const tooLate = Date.now() + 120_000;
  const confirmed = async () =>
    (await nt.store.list({ limit: 1_000, action: "step", states: ["confirmed"] })).items.length;
  while ((await confirmed()) < steps) {
    if (Date.now() > tooLate) throw new Error(`${steps - (await confirmed())} steps never came to an end`);
    await pause(100);
  }
}

const stores: Record<string, () => Promise<string>> = {
  PostgreSQL: async () => (await freshDatabase()).url,
  "one SQLite file": async () => `sqlite:${temporaryFolder()}/ledger.db`,
};

describe.each(Object.keys(stores))("orders on %s", (name) => {
  it("two enqueuers of one order, with workers that begin at once: never two at a time", async () => {
    const store = await (stores[name] as () => Promise<string>)();
    const provider = await watchingProvider();
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(async () => {
      await nt.close();
      provider.close();
    });
    await nt.store.stats();
    const common = { store, provider: provider.url, leaseMs: LEASE_MS, concurrency: 4 };
    const fleet = Array.from({ length: 2 }, () => startProgram(PROGRAM, common));
    await Promise.all(fleet.map((one) => one.event("started")));
    const shares = ["e0", "e1"].map((who) =>
      Array.from({ length: AT_ONCE }, (_, i) => ({ id: `${who}-${i}`, order: "one" })),
    );
    const enqueuers = shares.map((enqueue) => startProgram(PROGRAM, { ...common, enqueue, pauseMs: 40 }));
    await Promise.all(enqueuers.map((one) => one.event("finished")));
    await untilConfirmed(nt, 2 * AT_ONCE);
    for (const one of fleet) one.end();
    expect(provider.overlaps).toEqual([]);
    const arrived = provider.arrived.map(({ id }) => id);
    for (const who of ["e0", "e1"])
      expect(arrived.filter((id) => id.startsWith(who))).toEqual(
        Array.from({ length: AT_ONCE }, (_, i) => `${who}-${i}`),
      );
  }, 170_000);

  it("two enqueuers and three workers, killed at random: one at a time, each enqueuer's in order, nothing lost", async () => {
    const store = await (stores[name] as () => Promise<string>)();
    const provider = await watchingProvider();
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(async () => {
      await nt.close();
      provider.close();
    });
    await nt.store.stats();
    const random = seeded(Number(process.env.NEVERTWICE_SEED ?? 5));
    const steps = ["e0", "e1"].map((who) =>
      Array.from({ length: EACH * ORDERS.length }, (_, i) => {
        const order = ORDERS[i % ORDERS.length] as string;
        return { id: `${who}-${order}-${Math.floor(i / ORDERS.length)}`, order };
      }),
    );
    const common = { store, provider: provider.url, leaseMs: LEASE_MS, concurrency: 6 };
    const startWorker = () => startProgram(PROGRAM, common);
    const fleet = Array.from({ length: 3 }, startWorker);

    /** Begun again where it was killed: the step it was at is enqueued once more. */
    const enqueueAll = async (share: readonly Step[], kills: number) => {
      let left = share;
      for (let deaths = 0; left.length > 0; deaths += 1) {
        const one = startProgram(PROGRAM, { ...common, enqueue: left });
        if (deaths < kills) {
          await one.event("enqueued");
          await pause(random() * 120);
          await one.kill();
        } else await one.event("finished");
        const done = new Set(one.said.filter(({ event }) => event === "enqueued").map(({ id }) => id));
        left = left.filter(({ id }) => !done.has(id));
      }
    };
    const enqueuing = Promise.all(steps.map((share) => enqueueAll(share, KILLS.enqueuers / 2)));
    for (let kills = 0; kills < KILLS.workers; kills += 1) {
      const victim = Math.floor(random() * fleet.length);
      await fleet[victim]?.event("started");
      await pause(200 + random() * 800);
      await fleet[victim]?.kill();
      fleet[victim] = startWorker();
    }
    await enqueuing;
    const all = steps.flat();
    await untilConfirmed(nt, all.length);
    for (const one of fleet) one.end();

    expect(provider.overlaps).toEqual([]);
    const firstArrivals = [...new Set(provider.arrived.map(({ id }) => id))];
    expect(new Set(firstArrivals)).toEqual(new Set(all.map(({ id }) => id)));
    for (const who of ["e0", "e1"])
      for (const order of ORDERS) {
        const arrived = firstArrivals.filter((id) => id.startsWith(`${who}-${order}-`));
        expect(arrived).toEqual(Array.from({ length: EACH }, (_, i) => `${who}-${order}-${i}`));
      }
  }, 170_000);
});
