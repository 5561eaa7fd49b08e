/** D6: what the SQL functions make of a record is what core's state machine makes of it, step by step, over random histories. */
import { randomInt } from "node:crypto";
import { afterAll, describe, expect, it } from "vitest";
import { freshDatabase } from "../../../../test/services/addresses.ts";
import { CliLedger } from "../../../../test/support/cli.ts";
import { type SqlLedger, sqlLedger } from "../../../../test/support/sql-ledger.ts";
import { NOT_KNOWN } from "../../../core/earlier-input.ts";
import { differing, printInput, toFingerprint } from "../../../core/key/fingerprint.ts";
import { aliasRecord } from "../../../core/key/formerly.ts";
import { idIn, providerId } from "../../../core/provider-id.ts";
import { expired, type LedgerRecord } from "../../../core/record.ts";
import { givenUp, type NextTry, nextTry, resolveRetry } from "../../../core/retry.ts";
import type { Stored } from "../../../core/store.ts";
import {
  BEFORE_CORRECTION,
  type Change,
  INPUT_REPLACED,
  type Intent,
  type LedgerEvent,
  transition,
} from "../../../core/transition.ts";

const database = await freshDatabase();
const cli = new CliLedger();
afterAll(() => cli.close());

const LEASE_MS = 60_000;
const AGENTS = [null, "ada", "bob"];
const RETRY = resolveRetry(undefined, "model");
const OF_ANY = { of: { fingerprint: NOT_KNOWN, input: INPUT_REPLACED } };
/** As jsonb prints them. */
const RESULTS = ['{"id": 1}', '{"data": {"messageId": "<m-1@mail>"}}', '"msg_1"', '"two words"', "[1]", "null"];

const WANTED = [
  "none –claim→ sent",
  "none –enqueue→ pending",
  "pending –take now→ sent",
  "pending –take manual→ claimed",
  "claimed –sent→ sent",
  "sent –settle done→ confirmed",
  "sent –settle not-sent→ pending",
  "sent –settle rejected→ failed",
  "sent –settle unknown→ unknown",
  "sent –lapse→ unknown",
  "unknown –settle done→ confirmed",
  "failed –claim→ sent",
  "sent –settle not-sent→ failed",
  "sent –settle not-sent→ unknown",
  "claimed –settle not-sent→ pending",
  "failed –enqueue→ pending",
  "pending –claim→ sent",
  "unknown –resend→ sent",
  "unknown –resolve not-done→ pending",
  "failed for good –claim→ sent, corrected",
  "failed for good –enqueue→ pending, corrected",
  "queued –enqueue→ pending, corrected",
  "queued –claim→ sent, corrected",
  "none –claim→ sent, by an alias",
  "none –enqueue→ pending, by an alias",
  "sent –settle done→ sent, before its correction",
  "pending –settle done→ confirmed, before its correction",
  "begun anew, with another input",
  "sent –settle done→ confirmed, by an alias",
  "sent –settle not-sent→ pending, by an alias",
];

interface World {
  readonly ledger: SqlLedger;
  readonly store: ReturnType<SqlLedger["store"]>;
  readonly part: number;
  /** Of the record, and the action that it is recorded for. */
  readonly key: string;
  readonly action: string;
  /** Of the action and parts that SQL gives: the same, or an alias of it. */
  readonly called: string;
}

/** One call in SQL, and the event that it stands for; null: nothing may change. */
interface Step {
  readonly name: string;
  readonly sql: string;
  readonly values: readonly unknown[];
  event(before: LedgerRecord | null, after: LedgerRecord | null): LedgerEvent | null;
  /** An enqueue's deadline. */
  readonly until?: number | null;
}

/** When SQL wrote it. What is only known for longer has no new time, but for how long that is until its deadline. */
function writtenAt({ until = null }: Step, before: LedgerRecord | null, after: LedgerRecord): number {
  const { updatedAt, keepMs, history } = after;
  const said = history.at(-1);
  // Beside an attempt that goes on.
  if (said?.reason === BEFORE_CORRECTION && said.at !== before?.history.at(-1)?.at) return said.at;
  if (before?.updatedAt !== updatedAt) return updatedAt;
  const counted = until === null || keepMs === null ? updatedAt : until - keepMs;
  return Math.abs(counted - Date.now()) < 60_000 ? counted : updatedAt;
}

/** The least and the most that chance allows. */
function nextTries(record: LedgerRecord, now: number, retryAfterMs: number | null): readonly [NextTry, NextTry] {
  const at = (chance: number) => nextTry(RETRY, record, { now, retryAfterMs, random: () => chance });
  return [at(0), at(1)];
}

