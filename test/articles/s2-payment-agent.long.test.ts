/**
 * S2: a payment agent on the Claude Agent SDK, as its author would meet it at 3 AM. Payments go through an outbox in PostgreSQL,
 * in one transaction with the author's own row; receipts go out directly, guarded in Redis with a fallback for the night on
 * which Redis is gone. The SDK's CLI, PostgreSQL and Redis are real, the providers speak HTTP; only the model is a script.
 */
import { rmSync } from "node:fs";
import { Redis } from "ioredis";
import { amount, type EngineEvent, email, type Nevertwice, nevertwice, type Store } from "nevertwice";
import { guardTool, statusTool } from "nevertwice/agents";
import { claudeGuard } from "nevertwice/agents/claude-agent-sdk";
import { redisStore } from "nevertwice/redis";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { agentHome, session } from "../agents/lib/agents/payment.mjs";
import { flushableRedisDb, freshDatabase } from "../services/addresses.ts";
import { proxyTo } from "../services/on-demand.ts";
import { until } from "../support/gate.ts";
import { type Provider, startProvider } from "../support/provider.ts";

const { url: postgres } = await freshDatabase();
const redis = await flushableRedisDb();
const pool = new pg.Pool({ connectionString: postgres, max: 4 });
await pool.query("CREATE TABLE payments (invoice_id TEXT NOT NULL, amount TEXT NOT NULL)");
afterAll(() => pool.end());

interface Charge {
  readonly customer_id: string;
  readonly amount_jpy: number | string;
  readonly invoice_id: string;
  readonly memo: string;
}

interface Receipt {
  readonly to: string;
  readonly invoice_id: string;
  readonly body: string;
}

const invoice = (id: string, memo = "June"): Charge => ({
  customer_id: "cus_001",
  amount_jpy: 2480,
  invoice_id: id,
  memo,
});

function open(store: string | Store): { nt: Nevertwice; events: EngineEvent[] } {
  const nt = nevertwice({ store, sweep: false, agent: "payment-agent", onWarning: () => {} });
  const events: EngineEvent[] = [];
  nt.on((event) => events.push(event));
  onTestFinished(() => nt.close());
  return { nt, events };
}

/** The author's tool: it records what is to be done, beside a row of its own, and leaves the charge to a worker. */
function payments(stripe: Provider) {
  const { nt, events } = open(postgres);
  const charge = nt.action<Charge, { id: string }>("stripe_charge", {
    effect: "payment",
    key: { customer_id: true, invoice_id: true, amount_jpy: amount("JPY") },
    free: ["memo"],
    doubt: { resendWithin: "23h" },
    retry: { backoff: 5 },
    run: ({ amount_jpy, invoice_id }, { key }) => stripe.send({ amount: Number(amount_jpy), invoice_id }, key),
  });
  /** `crash`: the process dies after the writes, before the commit. */
  const tool = async (input: Charge, scope: string, { crash = false } = {}) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const { created, state } = await charge.enqueue(input, { scope, tx: client });
      if (created) await client.query("INSERT INTO payments VALUES ($1, $2)", [input.invoice_id, input.amount_jpy]);
      await client.query(crash ? "ROLLBACK" : "COMMIT");
      return created ? { status: "enqueued" } : { status: "already_enqueued", state };
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
  return { nt, events, charge, tool };
}

const RECEIPT = {
  effect: "notification",
  key: { to: email, invoice_id: true },
  free: ["body"],
  whenStoreDown: "run",
} as const;

const rows = async (id: string) =>
  (await pool.query("SELECT count(*)::int AS n FROM payments WHERE invoice_id = $1", [id])).rows[0].n;

const last = (told: readonly string[]) => told[told.length - 1];

