/**
 * S1 on PostgreSQL, as its author would meet it at 3 AM: five patterns for agents that retry, played through the SQL functions
 * and supabase-js, with the faults that the patterns are for. The providers speak HTTP and honour no idempotency key.
 */
import { randomUUID } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { nevertwice } from "nevertwice";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "../services/addresses.ts";
import { CliLedger } from "../support/cli.ts";
import { startPostgrest, supabaseRoles } from "../support/postgrest.ts";
import { startProvider } from "../support/provider.ts";

const database = await freshDatabase();
await supabaseRoles(database.adminUrl);
const api = await startPostgrest(database.adminUrl);
const cli = new CliLedger();
const sql = new pg.Client({ connectionString: database.url });
await sql.connect();
afterAll(async () => {
  await sql.end();
  await cli.close();
});

beforeAll(async () => {
  expect(await cli.run(["migrate", "--functions", "--supabase", "--store", database.url])).toMatchObject({ code: 0 });
});

const supabase = createClient(api.url, api.keys.service_role, {
  auth: { persistSession: false, autoRefreshToken: false },
});

// biome-ignore lint/suspicious/noExplicitAny: an agent reads whatever the function answers
async function rpc(name: string, args: object): Promise<any> {
  const { data, error } = await supabase.rpc(`nevertwice_${name}`, args);
  if (error !== null) throw Object.assign(new Error(error.message), { code: error.code, details: error.details });
  return data;
}

const intents = async (action: string) =>
  (await sql.query("SELECT * FROM nevertwice.intents WHERE action = $1 ORDER BY created_at", [action])).rows;

/** What every one of the author's agents does: claim, act, say how it went. `dies`: right after the effect. */
async function act(action: string, parts: readonly unknown[], effect: () => Promise<unknown>, { dies = false } = {}) {
  const holder = randomUUID();
  if (!(await rpc("claim", { action, parts, holder, lease: "200 milliseconds" }))) return "skipped";
  try {
    const result = await effect();
    if (dies) return "dead";
    await rpc("settle_claim", { action, parts, holder, outcome: "done", result });
    return "done";
  } catch (error) {
    await rpc("settle_claim", { action, parts, holder, outcome: "unknown", error: String(error) });
    return "in doubt";
  }
}

describe("S1 D6: pattern 1, a key before the action", () => {
  it("S1 D6: an agent that ran twice charges once, and one that died after the charge is seen and settled by a person", async () => {
    const stripe = await startProvider({ honoursKeys: false });
    const charge = (id: string) => () => stripe.send({ charge: id }, id);
    // The task runner starts the agent four times at once.
    const outcomes = await Promise.all(Array.from({ length: 4 }, () => act("stripe_charge", ["ch_1"], charge("ch_1"))));
    expect(outcomes.sort()).toEqual(["done", "skipped", "skipped", "skipped"]);
    // The agent dies between the charge and the note of it; it is restarted again and again.
    expect(await act("stripe_charge", ["ch_2"], charge("ch_2"), { dies: true })).toBe("dead");
    await expect
      .poll(async () => (await rpc("status", { action: "stripe_charge", parts: ["ch_2"] })).status)
      .toBe("unknown");
    for (let restart = 0; restart < 3; restart += 1)
      expect(await act("stripe_charge", ["ch_2"], charge("ch_2"))).toBe("skipped");
    expect(stripe.effects.length).toBe(2);
    const [, doubt] = await intents("stripe_charge");
    expect(doubt).toMatchObject({ status: "unknown", attempts: 1, why: expect.stringMatching(/lease ran out/) });
    // The author looks at Stripe's dashboard, and says what is true.
    const resolved = await cli.run([
      "resolve",
      doubt.key,
      "--done",
      "--reason",
      "seen in the dashboard",
      "--store",
      database.url,
    ]);
    expect(resolved).toMatchObject({ code: 0 });
    expect((await intents("stripe_charge")).map(({ state }) => state)).toEqual(["confirmed", "confirmed"]);
  });
});

describe("S1 D6: pattern 2, Stripe's webhooks", () => {
  it("S1 D6 W1: five deliveries in a retry storm: one order, one mail, by one SQL function that is the outbox too", async () => {
    await sql.query(`CREATE TABLE public.orders (session_id text PRIMARY KEY, email text NOT NULL);
      CREATE FUNCTION public.checkout_completed(event jsonb) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
      BEGIN
        IF NOT nevertwice.claim('stripe_event', jsonb_build_array(event ->> 'id')) THEN
          RETURN 'already_processed';
        END IF;
        INSERT INTO public.orders VALUES (event #>> '{data,session}', event #>> '{data,email}');
        PERFORM nevertwice.enqueue('receipt', jsonb_build_array(event #>> '{data,session}'), event -> 'data');
        PERFORM nevertwice.settle_claim('stripe_event', jsonb_build_array(event ->> 'id'), 'done');
        RETURN 'processed';
      END $$`);
    const event = { id: "evt_1", data: { session: "cs_1", email: "ada@example.com" } };
    const deliver = async () => (await supabase.rpc("checkout_completed", { event })).data;
    const answers = await Promise.all(Array.from({ length: 5 }, deliver));
    expect(answers.sort()).toEqual([...Array.from({ length: 4 }, () => "already_processed"), "processed"]);
    // A handler that fails in its midst leaves nothing behind, and the next delivery does it all.
    const bad = { id: "evt_2", data: { session: "cs_2", email: null } };
    expect((await supabase.rpc("checkout_completed", { event: bad })).error).toMatchObject({ code: "23502" });
    const good = { ...bad, data: { session: "cs_2", email: "bob@example.com" } };
    expect((await supabase.rpc("checkout_completed", { event: good })).data).toBe("processed");
    // The worker on the side sends the receipts, once each.
    const mail = await startProvider({ honoursKeys: false });
    const nt = nevertwice({ store: database.url, sweep: false });
    onTestFinished(() => nt.close());
    nt.action("receipt", {
      key: ["session"],
      run: (order: { session: string; email: string }, ctx) => mail.send(order, ctx.key),
    });
    await nt.worker().drain();
    await deliver();
    await nt.worker().drain();
    expect(mail.effects.map((body) => JSON.parse(body).email).sort()).toEqual(["ada@example.com", "bob@example.com"]);
    expect((await sql.query("SELECT count(*)::int FROM public.orders")).rows).toEqual([{ count: 2 }]);
  });
});

