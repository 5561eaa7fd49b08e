/** F15–F19, F19, F26 on any store: clocks that lie, processes and event loops that stand still, leases that are lost. */
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanUp, startProgram } from "./processes.mjs";
import { startProvider } from "./provider.mjs";

const HOLDER = fileURLToPath(new URL("../holder.mjs", import.meta.url));
const HOUR_MS = 3_600_000;

let provider: Awaited<ReturnType<typeof startProvider>>;
let newLedger: () => string;

let intents = 0;

function orders<More extends object>(name: string, more: More) {
  intents += 1;
  return { ledger: newLedger(), provider: provider.url, id: `C-${name}-${intents}`, ...more };
}

function start(spec: object, env: Record<string, string> = {}) {
  return startProgram(HOLDER, spec, { env });
}

function libfaketime(): string {
  const folders = ["/usr/lib", "/usr/local/lib", ...readdirSync("/usr/lib").map((entry) => `/usr/lib/${entry}`)];
  const found = folders.map((folder) => `${folder}/faketime/libfaketime.so.1`).find((file) => existsSync(file));
  if (found === undefined) throw new Error("libfaketime.so.1 is not there: node scripts/ensure-tools.mjs");
  return found;
}

/** Only the wall clock lies, as when somebody sets it; CLOCK_MONOTONIC goes on. */
export function wallClock(faketime: string): Record<string, string> {
  return { LD_PRELOAD: libfaketime(), FAKETIME: faketime, FAKETIME_DONT_FAKE_MONOTONIC: "1", FAKETIME_NO_CACHE: "1" };
}

const CLOCKS = [
  { clock: "10 minutes behind", faketime: "-10m", lies: (wall: number) => wall < Date.now() - 500_000 },
  { clock: "1 hour ahead", faketime: "+1h", lies: (wall: number) => wall > Date.now() + HOUR_MS / 2 },
  {
    clock: "frozen in 2030",
    faketime: "2030-01-01 00:00:00",
    lies: (wall: number) => new Date(wall).getUTCFullYear() >= 2029,
  },
];

/** Another process sweeps until the holder's lease is over. */
async function sweptUntilUnknown(spec: object): Promise<string> {
  const sweeper = start({ ...spec, sweeps: 60 });
  const { outcome } = await sweeper.event("status");
  await sweeper.exited;
  return outcome.status;
}