/** What SQL made of it, held to what core would do next. */
function notSentEvent(
  {
    hold,
    agent,
    retryAfterMs,
  }: { hold: { fence: number; holder: string }; agent: object; retryAfterMs: number | null },
  before: LedgerRecord | null,
  after: LedgerRecord | null,
): LedgerEvent {
  const error = { name: "Error", message: "smtp 421" };
  if (before === null || after === null) return { type: "not-sent", hold, error, retryAt: null, final: false };
  const [least, most] = nextTries(before, after.updatedAt, retryAfterMs);
  const { because, givesUpAt } = least;
  if (least.at !== null && before.state !== "pending" && after.state === "pending") {
    expect(after.dueAt).toBeGreaterThanOrEqual(least.at);
    expect(after.dueAt).toBeLessThanOrEqual(most.at ?? 0);
  }
  return {
    type: "not-sent",
    hold,
    error: givenUp(error, because),
    retryAt: least.at === null ? null : (after.dueAt ?? least.at),
    final: false,
    ...(givesUpAt !== undefined && { givesUpAt }),
    ...agent,
  };
}

const pick = <T>(of: readonly T[]): T => of[randomInt(of.length)] as T;

function intentOf(world: World, keepMs: number | null, agent: string | null, note: number): Intent {
  const input = { note, part: world.part };
  return {
    key: world.key,
    tenant: "",
    action: world.action,
    version: 1,
    scope: null,
    fingerprint: toFingerprint(printInput(input, [])),
    input: { json: JSON.stringify(input) },
    keepMs,
    agent,
  };
}

/** For a record that is there, no `keep` means that it stays; the library always gives one. */
const kept = (before: LedgerRecord | null, keepMs: number | null) =>
  keepMs === null && before !== null && !expired(before, Date.now()) ? before.keepMs : keepMs;

