/** F4–F9 on any store: a process killed at each named point of an attempt, for each kind of provider. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sample } from "../../support/effort.mjs";
import { KINDS } from "./actions.mjs";
import { violations } from "./invariants.mjs";
import { cleanUp, startVictim } from "./processes.mjs";
import { startProvider } from "./provider.mjs";
import { viewLedger } from "./recovery.mjs";

type Kind = "A" | "B" | "C";
type Point = "prepare" | "marked" | "replied" | "confirmed";
type Provider = Awaited<ReturnType<typeof startProvider>>;

let provider: Provider;
let newLedger: () => string | Promise<string>;

/** The id says what the provider does with the first request; later ones it answers. */
function scriptFor(id: string, nth: number): "answer" | "hold" | "hold-before" {
  if (nth > 1) return "answer";
  if (id.includes("holds")) return "hold";
  return id.includes("swallows") ? "hold-before" : "answer";
}

// Where the kill waits for the provider's answer: an attempt must not run into its own timeout on a slow machine first.
const ANSWERED = { leaseMs: 1_500 };

type Orders = Awaited<ReturnType<typeof orders>>;

async function orders(id: string, more: object = {}) {
  return { ledger: await newLedger(), provider: provider.url, ids: [id], leaseMs: 400, ...more };
}

/** Killed where it stands, by SIGKILL. */
async function killAt(spec: Orders, point: Point): Promise<void> {
  const victim = startVictim({ ...spec, pauseAt: { point } });
  await victim.paused();
  expect((await victim.kill()).signal).toBe("SIGKILL");
}

async function killInFlight(spec: Orders): Promise<void> {
  const victim = startVictim(spec);
  await provider.arrived(spec.ids[0]);
  await victim.kill();
}

async function recovered(spec: Orders, more: object = {}) {
  const child = startVictim({ recover: [spec], ...more });
  const { outcomes, records } = await child.event("recovered");
  await child.exited;
  return { outcome: outcomes[spec.ids[0] as string], record: records[0], records };
}

async function stateNow(spec: Orders): Promise<string> {
  const { bad, records } = await viewLedger(spec.ledger);
  expect(bad).toEqual([]);
  return records[0]?.state ?? "absent";
}

async function expectSound(spec: Orders) {
  const { records } = await viewLedger(spec.ledger);
  expect(violations({ ids: spec.ids, records, provider })).toEqual([]);
}

/** `ledger`: a new one for each test. */
export function describeKillPoints(store: string, ledger: () => string | Promise<string>): void {
  beforeAll(async () => {
    newLedger = ledger;
    provider = await startProvider({ script: ({ id, nth }) => scriptFor(id, nth) });
  });
  afterAll(async () => {
    cleanUp();
    await provider.close();
  });
  // On one store all of them; on the others a kind of provider is enough in the short command.
  describe.concurrent.each(store === "sqlite" ? (KINDS as Kind[]) : sample(KINDS as Kind[], 1))(
    `${store}, provider %s`,
    (kind) => killPoints(kind),
  );
}

function killPoints(kind: Kind): void {
  it("F4: killed after the claim, before the send mark: taken over, one effect", async () => {
    const spec = await orders(`${kind}-f4`, { prepare: true, ...ANSWERED });
    await killAt(spec, "prepare");
    expect(await stateNow(spec)).toBe("claimed");
    const { outcome, record } = await recovered(spec);
    expect([outcome.status, record.state, record.attempt]).toEqual(["done", "confirmed", 2]);
    expect(provider.effectsOf(spec.ids[0])).toBe(1);
    await expectSound(spec);
  });

  it.each([true, false])("F5: killed after the send mark, before sending (prepare: %s)", async (prepare) => {
    const spec = await orders(`${kind}-f5-${prepare}`, { prepare, ...ANSWERED });
    await killAt(spec, "marked");
    expect(await stateNow(spec)).toBe("sent");
    const { outcome, record } = await recovered(spec);
    // Nobody can tell "marked" from "sent": C holds it, though nothing left. A sends the same again, B asks first.
    expect([outcome.status, record.state]).toEqual(kind === "C" ? ["unknown", "unknown"] : ["done", "confirmed"]);
    expect(record.history).toContain("lapse");
    expect(provider.effectsOf(spec.ids[0])).toBe(kind === "C" ? 0 : 1);
    await expectSound(spec);
  });

  it.each(["holds", "swallows"])("F6: killed in flight; the provider %s it", async (what) => {
    const spec = await orders(`${kind}-f6-${what}`, ANSWERED);
    await killInFlight(spec);
    expect(await stateNow(spec)).toBe("sent");
    const { outcome, record } = await recovered(spec);
    expect([outcome.status, record.state]).toEqual(kind === "C" ? ["unknown", "unknown"] : ["done", "confirmed"]);
    expect(record.history).toContain("lapse");
    expect(provider.effectsOf(spec.ids[0])).toBe(kind === "C" && what === "swallows" ? 0 : 1);
    await expectSound(spec);
  });

  it.each([true, false])("F7: killed after the reply, before the confirm (prepare: %s)", async (prepare) => {
    const spec = await orders(`${kind}-f7-${prepare}`, { prepare, ...ANSWERED });
    await killAt(spec, "replied");
    const { outcome, record } = await recovered(spec);
    expect([outcome.status, record.state]).toEqual(kind === "C" ? ["unknown", "unknown"] : ["done", "confirmed"]);
    expect(provider.effectsOf(spec.ids[0])).toBe(1);
    await expectSound(spec);
  });

  it("F8: killed after the confirm: replayed", async () => {
    // Nothing lapses here, so the lease may outlast any pause of the machine.
    const spec = await orders(`${kind}-f8`, { leaseMs: 60_000 });
    await killAt(spec, "confirmed");
    const { outcome, record } = await recovered(spec);
    expect(outcome).toMatchObject({ status: "done", replayed: true, attempt: 1, result: { id: `${spec.ids[0]}#1` } });
    expect(record.state).toBe("confirmed");
    expect(provider.effectsOf(spec.ids[0])).toBe(1);
    expect(provider.requestsFor(spec.ids[0])).toBe(1);
    await expectSound(spec);
  });

  it("F9: killed again and again during recovery: the same", async () => {
    const spec = await orders(`${kind}-f9`, { prepare: true, leaseMs: 1_200 });
    await killAt(spec, "prepare");
    for (const point of ["prepare", "prepare", "marked"] as const) await killRecovery(spec, point);
    // A doubt that is held is not run again, so there is nothing to be killed in.
    if (kind === "A") for (const point of ["marked", "replied", "replied"] as const) await killRecovery(spec, point);
    if (kind === "B") for (const point of ["prepare", "replied"] as const) await killRecovery(spec, point);
    const { outcome } = await recovered(spec);
    expect(outcome.status).toBe(kind === "C" ? "unknown" : "done");
    expect(provider.effectsOf(spec.ids[0])).toBe(kind === "C" ? 0 : 1);
    await expectSound(spec);
  });
}

async function killRecovery(spec: Orders, point: Point): Promise<void> {
  const child = startVictim({ recover: [spec], pauseAt: { point } });
  await child.paused();
  await child.kill();
}
