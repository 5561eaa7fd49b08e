/**
 * S3: mail that is sent once, as its author would meet it at 3 AM: a newsletter whose process is killed in the middle, people who
 * click "resend", queues that deliver twice, a provider that takes a mail and answers with an error, with and without
 * idempotency keys of its own. Processes are real, and the provider counts what it was asked for.
 */
import { fileURLToPath } from "node:url";
import { email, keepFor, nevertwice } from "nevertwice";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { cleanUp, startProgram, temporaryFolder } from "../crash/lib/processes.mjs";
import { startProvider as startCounting } from "../crash/lib/provider.mjs";
import { openMemory, openSqlite } from "../support/each-store.ts";
import { gate, until } from "../support/gate.ts";
import { closedPort, post, startProvider } from "../support/provider.ts";

const NEWSLETTER = fileURLToPath(new URL("./newsletter.mjs", import.meta.url));
const RECIPIENTS = 200;
const reader = (i: number) => `reader-${i}@example.com`;
const DAY = 86_400_000;

afterAll(cleanUp);

interface Confirmation {
  readonly order: string;
  readonly to: string;
  readonly body?: string;
  readonly event_id?: string;
}

const confirmation: Confirmation = { order: "order_4821", to: "user@example.com" };

describe("S3 O11: the newsletter is killed in the middle", () => {
  async function killedHalfway(kind: "A" | "C") {
    const provider = await startCounting();
    onTestFinished(() => provider.close());
    let arrivals = 0;
    // Half of the list is answered; then mails are taken without an answer, or not taken at all.
    provider.script = () => {
      arrivals += 1;
      if (arrivals <= RECIPIENTS / 2) return "answer";
      return arrivals % 2 === 0 ? "hold" : "hold-before";
    };
    const store = `sqlite:${temporaryFolder()}/ledger.db`;
    const start = () => startProgram(NEWSLETTER, { store, url: provider.url, kind, recipients: RECIPIENTS, issue: 42 });
    const victim = start();
    await until(() => arrivals >= RECIPIENTS / 2 + 20, "half of the mails, and twenty without an answer");
    await victim.kill();
    provider.script = () => "answer";
    const effects = () => Array.from({ length: RECIPIENTS }, (_, i) => provider.effectsOf(reader(i)) as number);
    return { provider, store, start, effects };
  }

  it("S3 O5 O6: with a provider that honours keys the second run sends the rest, and every reader has one mail", async () => {
    const { provider, start, effects } = await killedHalfway("A");
    const over = await start().event("over");
    expect(over).toMatchObject({ failed: 0, inDoubt: 0 });
    expect(over.sent + over.replayed).toBe(RECIPIENTS);
    expect(effects().every((count) => count === 1)).toBe(true);
    expect(provider.mismatches).toEqual([]);
    expect(await start().event("over")).toMatchObject({ sent: 0, replayed: RECIPIENTS });
  });

  it("S3 O5: without keys nobody gets two; the twenty that nobody knows of are held, and a person settles them", async () => {
    const { provider, store, start, effects } = await killedHalfway("C");
    const second = await start().event("over");
    expect(second).toMatchObject({ failed: 0, inDoubt: 20 });
    expect(effects().every((count) => count <= 1)).toBe(true);
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    const { items } = await nt.store.list({ limit: 100, action: "newsletter", states: ["unknown"] });
    expect(items).toHaveLength(20);
    // The provider's log says who has the mail.
    const held = effects();
    for (const { record } of items) {
      const { to } = JSON.parse((record.input as { json: string }).json);
      const arrived = held[Number(/\d+/.exec(to)?.[0])] === 1;
      const said = { by: "kim", reason: "in the provider's log" };
      await nt.resolve({ key: record.key }, arrived ? { as: "done", ...said } : { as: "not-done", ...said });
    }
    expect(await start().event("over")).toMatchObject({ sent: 10, inDoubt: 0, failed: 0 });
    expect(effects().every((count) => count === 1)).toBe(true);
    expect(provider.mismatches).toEqual([]);
  });
});

