/** A dead letter of a sequence, brought back by start() or restart(): the steps after it come back with it. */
import { type Nevertwice, NevertwiceError, notSent, rejected, type SequenceOptions } from "nevertwice";
import { expect, it } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, openSqlite } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const STEPS = ["welcome", { step: "social_proof", after: "2d" }, { step: "first_dollar", after: "3d" }] as const;
const by = { by: "ada", reason: "the mail server is up again" };

type Data = { email: string };

function drip(nt: Nevertwice, more: Partial<SequenceOptions<Data, unknown>> = {}, failing = "welcome") {
  const provider = { isUp: false, sent: [] as string[], error: (): unknown => notSent(new Error("down")) };
  const sequence = nt.sequence<Data, unknown>("welcome", STEPS, {
    retry: { attempts: 1 },
    run: ({ step, data }) => {
      if (!provider.isUp && step === failing) throw provider.error();
      provider.sent.push(`${step} ${data.email}`);
      return true;
    },
    ...more,
  });
  return { sequence, provider };
}

eachStore("a dead letter of a sequence", (open) => {
  for (const [when, waitedMs] of [
    ["before the next one is due", 0],
    ["after the next one was due", 2 * DAY + 1_000],
    ["after all of them were due", 10 * DAY],
  ] as const) {
    for (const how of ["start", "restart"] as const) {
      it(`${how} ${when}: it runs at once, and the steps after it follow`, async () => {
        const { nt, clock } = open();
        const { sequence, provider } = drip(nt);
        const worker = nt.worker();
        await sequence.start("ann", { email: "a" });
        await worker.drain();
        clock.advance(waitedMs);
        await worker.drain();
        clock.advance(1_000);
        await worker.drain();
        expect(provider.sent).toEqual([]);
        provider.isUp = true;
        if (how === "start") await sequence.start("ann", { email: "a" });
        else await sequence.restart("ann", by);
        await worker.drain();
        expect(provider.sent).toEqual(["welcome a"]);
        expect((await sequence.status("ann")).state).toBe("running");
        clock.advance(2 * DAY + 1_500);
        await worker.drain();
        expect(provider.sent).toEqual(["welcome a", "social_proof a"]);
        clock.advance(3 * DAY + 1_500);
        await worker.drain();
        clock.advance(1_500);
        await worker.drain();
        expect(provider.sent).toEqual(["welcome a", "social_proof a", "first_dollar a"]);
        expect((await sequence.status("ann")).state).toBe("done");
      });
    }
  }

  it("a step with a time before it runs at once too: its time has passed already", async () => {
    const { nt, clock } = open();
    const { sequence, provider } = drip(nt, {}, "social_proof");
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    await worker.drain();
    clock.advance(2 * DAY + 1_000);
    await worker.drain();
    provider.isUp = true;
    await sequence.start("ann", { email: "b" });
    await worker.drain();
    expect(provider.sent).toEqual(["welcome a", "social_proof b"]);
    clock.advance(2 * DAY);
    await worker.drain();
    expect(provider.sent.length).toBe(2);
    clock.advance(DAY + 1_500);
    await worker.drain();
    clock.advance(1_500);
    await worker.drain();
    expect(provider.sent.at(-1)).toMatch(/^first_dollar/);
  });

  it("a step that was refused for good stays so, and the ones after it are not queued again without it", async () => {
    const { nt, clock } = open();
    const { sequence, provider } = drip(nt);
    provider.error = () => rejected(new Error("no such address"));
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    for (let day = 0; day < 8; day += 1) {
      await worker.drain();
      clock.advance(DAY);
    }
    provider.isUp = true;
    await sequence.start("ann", { email: "a" });
    const { state, steps } = await sequence.status("ann");
    expect([state, steps.map(({ outcome }) => outcome.status)]).toEqual(["failed", ["failed", "failed", "failed"]]);
    await sequence.restart("ann", by);
    await worker.drain();
    expect(provider.sent).toEqual(["welcome a"]);
  });

  it("brought back by hand and done: start queues the ones that failed because of it", async () => {
    const { nt, clock } = open();
    const { sequence, provider } = drip(nt);
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    for (let day = 0; day < 8; day += 1) {
      await worker.drain();
      clock.advance(DAY);
    }
    provider.isUp = true;
    const [welcome] = (await sequence.status("ann")).steps;
    await nt.retry({ key: welcome?.outcome.key as string }, by);
    await worker.drain();
    expect(provider.sent).toEqual(["welcome a"]);
    await sequence.start("ann", { email: "b" });
    clock.advance(2 * DAY + 1_500);
    await worker.drain();
    clock.advance(1_500);
    await worker.drain();
    expect(provider.sent).toEqual(["welcome a", "social_proof b"]);
  });

  it("started and restarted by several at once: each step once, in order", async () => {
    const { nt, clock } = open();
    const { sequence, provider } = drip(nt);
    const worker = nt.worker();
    await sequence.start("ann", { email: "a" });
    await worker.drain();
    provider.isUp = true;
    await Promise.allSettled(
      [1, 2, 3, 4].map((n) => (n % 2 === 0 ? sequence.start("ann", { email: "a" }) : sequence.restart("ann", by))),
    );
    for (let hour = 0; hour < 6 * 24; hour += 6) {
      await worker.drain();
      clock.advance(DAY / 4);
    }
    await worker.drain();
    expect(provider.sent).toEqual(["welcome a", "social_proof a", "first_dollar a"]);
  });

  it("restart says what is: the status, an unknown subject, or the step in doubt that holds it", async () => {
    const { nt } = open();
    const { sequence, provider } = drip(nt);
    provider.error = () => new Error("who knows");
    const unknown = await sequence.restart("nobody", by).catch((error: unknown) => error);
    expect(unknown).toBeInstanceOf(NevertwiceError);
    expect((unknown as NevertwiceError).code).toBe("INVALID_INPUT");
    expect((unknown as Error).message).toMatch(/"nobody" was never started.*start\(/);
    expect((await sequence.status("nobody")).state).toBe("absent");
    await sequence.start("ann", { email: "a" });
    await nt.worker().drain();
    const held = (await sequence.restart("ann", by).catch((error: unknown) => error)) as NevertwiceError;
    expect(held.code).toBe("OUTCOME_UNKNOWN");
    expect(held.message).toMatch(/"welcome" is in doubt.*nevertwice resolve nt1_/);
    expect(held.key).toBe((await sequence.status("ann")).steps[0]?.outcome.key);
    await sequence.stop("ann", by);
    expect((await sequence.restart("ann", by)).state).toBe("held");
    await sequence.stop("bob", by);
    expect((await sequence.restart("bob", by)).state).toBe("absent");
  });
});

it("in the caller's own transaction: all come back with it, or none", async () => {
  const { nt, clock, store } = openSqlite();
  await store.stats();
  const database = new DatabaseSync(store.name.replace("sqlite:", ""));
  const { sequence, provider } = drip(nt);
  const worker = nt.worker();
  await sequence.start("ann", { email: "a" });
  await worker.drain();
  provider.isUp = true;
  database.exec("BEGIN IMMEDIATE");
  await sequence.start("ann", { email: "b" }, { tx: database });
  database.exec("ROLLBACK");
  await worker.drain();
  expect(provider.sent).toEqual([]);
  database.exec("BEGIN IMMEDIATE");
  await sequence.start("ann", { email: "b" }, { tx: database });
  database.exec("COMMIT");
  await worker.drain();
  expect(provider.sent).toEqual(["welcome b"]);
  clock.advance(2 * DAY + 1_500);
  await worker.drain();
  expect(provider.sent).toEqual(["welcome b", "social_proof a"]);
  database.close();
});
