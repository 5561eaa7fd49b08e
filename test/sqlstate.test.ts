/** SQLSTATE: what a database that refused says about the effect, from a real server by pg, postgres.js and supabase-js. */
import { createClient } from "@supabase/supabase-js";
import { type Nevertwice, nevertwice } from "nevertwice";
import { guardTool, toolMemory } from "nevertwice/agents";
import { postgresStore } from "nevertwice/postgres";
import pg from "pg";
import postgres from "postgres";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { freshDatabase } from "./services/addresses.ts";
import { gate } from "./support/gate.ts";
import { startPostgrest, supabaseRoles } from "./support/postgrest.ts";
import { startProvider } from "./support/provider.ts";

const database = await freshDatabase();
await supabaseRoles(database.adminUrl);
const api = await startPostgrest(database.adminUrl);
const supabase = createClient(api.url, api.keys.service_role, {
  auth: { persistSession: false, autoRefreshToken: false },
});
const pool = new pg.Pool({ connectionString: database.adminUrl, max: 8 });
const sql = postgres(database.adminUrl, { max: 4, onnotice: () => {} });
await pool.query(`
  CREATE TABLE charges (key text PRIMARY KEY, cents integer NOT NULL CHECK (cents > 0));
  GRANT ALL ON charges TO service_role;
  -- Refuses the first rows with the given SQLSTATE, then takes them: what a busy or a starting server does.
  CREATE TABLE refusals (state text);
  GRANT ALL ON refusals TO service_role;
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE next text;
  BEGIN
    SELECT state INTO next FROM refusals LIMIT 1;
    IF next IS NOT NULL THEN RAISE EXCEPTION 'not now' USING ERRCODE = next; END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION refuse()`);
afterAll(async () => {
  await sql.end();
  await pool.end();
});
beforeEach(() => pool.query("TRUNCATE charges, refusals"));

interface Charge {
  readonly key: string;
  readonly cents: number;
}

const INSERT = "INSERT INTO charges (key, cents) VALUES ($1, $2) RETURNING key, cents";

/** Each way to write the row. supabase-js returns its errors. */
const WAYS: Readonly<Record<string, (row: Charge) => Promise<unknown>>> = {
  pg: async ({ key, cents }) => (await pool.query(INSERT, [key, cents])).rows[0],
  "postgres.js": async ({ key, cents }) => (await sql.unsafe(INSERT, [key, cents]))[0],
  "supabase-js, its answer returned": async (row) => supabase.from("charges").insert(row).select(),
  "supabase-js, throwOnError": async (row) => (await supabase.from("charges").insert(row).select().throwOnError()).data,
  "supabase-js, error thrown by hand": async (row) => {
    const { data, error } = await supabase.from("charges").insert(row).select();
    if (error) throw error;
    return data;
  },
};

const warned: string[] = [];
function open(): Nevertwice {
  warned.length = 0;
  const nt = nevertwice({ store: "memory:", sweep: false, onWarning: ({ code }) => void warned.push(code) });
  onTestFinished(() => nt.close());
  return nt;
}

const rows = async () => (await pool.query("SELECT key, cents FROM charges ORDER BY key")).rows as Charge[];
const there = async (_: unknown, { key }: Charge) =>
  (await pool.query("SELECT key, cents FROM charges WHERE key = $1", [key])).rows[0] as Charge | undefined;