describe.each([
  ["memory", openMemory],
  ["sqlite", openSqlite],
] as const)("S3: order confirmations, on %s", (_, open) => {
  const options = (send: (input: Confirmation, key: string) => Promise<unknown>) => ({
    effect: "mail" as const,
    key: { order: true as const, to: email },
    free: ["body", "event_id"] as const,
    run: (input: Confirmation, { key }: { key: string }) => send(input, key),
  });

  it("S3 O14 W3: three clicks on resend, from two hosts, are one more mail; a version is a mail, a typo is none", async () => {
    const provider = await startProvider();
    const { nt, another } = open();
    const send = ({ order, to }: Confirmation, key: string) => provider.send({ order, to }, key);
    const here = nt.action("order_confirmation", options(send));
    const there = another().action("order_confirmation", options(send));
    expect(await here(confirmation)).toEqual({ id: "msg_1" });
    const click = { after: 1, by: "user@example.com", reason: "clicked resend" };
    const clicks = [here, there, here].map((host) => host.resend(confirmation, click));
    expect(await Promise.all(clicks)).toEqual([{ id: "msg_2" }, { id: "msg_2" }, { id: "msg_2" }]);
    // The page is still open, and the user comes back to it.
    expect(await there.resend(confirmation, click)).toEqual({ id: "msg_2" });
    expect(await here(confirmation, { version: 2 })).toEqual({ id: "msg_2" });
    // A corrected template is the same intent; the next version is a decision.
    expect(await here.attempt({ ...confirmation, body: "corrected" })).toMatchObject({ replayed: true });
    expect(await here.resend(confirmation, { ...click, after: 2 })).toEqual({ id: "msg_3" });
    expect(provider.effects).toHaveLength(3);
    expect(new Set(provider.requests.map(({ key }) => key)).size).toBe(3);
  });

  it("S3 K1 O3: a queue delivers the event twice, under two ids and at once: one mail, and who comes early is sent away", async () => {
    const { nt, another, events } = open();
    const answered = gate<{ message_id: string }>();
    let mails = 0;
    const send = async () => {
      mails += 1;
      return answered.opened;
    };
    const one = nt.action("order_confirmation", options(send));
    const two = another().action("order_confirmation", options(send));
    const first = one({ ...confirmation, event_id: "evt_1" });
    await until(() => mails === 1);
    // Not acknowledged: the queue delivers it again later.
    expect(await two.attempt({ ...confirmation, event_id: "evt_2" }, { wait: 0 })).toMatchObject({
      status: "in_flight",
    });
    answered.open({ message_id: "<abc123@mail.example>" });
    await first;
    const again = { ...confirmation, to: "User@Example.com", event_id: "evt_3" };
    expect(await two.attempt(again)).toMatchObject({
      status: "done",
      replayed: true,
      result: { message_id: "<abc123@mail.example>" },
    });
    expect(mails).toBe(1);
    expect(events.filter(({ type }) => type === "conflict")).toEqual([]);
    // A bounce names the message: that leads back to the order.
    expect(await nt.find({ providerId: "abc123@mail.example" })).toMatchObject([{ input: { order: "order_4821" } }]);
  });

  it("S3 O5 O6 O7: taken and answered with a 5xx: with keys it is sent again under the same key, and is one mail", async () => {
    const provider = await startProvider();
    const { nt } = open();
    const send = nt.action("order_confirmation", {
      ...options(({ order, to }, key) => provider.send({ order, to }, key)),
      doubt: { resendWithin: "23h" as const },
      retry: { backoff: 5 },
    });
    provider.plan("500-after-effect", "drop-after-effect");
    expect(await send(confirmation)).toEqual({ id: "msg_1" });
    expect([provider.effects.length, new Set(provider.requests.map(({ key }) => key)).size]).toEqual([1, 1]);
  });

  it("S3 O4 O5: a lock is released where the mail surely was not sent, and only there", async () => {
    const provider = await startProvider({ honoursKeys: false });
    const { nt } = open();
    let url = await closedPort();
    const send = nt.action("order_confirmation", {
      ...options((input, key) => post(url, input, key)),
      retry: { attempts: 1 },
    });
    // Refused connections: nothing is suppressed, the next call sends.
    expect(await send.attempt(confirmation)).toMatchObject({ status: "failed", final: false });
    url = provider.url;
    expect(await send(confirmation)).toEqual({ id: "msg_1" });
    // Taken, and answered by an error: released, it would go out again.
    provider.plan("500-after-effect");
    const other = { ...confirmation, order: "order_4822" };
    expect(await send.attempt(other)).toMatchObject({ status: "unknown" });
    expect(await send.attempt(other)).toMatchObject({ status: "unknown" });
    expect(provider.effects).toHaveLength(2);
  });

  it("S3 O8 O13: retention: a week for transactional mail, a day for what is frequent, two intervals for what is scheduled", async () => {
    const { nt, clock } = open();
    const count = { order_confirmation: 0, price_alert: 0, weekly_report: 0 };
    type Name = keyof typeof count;
    const make = (name: Name, keep: "7d" | "24h" | number) =>
      nt.action(name, { key: ["id"], keep, run: async (_input: { id: string }) => ++count[name] });
    const mails = {
      order_confirmation: make("order_confirmation", keepFor.transactional),
      price_alert: make("price_alert", keepFor.frequent),
      weekly_report: make("weekly_report", keepFor.scheduled("7d")),
    };
    const all = async () => {
      for (const send of Object.values(mails)) await send({ id: "a" });
      return { ...count };
    };
    expect(await all()).toEqual({ order_confirmation: 1, price_alert: 1, weekly_report: 1 });
    clock.advance(DAY - 60_000);
    expect(await all()).toEqual({ order_confirmation: 1, price_alert: 1, weekly_report: 1 });
    clock.advance(120_000);
    expect(await all()).toEqual({ order_confirmation: 1, price_alert: 2, weekly_report: 1 });
    clock.advance(6 * DAY);
    expect(await all()).toEqual({ order_confirmation: 2, price_alert: 3, weekly_report: 1 });
    clock.advance(7 * DAY);
    expect(await all()).toMatchObject({ weekly_report: 2 });
  });
});