/** `ledger`: a new one for each test. */
export function describeHolders(store: string, ledger: () => string): void {
  beforeAll(async () => {
    newLedger = ledger;
    provider = await startProvider({
      script: ({ id, nth }) => (id.includes("slow") && nth === 1 ? { delayMs: 2_500 } : "answer"),
    });
  });
  afterAll(async () => {
    cleanUp();
    await provider.close();
  });
  describe(store, () => {
    describe.concurrent.each(CLOCKS)("F18: a wall clock $clock", ({ faketime, lies }) => {
      it("does not take over a live holder, by a sweep or by a call", async () => {
        const spec = orders("slow", { leaseMs: 5_000, timeoutMs: 4_500 });
        const holder = start(spec);
        await provider.arrived(spec.id);
        const sweeper = start({ ...spec, sweeps: 10 }, wallClock(faketime));
        const seen = await sweeper.event("status");
        expect(lies(seen.wall)).toBe(true);
        const caller = start(spec, wallClock(faketime));
        const told = await caller.event("outcome");
        const own = await holder.event("outcome");
        expect(own.outcome).toMatchObject({ status: "done", replayed: false });
        // On a slow machine the holder may be done by the time the others look: what they must not do is run it.
        for (const { outcome } of [seen, told]) expect(["in_flight", "done"]).toContain(outcome.status);
        expect(provider.requestsFor(spec.id)).toBe(1);
        await Promise.all([holder.exited, sweeper.exited, caller.exited]);
      });

      it("does not lose the lease of a holder whose own clock lies", async () => {
        const spec = orders("slow", { leaseMs: 5_000, timeoutMs: 4_500 });
        const holder = start(spec, wallClock(faketime));
        await provider.arrived(spec.id);
        const sweeper = start({ ...spec, sweeps: 5 });
        expect(["in_flight", "done"]).toContain((await sweeper.event("status")).outcome.status);
        expect((await holder.event("outcome")).outcome).toMatchObject({ status: "done", attempt: 1 });
        expect(provider.requestsFor(spec.id)).toBe(1);
        await Promise.all([holder.exited, sweeper.exited]);
      });
    });

    describe.concurrent("a holder that stands still", () => {
      it("F15, F26: stopped past its lease after the reply: unknown meanwhile, its late success is evidence", async () => {
        const spec = orders("f15", { leaseMs: 2_000 });
        const holder = start({ ...spec, stopAt: "replied" });
        await holder.paused();
        expect(await sweptUntilUnknown(spec)).toBe("unknown");
        holder.signal("SIGCONT");
        await holder.exited;
        const after = await start({ ...spec, sweeps: 1 }).event("status");
        expect(after.outcome).toMatchObject({ status: "done", result: { id: `${spec.id}#1` } });
        expect(provider.requestsFor(spec.id)).toBe(1);
      });

      it("F15: stopped past its lease before the send mark: taken over, and its own mark is refused", async () => {
        const spec = orders("f15b", { leaseMs: 400, prepare: true });
        const holder = start({ ...spec, stopAt: "prepare" });
        await holder.paused();
        // Its own lease is long: a starved machine must not turn the rescuer's send into a timeout.
        const other = start({ ...spec, leaseMs: 20_000, waitMs: 20_000 });
        expect((await other.event("outcome")).outcome).toMatchObject({ status: "done", attempt: 2 });
        holder.signal("SIGCONT");
        const { outcome } = await holder.event("outcome");
        expect(outcome).toMatchObject({ status: "done", replayed: true });
        expect(holder.said.some((one) => one.event === "sending")).toBe(false);
        expect(provider.requestsFor(spec.id)).toBe(1);
      });

      it("F17: stopped between the send mark and the socket: a hold is held, and a probe is not asked before it was quiet", async () => {
        const spec = orders("f17", { leaseMs: 2_000 });
        const holder = start({ ...spec, stopAt: "marked" });
        await holder.paused();
        expect(await sweptUntilUnknown(spec)).toBe("unknown");
        const holding = start(spec);
        expect((await holding.event("outcome")).outcome).toMatchObject({ status: "unknown", attempt: 1 });
        const probing = start({ ...spec, quietForMs: HOUR_MS, waitMs: 300 });
        expect((await probing.event("outcome")).outcome).toMatchObject({ status: "unknown", attempt: 1 });
        await Promise.all([holding.exited, probing.exited]);
        expect(probing.said.some((one) => one.event === "probed")).toBe(false);
        expect(provider.requestsFor(spec.id)).toBe(0);
        // What it sends now, nobody has sent before it.
        holder.signal("SIGCONT");
        await holder.exited;
        expect(provider.requestsFor(spec.id)).toBeLessThanOrEqual(1);
      });

      it("F17: killed there: a probe after the quiet finds nothing, and it is sent once", async () => {
        const spec = orders("f17-killed", { leaseMs: 2_000 });
        const holder = start({ ...spec, stopAt: "marked" });
        await holder.paused();
        await holder.kill();
        expect(await sweptUntilUnknown(spec)).toBe("unknown");
        const probing = start({ ...spec, leaseMs: 20_000, quietForMs: 1, waitMs: 20_000 });
        expect((await probing.event("outcome")).outcome).toMatchObject({ status: "done", attempt: 2 });
        expect(probing.said.filter((one) => one.event === "probed")).toHaveLength(1);
        expect(provider.requestsFor(spec.id)).toBe(1);
      });

      it.each(["prepare", "before-sent"])(
        "F16: the event loop stalled past the lease (%s): nothing is sent late",
        async (point) => {
          const spec = orders(`f16-${point}`, {
            leaseMs: 300,
            stall: point,
            stallMs: 900,
            [point === "prepare" ? "prepare" : "manual"]: true,
          });
          const holder = start(spec);
          await holder.event("end");
          expect(provider.requestsFor(spec.id)).toBe(0);
          expect(holder.said.some((one) => one.type === "lease_lost")).toBe(true);
          const after = await start({ ...spec, sweeps: 1 }).event("status");
          expect(after.outcome.status).not.toBe("unknown");
        },
      );

      it("F16: the event loop stalled past the lease while the mark was written: nothing is sent late", async () => {
        const spec = orders("f16-during", { leaseMs: 300, stall: "during-sent", stallMs: 900, manual: true, crowd: 7 });
        const holder = start(spec);
        await holder.event("end");
        const asked = [spec.id, ...Array.from({ length: spec.crowd }, (_, i) => `${spec.id}-${i}`)];
        expect(asked.map((id) => provider.requestsFor(id))).toEqual(asked.map(() => 0));
      });
    });

    describe.concurrent("a lease that is lost while the work is alive", () => {
      it("F19: stopped in flight past its lease and resumed: the work is told to stop, nobody sends a second time", async () => {
        const spec = orders("slow", { leaseMs: 2_000, obeys: true });
        const holder = start(spec);
        await provider.arrived(spec.id);
        holder.signal("SIGSTOP");
        await holder.stopped();
        expect(await sweptUntilUnknown(spec)).toBe("unknown");
        holder.signal("SIGCONT");
        await holder.event("end");
        // The reply may have come while it was stopped: then it is late evidence. Otherwise the work was told to stop.
        const stopped = holder.said.some((one) => one.event === "aborted");
        const { outcome } = await start({ ...spec, sweeps: 1 }).event("status");
        expect(stopped ? ["unknown", "done"] : ["done"]).toContain(outcome.status);
        expect(provider.requestsFor(spec.id)).toBe(1);
      });
    });
  });
}