describe.each(Object.entries(WAYS))("SQLSTATE by %s", (_, write) => {
  it.each(["40001", "40P01", "57P03", "53300", "55P03"])(
    "%s is surely not sent: tried again, and done when the server takes it",
    async (state) => {
      const nt = open();
      await pool.query("INSERT INTO refusals VALUES ($1)", [state]);
      const charge = nt.action("charge", { key: ["key"], wait: 0, run: write });
      const first = await charge.attempt({ key: "a", cents: 5 });
      expect(first).toMatchObject({ status: "failed", final: false, retryAt: expect.any(Number) });
      await pool.query("TRUNCATE refusals");
      expect(await charge.attempt({ key: "a", cents: 5 }, { wait: "20s" })).toMatchObject({ status: "done" });
      expect(await rows()).toEqual([{ key: "a", cents: 5 }]);
    },
  );

  it("23514: a constraint refuses and says which; not tried again by itself, and the corrected call runs", async () => {
    const nt = open();
    const charge = nt.action("charge", { key: ["key"], run: write });
    const first = await charge.attempt({ key: "a", cents: -5 });
    expect(first).toMatchObject({ status: "failed", final: false });
    expect(first).not.toHaveProperty("retryAt");
    expect(first.status === "failed" && (first.error as Error).message).toContain("charges_cents_check");
    expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "done" });
  });

  it("22P02 and 42703: a statement that is wrong is refused, and may be called again after it was mended", async () => {
    const nt = open();
    const charge = nt.action("charge", { key: ["key"], run: write });
    const wrong = { key: "a", cents: "many" } as unknown as Charge;
    expect(await charge.attempt(wrong)).toMatchObject({ status: "failed", final: false });
  });

  it("23505 without exists: refused, and the warning names the option", async () => {
    const nt = open();
    await write({ key: "a", cents: 5 });
    const charge = nt.action("charge", { key: ["key"], run: write });
    expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "failed", final: false });
    expect(warned).toEqual(["ROW_EXISTS"]);
  });

  it("23505 with exists: done with the row that is there, for every later call too", async () => {
    const nt = open();
    await write({ key: "a", cents: 5 });
    const charge = nt.action("charge", { key: ["key"], run: write, exists: there as never });
    expect(await charge({ key: "a", cents: 5 })).toEqual({ key: "a", cents: 5 });
    expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "done", replayed: true });
    expect(warned).toEqual([]);
  });

  it("exists that answers undefined: the violation is about another row, and is refused", async () => {
    const nt = open();
    await write({ key: "a", cents: 5 });
    const charge = nt.action("charge", { key: ["key"], run: write, exists: () => undefined });
    expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "failed", final: false });
  });

  it("exists that throws: nothing was written, and the next call asks again", async () => {
    const nt = open();
    await write({ key: "a", cents: 5 });
    let asked = 0;
    const exists = async () => {
      asked += 1;
      if (asked === 1) throw new Error("no connection");
      return { found: true };
    };
    const charge = nt.action("charge", { key: ["key"], wait: 0, run: write, exists });
    const first = await charge.attempt({ key: "a", cents: 5 });
    expect(first).toMatchObject({ status: "failed", final: false });
    expect(String(first.status === "failed" && first.error)).toContain("exists could not read it: no connection");
    expect(await charge.attempt({ key: "a", cents: 5 }, { wait: "20s" })).toMatchObject({ result: { found: true } });
  });

  it("an effect by HTTP in the same run: what the database says is no word about it, and nothing is sent twice", async () => {
    const nt = open();
    const provider = await startProvider({ honoursKeys: false });
    for (const state of ["40001", "23505"]) {
      await pool.query("TRUNCATE refusals");
      await pool.query("INSERT INTO refusals VALUES ($1)", [state]);
      const pay = nt.action(`pay_${state}`, {
        key: ["key"],
        run: async (row: Charge, ctx) => {
          await provider.send(row, ctx.key);
          return write(row);
        },
      });
      expect(await pay.attempt({ key: "a", cents: 5 })).toMatchObject({
        status: "unknown",
        why: `SQLSTATE ${state}, but the attempt also made an HTTP request, about which a database says nothing`,
      });
      expect(await pay.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "unknown" });
    }
    expect(provider.effects).toHaveLength(2);
  });

  it("in once() and in a step of a run", async () => {
    const nt = open();
    const write5 = (key: string) => () => write({ key, cents: 5 });
    const bad = () => write({ key: "x", cents: -5 });
    await expect(nt.once("charge", ["x"], bad)).rejects.toThrow(/charges_cents_check/);
    await write({ key: "b", cents: 5 });
    expect(await nt.once("charge", ["b"], write5("b"), { exists: () => "there" })).toBe("there");
    const body = () =>
      nt.run("order", 1, async (run) => {
        await run.step("a", write5("a"));
        return run.step("b", write5("b"), { exists: () => "there" });
      });
    expect(await body()).toBe("there");
    await expect(nt.run("order", 2, (run) => run.step("bad", bad))).rejects.toThrow(/charges_cents_check/);
  });
});

it("SQLSTATE 40001 and 40P01 as a busy server gives them: tried again within the call, each row once", async () => {
  const nt = open();
  await pool.query("INSERT INTO charges VALUES ('total', 1), ('other', 1)");
  const met = gate();
  let arrived = 0;
  const states: unknown[] = [];
  /** Two transactions that read what the other writes, or lock in opposite order. */
  const run = async ({ first, second, level }: { first: string; second: string; level: string }) => {
    const client = await pool.connect();
    try {
      await client.query(`BEGIN ISOLATION LEVEL ${level}`);
      await client.query("UPDATE charges SET cents = cents + 1 WHERE key = $1", [first]);
      await client.query("SELECT sum(cents) FROM charges");
      arrived += 1;
      if (arrived === 2) met.open();
      await met.opened;
      await client.query("UPDATE charges SET cents = cents + 1 WHERE key = $1", [second]);
      await client.query("COMMIT");
      return arrived;
    } catch (error) {
      states.push((error as { code: string }).code);
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
  const move = nt.action("move", { key: ["first", "level"], wait: "30s", retry: { backoff: "5ms" }, run });
  for (const level of ["READ COMMITTED", "SERIALIZABLE"]) {
    arrived = 0;
    await Promise.all([
      move({ first: "total", second: "other", level }),
      move({ first: "other", second: "total", level }),
    ]);
  }
  expect(states).toContain("40P01");
  expect(await rows()).toEqual([
    { key: "other", cents: 5 },
    { key: "total", cents: 5 },
  ]);
});

it("SQLSTATE: an HTTP request before ctx.sent() is no effect, and one that only reads is none either", async () => {
  const nt = open();
  const provider = await startProvider();
  await pool.query("INSERT INTO refusals VALUES ('40001')");
  const charge = nt.action("charge", {
    key: ["key"],
    wait: 0,
    mark: "manual",
    run: async (row: Charge, ctx) => {
      await provider.send("prices", "k");
      await ctx.sent();
      await fetch(provider.url, { method: "GET" }).then((answer) => answer.text());
      return WAYS.pg?.(row);
    },
  });
  expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "failed", final: false });
});

