// What careful users write by hand on PostgreSQL: one statement and one commit each, or the same coalesced in a loop.
import { createHash, randomUUID } from "node:crypto";
import pg from "pg";
import { keyByHand } from "./key-by-hand.mjs";

const TABLE = `CREATE TABLE IF NOT EXISTS done (
  key text PRIMARY KEY, state text NOT NULL, result text, created_at timestamptz NOT NULL DEFAULT now())`;

/** Claim by INSERT … ON CONFLICT, run, UPDATE; statements prepared, on a pool of `connections`. */
export async function handWritten(connectionString, { connections }) {
  const pool = new pg.Pool({ connectionString, max: connections });
  await pool.query(TABLE);
  const claim = "INSERT INTO done (key, state) VALUES ($1, 'claimed') ON CONFLICT (key) DO NOTHING";
  const settle = "UPDATE done SET state = 'done', result = $2 WHERE key = $1";
  return {
    async once(id, run) {
      const key = keyByHand(id);
      const { rowCount } = await pool.query({ name: "claim", text: claim, values: [key] });
      if (rowCount === 0) return JSON.parse((await read(pool, key)).result);
      const result = await run();
      await pool.query({ name: "settle", text: settle, values: [key, JSON.stringify(result)] });
      return result;
    },
    /** What a repeat cannot do without: one look at the key. */
    look: (id) => read(pool, keyByHand(id)),
    close: () => pool.end(),
  };
}

async function read(pool, key) {
  const text = "SELECT state, result FROM done WHERE key = $1";
  return (await pool.query({ name: "read", text, values: [key] })).rows[0];
}

const GUARDED = `CREATE TABLE IF NOT EXISTS guarded (
  key bytea PRIMARY KEY, tenant text NOT NULL, action text NOT NULL, fingerprint text NOT NULL, input text NOT NULL,
  created_at bigint NOT NULL, holder text, fence integer NOT NULL, lease_until bigint, state text NOT NULL, result text
) WITH (fillfactor = 45)`;

/**
 * The facts our records hold (digest of the key, fingerprint, input, holder, fence, lease), with callers of one tick
 * sharing a statement and a commit, and nothing else: no waiting, no doubt, no heartbeat, no bad rows.
 */
export async function coalescedLoop(connectionString, { rows, connections }) {
  const pool = new pg.Pool({ connectionString, max: connections });
  await pool.query(GUARDED);
  const column = (items, name) => items.map((item) => item[name]);
  const claims = batched({ rows, connections }, async (items) => {
    items.sort((a, b) => (a.key < b.key ? -1 : 1));
    const { rows: won } = await pool.query({
      name: "claims",
      text: `INSERT INTO guarded (key, tenant, action, fingerprint, input, created_at, holder, fence, lease_until, state)
SELECT decode(i.key, 'hex'), '', 'bench', i.print, i.input, $5::bigint, i.holder, 1, $5::bigint + 60000, 'sent'
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS i(key, print, input, holder)
ON CONFLICT (key) DO NOTHING RETURNING encode(key, 'hex') AS key`,
      values: [...["key", "print", "input", "holder"].map((name) => column(items, name)), Date.now()],
    });
    const winners = new Set(won.map(({ key }) => key));
    return items.map(({ key }) => winners.has(key));
  });
  const settles = batched({ rows, connections }, async (items) => {
    const { rowCount } = await pool.query({
      name: "settles",
      text: `UPDATE guarded g SET state = 'confirmed', lease_until = NULL, result = i.result
FROM unnest($1::text[], $2::text[], $3::text[]) AS i(key, holder, result)
WHERE g.key = decode(i.key, 'hex') AND g.holder = i.holder AND g.fence = 1`,
      values: ["key", "holder", "result"].map((name) => column(items, name)),
    });
    if (rowCount !== items.length) throw new Error("lost a lease");
    return items;
  });
  return {
    async once(id, run) {
      const input = JSON.stringify({ id });
      const key = createHash("sha256")
        .update(`["bench",${JSON.stringify(id)}]`)
        .digest("hex");
      const print = createHash("sha256").update(input).digest("base64url");
      const claim = { key, print, input, holder: randomUUID() };
      if (!(await claims(claim))) throw new Error("this loop knows no repeats");
      const result = await run();
      await settles({ ...claim, result: JSON.stringify(result) });
      return result;
    },
    close: () => pool.end(),
  };
}

function batched({ rows, connections }, flush) {
  let waiting = [];
  let underWay = 0;
  let scheduled = false;
  const schedule = () => {
    if (scheduled || waiting.length === 0 || underWay >= connections) return;
    scheduled = true;
    setImmediate(send);
  };
  const send = async () => {
    scheduled = false;
    const batch = waiting.slice(0, rows);
    waiting = waiting.slice(rows);
    underWay += 1;
    schedule();
    try {
      const answers = await flush(batch.map(({ item }) => item));
      for (const [i, { resolve }] of batch.entries()) resolve(answers[i]);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      underWay -= 1;
      schedule();
    }
  };
  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      schedule();
    });
}
