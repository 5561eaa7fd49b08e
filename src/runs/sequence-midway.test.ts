/** D8: subjects of a sequence whose first steps were taken before nevertwice knew them. */
import type { Nevertwice } from "nevertwice";
import { expect, it } from "vitest";
import { DatabaseSync } from "../../test/support/database-sync.ts";
import { eachStore, openSqlite } from "../../test/support/each-store.ts";

const DAY = 86_400_000;
const STEPS = ["welcome", { step: "social_proof", after: "2d" }, { step: "first_dollar", after: "3d" }] as const;

type Data = { email: string };
const data: Data = { email: "ann@example.com" };

function drip(nt: Nevertwice, sent: string[], steps: Parameters<Nevertwice["sequence"]>[1] = STEPS) {
  return nt.sequence<Data, unknown>("welcome", steps, {
    run: ({ subject, step }) => void sent.push(`${subject} ${step}`),
  });
}

eachStore("D8: a sequence that starts midway", (open) => {
  it("steps named in done are recorded and not run; the next one keeps its pause", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    const worker = nt.worker();
    expect(await sequence.start("ann", data, { done: ["welcome"] })).toEqual({ created: true });
    await worker.drain();
    expect(sent).toEqual([]);
    const { state, steps } = await sequence.status("ann");
    expect([state, steps.map(({ outcome }) => outcome.status)]).toEqual(["running", ["done", "queued", "queued"]]);
    clock.advance(2 * DAY + 1_000);
    await worker.drain();
    clock.advance(3 * DAY + 1_000);
    await worker.drain();
    expect(sent).toEqual(["ann social_proof", "ann first_dollar"]);
    expect((await sequence.status("ann")).state).toBe("done");
  });

  it("with times: the pause counts from when the step was taken, and one that is over long ago is not taken again", async () => {
    const { nt, clock } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    const worker = nt.worker();
    const ago = (days: number) => new Date(Date.now() - days * DAY);
    await sequence.start("late", data, { done: { welcome: ago(400) } });
    await sequence.start("soon", data, { done: { welcome: ago(1) } });
    await worker.drain();
    expect(sent).toEqual(["late social_proof"]);
    clock.advance(DAY + 1_000);
    await worker.drain();
    expect(sent).toEqual(["late social_proof", "soon social_proof"]);
    await sequence.start("late", data, { done: { welcome: ago(400) } });
    clock.advance(3 * DAY + 1_000);
    await worker.drain();
    expect(sent.filter((line) => line.endsWith("welcome"))).toEqual([]);
    expect(sent.length).toBe(4);
  });

  it("a repeat changes nothing, with done or without; all steps may be done", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    await sequence.start("ann", data, { done: ["welcome", "social_proof", "first_dollar"] });
    expect((await sequence.status("ann")).state).toBe("done");
    expect(await sequence.start("ann", data, { done: ["welcome"] })).toEqual({ created: false });
    expect(await sequence.start("ann", data)).toEqual({ created: false });
    await nt.worker().drain();
    expect(sent).toEqual([]);
  });

  it("a start that broke off after the record of the steps is made good by the next", async () => {
    const { nt, another } = open();
    const sent: string[] = [];
    const broken = drip(another({ wrap: (store) => breakingAfterFirstWrite(store) }), sent);
    await expect(broken.start("ann", data, { done: ["welcome"] })).rejects.toThrow();
    const sequence = drip(nt, sent);
    await sequence.start("ann", data, { done: ["welcome"] });
    const { steps } = await sequence.status("ann");
    expect(steps.map(({ outcome }) => outcome.status)).toEqual(["done", "queued", "queued"]);
    await nt.worker().drain();
    expect(sent).toEqual([]);
  });

  it("what cannot be meant is refused, and nothing is queued", async () => {
    const { nt } = open();
    const sequence = drip(nt, []);
    const refused = (done: never) => expect(sequence.start("ann", data, { done })).rejects;
    await refused(["greeting"] as never).toThrow(/no such step. Its steps are: welcome, social_proof, first_dollar/);
    await refused(["welcome", "first_dollar"] as never).toThrow(
      /names "first_dollar" and not "social_proof".*forward only/,
    );
    await refused({ welcome: "2026-01-15" } as never).toThrow(/done, "welcome": .*the text has no offset/);
    await refused("welcome" as never).toThrow(/done takes the names of steps/);
    expect((await sequence.status("ann")).state).toBe("absent");
  });

  it("a subject that was started already, with the step queued, is an error that says so", async () => {
    const { nt } = open();
    const sent: string[] = [];
    const sequence = drip(nt, sent);
    await sequence.start("ann", data);
    await expect(sequence.start("ann", data, { done: ["welcome"] })).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringMatching(/"ann" was started already, and its step "welcome" is queued/),
    });
    const worker = nt.worker();
    await worker.drain();
    expect(sent).toEqual(["ann welcome"]);
    expect(await sequence.start("ann", data, { done: ["welcome"] })).toEqual({ created: false });
  });

  it("of one tenant, not of another", async () => {
    const { nt } = open();
    const sequence = drip(nt, []);
    await sequence.start("ann", data, { done: ["welcome"], tenant: "acme" });
    expect((await sequence.status("ann", { tenant: "acme" })).steps[0]?.outcome.status).toBe("done");
    expect((await sequence.status("ann", { tenant: "other" })).state).toBe("absent");
  });
});

it("D8: with tx, the steps that are done and those that are queued are rolled back together", async () => {
  const { nt } = openSqlite();
  const path = nt.store.name.replace(/^sqlite:/, "");
  const db = new DatabaseSync(path);
  const sequence = drip(nt, []);
  await nt.store.stats();
  db.exec("BEGIN IMMEDIATE");
  await sequence.start("ann", data, { done: ["welcome"], tx: db });
  db.exec("ROLLBACK");
  expect((await sequence.status("ann")).state).toBe("absent");
  db.exec("BEGIN IMMEDIATE");
  await sequence.start("ann", data, { done: ["welcome"], tx: db });
  db.exec("COMMIT");
  db.close();
  const { steps } = await sequence.status("ann");
  expect(steps.map(({ outcome }) => outcome.status)).toEqual(["done", "queued", "queued"]);
});

function breakingAfterFirstWrite<S extends { write(puts: readonly unknown[]): Promise<unknown> }>(store: S): S {
  let writes = 0;
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name !== "write") return typeof value === "function" ? value.bind(target) : value;
      return (puts: never) => {
        writes += 1;
        if (writes > 1) return Promise.reject(new Error("the process is gone"));
        return target.write(puts);
      };
    },
  });
}