function nextStep(world: World, record: LedgerRecord | null): Step {
  const { called: key, part } = world;
  const parts = JSON.stringify([part]);
  const note = pick([1, 1, 2]);
  const payload = JSON.stringify({ note, part });
  const otherInput = (before: LedgerRecord | null) =>
    before !== null && differing(before.fingerprint, printInput({ note, part }, []), []).guarded.length > 0;
  const keepMs = pick([null, 86_400_000]);
  const keep = keepMs === null ? null : "1 day";
  const holder = pick([record?.holder ?? "nobody", record?.holder ?? "nobody", "nobody"]);
  const wasCorrected = record?.history.findLast(({ replaced }) => replaced !== undefined)?.replaced;
  const fence = pick([record?.fence ?? 0, wasCorrected?.to ?? (record?.fence ?? 0) - 1, 1, null]);
  const hold = { fence: fence ?? record?.fence ?? 0, holder };
  const error = { name: "Error", message: "smtp 421" };
  const agent = pick(AGENTS);
  // Nobody named: whoever it was until now.
  const by = agent === null ? {} : { agent };
  const until = pick([null, null, Date.now() + 600_000, Date.now() + 5 * 86_400_000]);
  const result = pick(RESULTS);
  const retryAfterMs = pick([null, null, 60_000, 10 * 86_400_000]);
  const settle = (outcome: string, event: Step["event"]): Step => ({
    name: `settle ${outcome}`,
    sql: "SELECT @.settle($1, $2, $3::jsonb, holder => $4, fence => $5, error => $6, retry_after => $7::interval, agent => $8)",
    values: [
      key,
      outcome,
      outcome === "done" ? result : null,
      holder,
      fence,
      outcome === "done" ? null : error.message,
      retryAfterMs === null ? null : `${retryAfterMs} milliseconds`,
      agent,
    ],
    event,
  });
  switch (
    pick([
      "claim",
      "claim",
      "enqueue",
      "enqueue",
      "take",
      "take",
      "take",
      "sent",
      "heartbeat",
      "done",
      "not-sent",
      "not-sent",
      "refused",
      "rejected",
      "unknown",
      "lapse",
      ...(wasCorrected ? ["done", "done", "done"] : []),
    ])
  ) {
    case "claim":
      return {
        name: "claim",
        sql: `SELECT @.try_claim('act', $1::jsonb, $2::jsonb, lease => '1 minute', keep => $3::interval, agent => $4)`,
        values: [parts, payload, keep, agent],
        event: (before, after) => ({
          type: "claim",
          intent: intentOf(world, kept(before, keepMs), agent, note),
          to: "sent",
          holder: after?.holder ?? "",
          leaseMs: LEASE_MS,
          newRound: true,
          otherInput: otherInput(before),
        }),
      };
    case "enqueue":
      return {
        name: "enqueue",
        until,
        sql: `SELECT @.enqueue('act', $1::jsonb, $2::jsonb, keep => $3::interval, priority => 2, agent => $4, expires_at => $5)`,
        values: [parts, payload, keep, agent, until === null ? null : new Date(until)],
        event: (before, after) => ({
          type: "enqueue",
          intent: { ...intentOf(world, kept(before, keepMs), agent, note), guardUntil: until },
          otherInput: otherInput(before),
          dueAt: after?.dueAt ?? 0,
          terms: { priority: 2, ...(until !== null && { notAfter: until }) },
          holder: after?.holder ?? "",
        }),
      };
    case "take": {
      const mark = pick(["now", "manual"]);
      return {
        name: `take ${mark}`,
        sql: "SELECT * FROM @.take('{act,was}', 1, '1 minute', $1)",
        values: [mark],
        event: (before, after) =>
          before === null || !before.queued || (before.state !== "pending" && before.state !== "claimed")
            ? null
            : {
                type: "claim",
                to: mark === "now" ? "sent" : "claimed",
                holder: after?.holder ?? "",
                leaseMs: LEASE_MS,
                newRound: false,
              },
      };
    }
    case "sent":
      return {
        name: "sent",
        sql: "SELECT @.sent($1, $2, $3, '1 minute')",
        values: [key, holder, fence],
        event: () => ({ type: "mark", hold, leaseMs: LEASE_MS, timeoutMs: 1, draft: null }),
      };
    case "heartbeat":
      return {
        name: "heartbeat",
        sql: "SELECT @.heartbeat($1, $2, $3, '1 minute')",
        values: [key, holder, fence],
        event: () => ({ type: "heartbeat", hold, leaseMs: LEASE_MS }),
      };
    case "lapse":
      return { name: "lapse", sql: "SELECT @.sweep()", values: [], event: () => ({ type: "lapse" }) };
    case "done":
      return settle("done", () => ({
        type: "confirm",
        hold,
        result: { json: result },
        providerId: providerId(idIn(JSON.parse(result)) ?? ""),
        ...by,
        // Without a fence, another holder's may be any attempt before.
        ...(fence === null && holder !== record?.holder && wasCorrected !== undefined && OF_ANY),
      }));
    case "unknown":
      return settle("unknown", () => ({
        type: "doubt",
        hold,
        why: "its caller could not tell whether it happened",
        error,
      }));
    case "not-sent":
      return settle("not-sent", (before, after) => notSentEvent({ hold, agent: by, retryAfterMs }, before, after));
    case "refused":
      return settle("refused", () => ({ type: "not-sent", hold, error, retryAt: null, final: false, ...by }));
    default:
      return settle("rejected", () => ({ type: "not-sent", hold, error, retryAt: null, final: true, ...by }));
  }
}

/** As a program writes it whose action was named otherwise before. */
function aliasOf({ key, action, called }: World): LedgerRecord {
  const now = Date.now();
  const name = { key: called, action: "act", tenant: "", scope: null, version: 1 };
  return aliasRecord(null, name, { key, action, record: null }, { now, steady: now, epoch: "" });
}

async function storedOf({ store, key }: World): Promise<Stored | null> {
  const [stored] = await store.read([key]);
  return stored ?? null;
}

/** Brings what waits for time about: leases end, and pauses too. */
async function passTime({ ledger }: World): Promise<void> {
  await ledger.rows("UPDATE @.records SET rev = rev + 1, lease_until = 1 WHERE lease_until IS NOT NULL");
  await ledger.rows(
    `UPDATE @.records SET rev = rev + 1, attention_at = 1, fate = '{"dueAt":1}' WHERE state = 'pending'`,
  );
  if (randomInt(3) === 0) await ledger.rows("UPDATE @.records SET rev = rev + 1, expires_at = 1 WHERE expires_at > 1");
}