it("S2 A3: the SDK calls twice, the session is resumed, the model words it anew: one charge, one row, one receipt", async () => {
  const stripe = await startProvider();
  const mail = await startProvider({ honoursKeys: false });
  const { nt, tool } = payments(stripe);
  const receipts = open(redis);
  const guard = claudeGuard(receipts.nt, { tools: { send_receipt: RECEIPT } });
  const home = agentHome();
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
  // Issued by the caller that starts the agent: a session's own id is not known before it runs.
  const scope = "sess_2026_06_14";
  const world = {
    home,
    guard,
    charge: (input: Charge) => tool(input, scope),
    receipt: (input: Receipt) => mail.send(input, ""),
  };
  const receipt = (to: string, body: string) => ["send_receipt", { to, invoice_id: "inv_555", body }] as const;
  const first = await session({
    ...world,
    turns: [
      [
        ["charge_payment", invoice("inv_555")],
        ["charge_payment", { memo: "again", amount_jpy: "2480", invoice_id: "inv_555", customer_id: "cus_001" }],
      ],
      [receipt("ann@example.com", "Thank you!")],
    ],
  });
  expect(
    first.told
      .slice(0, 2)
      .map((one) => /already_enqueued|enqueued/.exec(one)?.[0])
      .sort(),
  ).toEqual(["already_enqueued", "enqueued"]);
  // Stripe takes it, and the answer is lost: the worker sends the same bytes under the same key.
  stripe.plan("drop-after-effect");
  await until(async () => (await nt.worker().drain()) && stripe.requests.length >= 2, "the charge's second request");
  // The host restarts, and the resumed model takes what it did for not done.
  const resumed = await session({
    ...world,
    resume: first.id,
    turns: [[["charge_payment", invoice("inv_555", "once more")]], [receipt(" Ann@Example.com", "Thanks!")]],
  });
  expect(resumed.told[0]).toMatch(/already_enqueued.*confirmed/);
  expect(last(resumed.told)).toMatch(/Already done at .*Your body differs/);
  await nt.worker().drain();
  expect([stripe.effects.length, await rows("inv_555"), mail.effects.length]).toEqual([1, 1, 1]);
  expect(new Set(stripe.requests.map(({ key, body }) => `${key} ${body}`)).size).toBe(1);
});

describe("S2 B1: the transaction of the author's row", () => {
  it("S2 B1: a crash before the commit leaves neither row nor charge; three parallel calls leave one of each", async () => {
    const stripe = await startProvider();
    const { nt, tool } = payments(stripe);
    await tool(invoice("inv_556"), "sess_1", { crash: true });
    await nt.worker().drain();
    expect([await rows("inv_556"), stripe.effects.length]).toEqual([0, 0]);
    await Promise.all(["a", "b", "c"].map((memo) => tool(invoice("inv_556", memo), "sess_1")));
    await nt.worker().drain();
    expect([await rows("inv_556"), stripe.effects.length]).toEqual([1, 1]);
  });
});

describe("S2 K7 K8: the model is told to redo what failed, and varies its arguments", () => {
  it("S2 K8: another spelling of the amount is the same charge; another amount is a conflict, counted, and nothing runs", async () => {
    const stripe = await startProvider();
    const { nt, charge } = payments(stripe);
    const scope = "sess_2";
    for (const amount_jpy of [2480, "2480", "JPY 2480", " 2480 "])
      await charge({ ...invoice("inv_557"), amount_jpy }, { scope });
    expect(stripe.effects).toHaveLength(1);
    // Its own amount is in the key: another amount would be another charge. So the author guards the invoice by itself.
    const events: EngineEvent[] = [];
    nt.on((event) => events.push(event));
    const guarded = guardTool(
      nt,
      { name: "charge_invoice", effect: "payment", scope: (call: string) => call, key: ["invoice_id"], free: ["memo"] },
      (input: Charge) => stripe.send(input, "inv_558"),
    );
    await guarded(invoice("inv_558"), scope);
    const answer = await guarded.answer({ ...invoice("inv_558"), amount_jpy: 2840 }, scope);
    expect(answer).toMatchObject({
      kind: "refused",
      text: expect.stringMatching(/Refused, and nothing was done: .*amount_jpy/),
    });
    expect(events.filter(({ type }) => type === "conflict")).toHaveLength(1);
    expect(stripe.effects).toHaveLength(2);
  });

  it("S2 K7: two operations that come to one key are noticed, not taken for a repeat", async () => {
    const { nt, events } = open(postgres);
    const done: string[] = [];
    // A normalisation that drops what tells them apart.
    const key = ({ order }: { order: string }) => [order.replace(/-.*/, "")];
    const refund = nt.action("refund", {
      effect: "payment",
      key,
      run: async (i: { order: string }) => done.push(i.order),
    });
    await refund({ order: "A-1" });
    expect(await refund.attempt({ order: "A-2" })).toMatchObject({ status: "conflict", differs: ["order"] });
    expect([done, events.filter(({ type }) => type === "conflict").length]).toEqual([["A-1"], 1]);
  });
});