describe("S1 D6: pattern 3, steps of a mail sequence", () => {
  it("S1 D6: two instances, and a send that timed out although it arrived: each step goes out once", async () => {
    const smtp = await startProvider({ honoursKeys: false });
    const step = (subscriber: string, name: string) =>
      act("email_send", [subscriber, name], () => smtp.send({ subscriber, name }, ""));
    expect((await Promise.all([step("s1", "welcome"), step("s1", "welcome")])).sort()).toEqual(["done", "skipped"]);
    smtp.plan("drop-after-effect");
    expect(await step("s2", "welcome")).toBe("in doubt");
    expect(await step("s2", "welcome")).toBe("skipped");
    expect(await step("s2", "social_proof")).toBe("done");
    expect(smtp.effects.map((body) => Object.values(JSON.parse(body)).join(" "))).toEqual([
      "s1 welcome",
      "s2 welcome",
      "s2 social_proof",
    ]);
    const states = (await intents("email_send")).map(({ state, attempts }) => `${state} ${attempts}`);
    expect(states).toEqual(["confirmed 1", "unknown 1", "confirmed 1"]);
  });
});

describe("S1 D6: pattern 4, a log of actions that can be resumed", () => {
  it("S1 D6: a run that crashed goes on where it stood, with the results of its finished steps; a failed step runs again", async () => {
    const called: string[] = [];
    let enrichIsDown = true;
    const steps: Record<string, (before: unknown) => Promise<unknown>> = {
      source_lead: async () => ({ lead: "ada" }),
      enrich_lead: async (before) => {
        if (enrichIsDown) throw new Error("503");
        return { ...(before as object), company: "Engines" };
      },
      send_email: async () => ({ id: "m-1" }),
    };
    /** The author's execute_or_resume. */
    const resume = async (run: string, name: string, before: unknown) => {
      const [parts, holder] = [[name], randomUUID()];
      const found = await rpc("try_claim", { action: "agent_run", parts, scope: run, holder, lease: "1 minute" });
      if (found.status === "done") return found.result;
      expect(found.status).toBe("claimed");
      called.push(name);
      const settle = (how: object) => rpc("settle", { key: found.key, holder, fence: found.fence, ...how });
      try {
        const result = await steps[name]?.(before);
        await settle({ outcome: "done", result });
        return result;
      } catch (error) {
        await settle({ outcome: "not-sent", error: String(error) });
        throw error;
      }
    };
    const workflow = async (run: string) => {
      let result: unknown = null;
      for (const name of Object.keys(steps)) result = await resume(run, name, result);
      return result;
    };
    await expect(workflow("run-7")).rejects.toThrow("503");
    enrichIsDown = false;
    expect(await workflow("run-7")).toEqual({ id: "m-1" });
    expect(await workflow("run-7")).toEqual({ id: "m-1" });
    expect(called).toEqual(["source_lead", "enrich_lead", "enrich_lead", "send_email"]);
    const log = (await intents("agent_run")).map(({ scope, state, attempts, result }) => ({
      scope,
      state,
      attempts,
      result,
    }));
    expect(log[1]).toEqual({
      scope: "run-7",
      state: "confirmed",
      attempts: 2,
      result: { lead: "ada", company: "Engines" },
    });
  });
});

describe("S1 D6: pattern 5, a queue for concurrent agents", () => {
  it("S1 D6 B5: no item is handed out twice, the oldest goes first, and what a dead agent held is in doubt, not done again", async () => {
    const items = Array.from({ length: 20 }, (_, id) => id);
    for (const id of items) await rpc("enqueue", { action: "work_item", parts: [id], payload: { id } });
    const done: number[] = [];
    const agent = async (dies: boolean) => {
      for (;;) {
        const [job] = await rpc("take", { actions: ["work_item"], lease: dies ? "50 milliseconds" : "1 minute" });
        if (job === undefined) return;
        done.push(job.payload.id);
        if (dies) return;
        await rpc("settle", { key: job.key, holder: job.holder, fence: job.fence, outcome: "done" });
      }
    };
    await agent(true);
    expect(done).toEqual([0]);
    await Promise.all(Array.from({ length: 4 }, () => agent(false)));
    expect([...done].sort((a, b) => a - b)).toEqual(items);
    // pg_cron calls this every minute.
    await expect.poll(async () => (await sql.query("SELECT nevertwice.sweep() AS it")).rows[0].it.unknown).toBe(1);
    const counts = await sql.query(
      "SELECT state, count(*)::int FROM nevertwice.intents WHERE action = 'work_item' GROUP BY 1 ORDER BY 1",
    );
    expect(counts.rows).toEqual([
      { state: "confirmed", count: 19 },
      { state: "unknown", count: 1 },
    ]);
  });
});