it("SQLSTATE with mark: manual: a row that is there counts, also where the violation comes before ctx.sent()", async () => {
  const nt = open();
  await WAYS.pg?.({ key: "a", cents: 5 });
  const charge = nt.action("charge", {
    key: ["key"],
    mark: "manual",
    run: async (row: Charge) => (await WAYS.pg?.(row)) as Charge,
    exists: there,
  });
  expect(await charge({ key: "a", cents: 5 })).toEqual({ key: "a", cents: 5 });
});

it("SQLSTATE: after an attempt in doubt, a unique violation is no proof that nothing happened", async () => {
  const nt = open();
  let runs = 0;
  const charge = nt.action("charge", {
    key: ["key"],
    doubt: "retry",
    retry: { backoff: "1ms" },
    run: async (row: Charge) => {
      const written = await WAYS.pg?.(row);
      runs += 1;
      if (runs === 1) throw new Error("the connection broke after the commit");
      return written;
    },
  });
  expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "unknown" });
});

it("SQLSTATE O13: a mail or a payment is no row: what a database says after it is doubt, unless exists says that the row is it", async () => {
  const nt = open();
  const mails: string[] = [];
  for (const effect of ["mail", "payment", "post"] as const) {
    for (const [at, state] of ["40001", "23505"].entries()) {
      await pool.query("TRUNCATE refusals");
      await pool.query("INSERT INTO refusals VALUES ($1)", [state]);
      const send = nt.action(`${effect}_${at}`, {
        key: ["key"],
        effect,
        doubt: "hold",
        run: async (row: Charge) => {
          mails.push(row.key); // by SMTP, which nobody sees
          return WAYS.pg?.(row);
        },
      });
      expect(await send.attempt({ key: `${effect}${at}`, cents: 5 })).toMatchObject({ status: "unknown" });
    }
  }
  expect(mails).toHaveLength(6);
  expect(warned.filter((code) => code === "ROW_EXISTS")).toEqual([]);
});

it("SQLSTATE in a job: its effects are those of the calls in it, so a constraint does not end the slot for good", async () => {
  const nt = open();
  const nightly = nt.job("nightly", { every: "1d", run: () => WAYS.pg?.({ key: "a", cents: -5 }) });
  const [slot] = await nightly.tick();
  expect(slot?.outcome).not.toMatchObject({ status: "failed", final: true });
});

it("SQLSTATE with tx: exists reads after the rollback to the savepoint, and the record commits with the caller", async () => {
  const nt = nevertwice({ store: postgresStore({ url: database.adminUrl, listen: false }), sweep: false });
  onTestFinished(() => nt.close());
  await WAYS.pg?.({ key: "a", cents: 5 });
  const client = await pool.connect();
  onTestFinished(() => client.release());
  const charge = nt.action("charge_tx", {
    key: ["key"],
    run: async ({ key, cents }: Charge) => (await client.query(INSERT, [key, cents])).rows[0] as Charge,
    exists: async (_, { key }) =>
      (await client.query("SELECT key, cents FROM charges WHERE key = $1", [key])).rows[0] as Charge | undefined,
  });
  await client.query("BEGIN");
  expect(await charge.attempt({ key: "a", cents: 5 }, { tx: client })).toMatchObject({
    status: "done",
    result: { key: "a", cents: 5 },
  });
  await client.query("INSERT INTO charges VALUES ('mine', 1)");
  await client.query("COMMIT");
  expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "done", replayed: true });
  expect(await rows()).toHaveLength(2);
});