describe("S2 O5 A4: nobody knows whether it was charged", () => {
  it("S2 O5: an acquirer without keys: nudged again and again, it is charged once; the model looks, a person settles", async () => {
    const acquirer = await startProvider({ honoursKeys: false });
    const { nt } = open(postgres);
    const status = statusTool(nt);
    const charge = guardTool(
      nt,
      {
        name: "charge_card",
        effect: "payment",
        scope: (call: string) => call,
        key: ["invoice_id"],
        free: ["memo"],
        statusTool: status.name,
      },
      (input: Charge) => acquirer.send(input, ""),
    );
    acquirer.plan("500-after-effect");
    const texts: string[] = [];
    for (const memo of ["June", "retry", "retry 2"]) {
      const answer = await charge.answer(invoice("inv_559", memo), "sess_3").catch((error: Error) => error);
      texts.push(answer instanceof Error ? answer.message : "text" in answer ? answer.text : "result");
    }
    expect(texts.slice(1).every((text) => /It may have happened all the same/.test(text))).toBe(true);
    const [reference = ""] = /nt1_[0-9a-v]{52}/.exec(texts[1] as string) ?? [];
    expect(await status.execute({ reference })).toMatch(/^It may have happened/);
    await nt.resolve(
      { key: reference },
      { as: "done", result: { id: "msg_1" }, by: "kim", reason: "in the acquirer's log" },
    );
    expect(await charge(invoice("inv_559", "retry 3"), "sess_3")).toEqual({ id: "msg_1" });
    expect(acquirer.effects).toHaveLength(1);
  });
});

describe("S2 O10 O15: Redis is gone", () => {
  it("S2 O15: receipts go on once each by the process's own memory, and are on record when Redis is back", async () => {
    const mail = await startProvider({ honoursKeys: false });
    const proxy = await proxyTo(redis);
    const send = (input: Receipt) => mail.send(input, "");
    // Gives up soon, as a client with a fallback does.
    const client = new Redis(proxy.url(redis), { maxRetriesPerRequest: 0, retryStrategy: () => 50 });
    client.on("error", () => {});
    onTestFinished(() => client.disconnect());
    const { nt, events } = open(redisStore({ client, timeoutMs: 1_000 }));
    const receipt = nt.action("receipt", { ...RECEIPT, run: send });
    const refund = nt.action("refund_card", { key: ["invoice_id"], run: send });
    await receipt({ to: "before@example.com", invoice_id: "inv_560", body: "" });
    proxy.set("reset");
    const input = { to: "ann@example.com", invoice_id: "inv_561", body: "Thank you!" };
    const answers = [
      await receipt.attempt(input),
      await receipt.attempt({ ...input, to: "Ann@example.com", body: "reworded" }),
      ...(await Promise.all([receipt.attempt(input), receipt.attempt(input)])),
    ];
    expect(answers.map((answer) => "replayed" in answer && answer.replayed)).toEqual([false, true, true, true]);
    expect(events.filter(({ type }) => type === "bypassed")).toHaveLength(1);
    // Money does not go on without its ledger: the default.
    expect(await refund(input).catch(({ code }) => code)).toBe("STORE_UNAVAILABLE");
    expect(mail.effects).toHaveLength(2);

    // Meanwhile another host sends one of them too: it has no way to know.
    const twice = { to: "bob@example.com", invoice_id: "inv_562", body: "Thank you!" };
    await receipt(twice);
    const elsewhere = open(redis);
    const there = elsewhere.nt.action("receipt", { ...RECEIPT, run: send });
    await there(twice);

    proxy.set("pass");
    // The breaker lets the first call through after a pause; from then on the ledger knows what was sent without it.
    await until(async () => {
      await receipt.status(input).catch(() => null);
      return (await there.status(input)).status === "done";
    }, "the receipt is on record");
    expect(await there.attempt({ ...input, body: "again" })).toMatchObject({ status: "done", replayed: true });
    await until(async () => {
      await receipt.status(twice).catch(() => null);
      return events.some(({ type }) => type === "duplicate_detected");
    }, "the double send is detected");
    expect(mail.effects).toHaveLength(4);
    expect(await refund(input)).toEqual({ id: "msg_5" });
  });
});