/** What only programs of the library write: a resend, deadlines, tries that are over, and what is kept until it is done. */
async function programActs(world: World, seen: (name: string) => void): Promise<void> {
  const found = await storedOf(world);
  if (found === null) return;
  const { record, version } = found;
  const now = Date.now();
  if (record.state === "unknown" && randomInt(2) === 0) {
    const resolution = { type: "resolve", as: "not-done", result: null, by: "ana", reason: "looked" } as const;
    const back = transition(record, resolution, { now, steady: now, epoch: "" });
    if (!back.ok) throw new Error("it is in doubt, and may be settled");
    await world.store.write([{ record: back.record, expected: version }]);
    return seen("unknown –resolve not-done→ pending");
  }
  if (record.state === "unknown") {
    const resend = { type: "resend", permit: { because: "asked-for" }, holder: "program", leaseMs: LEASE_MS } as const;
    const sent = transition(
      record,
      { ...resend, newRound: false, agent: pick(AGENTS) },
      { now, steady: now, epoch: "" },
    );
    if (!sent.ok) throw new Error("it is in doubt, and may be sent again");
    await world.store.write([{ record: sent.record, expected: version }]);
    return seen("unknown –resend→ sent");
  }
  if (record.state !== "claimed" && record.state !== "sent") return;
  const terms = pick([
    { givesUpAt: now - 1 },
    { givesUpAt: now + 1_000 },
    { givesUpAt: now + 86_400_000 },
    { notAfter: now + 600_000 },
    { notAfter: now + 3_600_000, givesUpAt: now - 1 },
    { keptUntilDone: true },
  ]);
  const tries = pick([record.tries, record.tries, 4, 5, 500, 1_000]);
  await world.store.write([{ record: { ...record, tries, terms: { ...record.terms, ...terms } }, expected: version }]);
}

/** Terms that say nothing are the same as none. */
function plain(change: Change | null): Change | null {
  if (change === null || !change.ok || change.record.terms === null) return change;
  return Object.keys(change.record.terms).length > 0 ? change : { ok: true, record: { ...change.record, terms: null } };
}

describe("D6: the state machine in SQL", () => {
  it("D6: makes of every record what core makes of it", async () => {
    const ledger = await sqlLedger({ cli, url: database.url });
    const store = ledger.store({ listen: false });
    const seen = new Map<string, number>();
    // Chance decides what is tried: at least 60 histories, and more until everything that matters was met.
    for (let part = 0; part < 60 || (part < 1_000 && WANTED.some((one) => !seen.has(one))); part += 1) {
      const keyOf = (action: string) => ledger.call("SELECT @.key($1, $2::jsonb)", [action, JSON.stringify([part])]);
      const called = await keyOf("act");
      const action = pick(["act", "act", "was"]);
      const world: World = { ledger, store, part, key: await keyOf(action), action, called };
      // One record at a time, so that take() and sweep() are about it.
      await ledger.rows("DELETE FROM @.records");
      if (world.key !== called) await store.write([{ record: aliasOf(world), expected: null }]);
      for (let steps = 0; steps < 14; steps += 1) {
        if (randomInt(5) === 0) await passTime(world);
        if (randomInt(4) === 0) await programActs(world, (name) => void seen.set(name, 1));
        const found = await storedOf(world);
        const before = found?.record ?? null;
        const step = nextStep(world, before);
        const refused = await ledger.rows(step.sql, step.values).then(
          () => false,
          () => true,
        );
        const left = await storedOf(world);
        const after = left?.record ?? null;
        const now = after === null ? 0 : writtenAt(step, before, after);
        const event = step.event(before, after);
        const at = { now, steady: now, epoch: "" };
        const change = event === null ? null : transition(before, event, at);
        const name = `${before?.state ?? "none"} –${step.name}→ ${after?.state ?? "none"}`;
        const isBehindAlias = world.key !== called;
        for (const one of isBehindAlias ? [name, `${name}, by an alias`] : [name])
          seen.set(one, (seen.get(one) ?? 0) + 1);
        if (after?.history.at(-1)?.event === "corrected" && found?.version !== left?.version) {
          const from = before?.final ? "failed for good" : before?.queued ? "queued" : before?.state;
          seen.set(`${from} –${step.name}→ ${after.state}, corrected`, 1);
        }
        const said = after?.history.at(-1);
        if (said?.reason === BEFORE_CORRECTION && found?.version !== left?.version)
          seen.set(`${name}, before its correction`, 1);
        if (said?.event === "begun-anew" && before?.createdAt !== after?.createdAt)
          seen.set("begun anew, with another input", 1);
        if (found?.version === left?.version) {
          // Where SQL changes nothing, core would not either.
          const late = { now: Date.now(), steady: Date.now(), epoch: "" };
          expect(event === null ? null : transition(before, event, late), name).not.toMatchObject({ ok: true });
          continue;
        }
        expect(refused, name).toBe(false);
        // A claim that finds a silent holder makes the doubt visible, as the library's call does.
        const lapsed =
          step.name === "claim" && after?.state === "unknown" ? transition(before, { type: "lapse" }, at) : change;
        expect(plain(lapsed), name).toEqual({ ok: true, record: after });
      }
    }
    for (const one of WANTED) expect([...seen.keys()]).toContain(one);
  }, 300_000);
});