describe("SQLSTATE: a failure that a client returns", () => {
  it("inside a transaction of the caller's: failed, and no record is left", async () => {
    const nt = nevertwice({ store: postgresStore({ url: database.adminUrl, listen: false }), sweep: false });
    onTestFinished(() => nt.close());
    const charge = nt.action("returned_tx", {
      key: ["key"],
      run: async (row: Charge) => supabase.from("charges").insert(row),
    });
    const client = await pool.connect();
    onTestFinished(() => client.release());
    await client.query("BEGIN");
    expect(await charge.attempt({ key: "a", cents: -5 }, { tx: client })).toMatchObject({ status: "failed" });
    await client.query("COMMIT");
    expect(await charge.status({ key: "a", cents: -5 })).toMatchObject({ status: "absent" });
  });

  it("with the service gone: a status that leaves it open is a doubt, PostgREST without a database is not sent", async () => {
    const nt = open();
    api.down(true);
    onTestFinished(() => api.down(false));
    const charge = nt.action("charge", {
      key: ["key"],
      wait: 0,
      run: async (row: Charge) => supabase.from("charges").insert(row),
    });
    expect(await charge.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "failed", final: false });
    const gone = { data: null, error: { message: "Bad gateway", code: "", details: "", hint: "" }, status: 502 };
    const other = nt.action("other", { key: ["key"], run: async (_: Charge) => gone });
    expect(await other.attempt({ key: "a", cents: 5 })).toMatchObject({ status: "unknown", why: "HTTP 502" });
  });

  it("of other clients: resend's rate limit is not sent, its refusal is refused, and what only resembles one is stored with a warning", async () => {
    const nt = open();
    const send = nt.action("send", {
      key: ["id"],
      wait: 0,
      run: async ({ answer }: { id: number; answer: unknown }) => answer,
    });
    const resend = (statusCode: number) => ({ data: null, error: { name: "some_error", message: "no", statusCode } });
    expect(await send.attempt({ id: 1, answer: resend(429) })).toHaveProperty("retryAt");
    const refused = await send.attempt({ id: 2, answer: resend(422) });
    expect(refused).toMatchObject({ status: "failed" });
    expect(refused).not.toHaveProperty("retryAt");
    expect(await send.attempt({ id: 3, answer: resend(500) })).toMatchObject({ status: "unknown" });
    expect(warned).toEqual([]);
    // Nothing says whether it was sent: held, and never done.
    const unreachable = { name: "application_error", statusCode: null, message: "Unable to fetch data" };
    for (const [at, error] of [unreachable, { code: "ECONNRESET", message: "reset" }, { message: "no" }].entries())
      expect(await send.attempt({ id: 20 + at, answer: { data: null, error } })).toMatchObject({ status: "unknown" });
    expect(warned.filter((code) => code === "RESULT_IS_ERROR")).toEqual([]);
    const unclear = { error: { message: "a word of one's own" } };
    expect(await send.attempt({ id: 4, answer: unclear })).toMatchObject({ status: "done" });
    expect(warned).toContain("RESULT_IS_ERROR");
    for (const [at, fine] of [
      { data: [1], error: null },
      { error: "none" },
      { data: 1, error: { message: "late" } },
    ].entries())
      expect(await send.attempt({ id: 10 + at, answer: fine })).toMatchObject({ status: "done" });
  });

  it.each(["a ledger", "memory"])(
    "of a guarded tool, with %s: the model reads the answer, it is not kept as done, and the corrected call runs",
    async (where) => {
      const nt = open();
      const memory = toolMemory({
        scope: "s",
        ...(where === "a ledger" && { nt, tools: { charge: { key: ["key"] } } }),
      });
      let runs = 0;
      const call = (row: Charge) =>
        memory.call("charge", row, () => {
          runs += 1;
          return supabase.from("charges").insert(row).select();
        });
      const refused = { kind: "result", result: { data: null, error: { code: "23514" } }, note: null };
      expect(await call({ key: "a", cents: -5 })).toMatchObject(refused);
      expect(await call({ key: "a", cents: -5 })).toMatchObject(refused);
      expect(await call({ key: "a", cents: 5 })).toMatchObject({ result: { error: null } });
      expect(runs).toBe(3);
      const notKept = await call({ key: "a", cents: 5 });
      expect(notKept).toMatchObject({ result: { data: [{ key: "a" }] } });
      expect(runs).toBe(3);
    },
  );

  it("of a guarded tool whose errors are answers: stored as it is, as the option says", async () => {
    const nt = open();
    const answer = { data: null, error: { message: "no", code: "23514", details: null, hint: null }, status: 400 };
    const lookUp = guardTool(
      nt,
      { name: "look_up", scope: null, key: ["id"], errors: "answer" },
      (_: { id: number }) => answer,
    );
    expect(await lookUp.answer({ id: 1 }, undefined)).toMatchObject({ kind: "result", note: null });
    expect(await lookUp.answer({ id: 1 }, undefined)).toMatchObject({ kind: "result", note: expect.any(String) });
  });
});
