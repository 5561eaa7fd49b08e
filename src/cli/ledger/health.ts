/** What doctor looks at: each check is fine, worth a note, or a problem that somebody has to deal with. */
import { messageOf } from "../../core/errors.ts";
import { type InspectQuery, instantOf, type LedgerStats, type Store, type StoreTraits } from "../../core/store.ts";
import { openRequests } from "../../engine/once-more.ts";
import { hasDriver } from "../../stores/sqlite/driver.ts";
import { age, plural } from "../term/format.ts";
import { oneLine } from "../term/text.ts";
import { countDeadRunners } from "./dead-runner.ts";
import { oldestDoubt, runAgain, silentHolders } from "./waiting-counts.ts";

export interface Check {
  readonly name: string;
  readonly value: string;
  readonly level: "ok" | "note" | "problem";
  readonly advice?: string;
  /** What to run, as it is to be copied: it stands on a line of its own and is never wrapped. */
  readonly command?: string;
  /** Only a part of the ledger was checked for it. */
  readonly partial?: boolean;
}

export interface Area {
  readonly title: string;
  readonly checks: readonly Check[];
}

const SURVIVES: Readonly<Record<StoreTraits["survives"], string>> = {
  "power-loss": "process crash and power loss",
  crash: "process crash; a power loss can take the last records",
  "best-effort": "best effort: an acknowledged claim can vanish on failover",
  nothing: "nothing: it forgets at exit (tests, and dedupe inside one process)",
};

export function promises({ survives, hosts }: StoreTraits): Check[] {
  const forgets = survives === "nothing";
  const reach = hosts === "many" ? "many processes on many hosts" : "many processes on one host";
  const survival: Check = {
    name: "survives",
    value: SURVIVES[survives],
    level: forgets || survives === "best-effort" ? "note" : "ok",
    ...(forgets && { advice: "use sqlite:path/to/ledger.db for anything that matters" }),
  };
  return [survival, { name: "shared by", value: forgets ? "one process" : reach, level: "ok" }];
}

/** What the store says about itself; a store that cannot be looked at is the finding. */
export async function inspectStore(store: Store, query: InspectQuery): Promise<Check[]> {
  const findings = (await store.inspect?.(query)) ?? [];
  return findings.map(({ name, value, ok, advice, partial }) => ({
    name: oneLine(name),
    value: oneLine(value),
    level: ok ? "ok" : "problem",
    ...(!ok && advice !== undefined && { advice: oneLine(advice) }),
    ...(partial && { partial }),
  }));
}

export function unavailable(error: unknown): Check {
  return { name: "available", value: "no", level: "problem", advice: oneLine(messageOf(error)) };
}

// More than anybody settles one by one.
const MANY_DOUBTS = 20;

export async function waiting(
  store: Store,
  counts: LedgerStats,
  { tenant, suggest }: { readonly tenant: string | undefined; readonly suggest: (line: string) => string },
): Promise<Check[]> {
  const own = tenant === undefined ? {} : { tenant };
  const { now } = instantOf(store);
  const silent = await silentHolders(store, own);
  const gone = await countDeadRunners(store, own);
  const slots = await runAgain(store, counts, own);
  const again = slots.unknown + slots.failed;
  const doubts = Math.max(0, counts.states.unknown - slots.unknown);
  const dead = Math.max(0, counts.states.failed - slots.failed);
  const since = doubts === 0 ? null : await oldestDoubt(store, counts, slots, own);
  const takeable = silent.all ? Math.max(0, counts.lapsed - silent.count) : 0;
  // Slots that were not read may be among what is counted as doubts and dead letters.
  const upTo = slots.all ? "" : "up to ";
  return [
    {
      name: "doubts",
      value: doubts === 0 ? "none" : `${upTo}${doubts}, the oldest for ${age(now - (since ?? now))}`,
      level: doubts === 0 ? "ok" : "problem",
      ...(doubts > 0 && {
        advice: "somebody has to decide:",
        command: suggest(doubts > MANY_DOUBTS ? "ls --doubt --group" : "ls --doubt"),
      }),
    },
    {
      name: "silent holders",
      value:
        silent.count === 0
          ? "none"
          : `${plural(silent.count, "holder")}${silent.all ? "" : " or more"} silent after the send mark`,
      level: silent.count === 0 ? "ok" : "problem",
      ...(silent.count > 0 && {
        advice: "no sweep has seen them. Find out why no program sweeps, and sweep:",
        command: suggest("sweep"),
      }),
    },
    ...(takeable === 0
      ? []
      : [
          {
            name: "abandoned",
            value: `${takeable} claimed, nothing sent: free for a worker or the next call`,
            level: "note" as const,
          },
        ]),
    ...(gone === 0
      ? []
      : [
          {
            name: "runners gone",
            value: `${plural(gone, "slot")} whose runner is no longer running: the next call of each sees to it`,
            level: "note" as const,
            advice: "see what it does about each:",
            command: suggest("ls --state claimed,sent"),
          },
        ]),
    ...(again === 0
      ? []
      : [
          {
            name: "to run again",
            value: `${plural(again, "slot or run", "slots or runs")}${slots.all ? "" : " or more"} not done: the next call of each runs it again`,
            level: "note" as const,
          },
        ]),
    {
      name: "dead letters",
      value: dead === 0 ? "none" : `${upTo}${dead}`,
      level: dead === 0 ? "ok" : "note",
      ...(dead > 0 && { advice: "see which; retry brings one back:", command: suggest("ls --state failed") }),
    },
    overdue(counts, now, suggest),
    ...requested(await openRequests(store, tenant, () => instantOf(store)), suggest),
  ];
}

function requested(open: readonly unknown[], suggest: (line: string) => string): Check[] {
  if (open.length === 0) return [];
  const value = `${plural(open.length, "request")} for a run once more`;
  return [{ name: "requests", value, level: "note", advice: "a person has to decide:", command: suggest("requests") }];
}

// Work that is due is picked up within seconds; an hour means that no worker runs.
const OVERDUE_MS = 3_600_000;

function overdue({ states, oldestPendingAt }: LedgerStats, now: number, suggest: (line: string) => string): Check {
  const late = oldestPendingAt === null ? 0 : now - oldestPendingAt;
  if (states.pending === 0 || late < OVERDUE_MS)
    return { name: "pending", value: `${states.pending || "none"}`, level: "ok" };
  return {
    name: "pending",
    value: `${states.pending}, the oldest due for ${age(late)}`,
    level: "note",
    advice: "queued work needs a worker; what only calls drive waits for its next call. See which:",
    command: suggest("ls --state pending"),
  };
}

// engines.node of package.json: what the release is tested on.
const LEAST_NODE = [20, 19] as const;

/** Without a SQLite library every call fails with CONFIG, also where there is no ledger yet that could fail to open. */
export function sqliteCheck(): Check[] {
  if (hasDriver()) return [];
  return [
    {
      name: "sqlite",
      value: `none: this Node (${process.version}) has no SQLite library, and every call fails with CONFIG`,
      level: "problem",
      advice:
        "install one, or use Node 22.13 or later. A program with a library of its own, such as better-sqlite3, gives its connection: sqliteStore({ database })",
      command: "npm install @photostructure/sqlite@1",
    },
  ];
}

export function nodeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const fits = major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1]);
  return {
    name: "node",
    value: version,
    level: fits ? "ok" : "problem",
    ...(!fits && { advice: `nevertwice needs Node ${LEAST_NODE.join(".")} or later` }),
  };
}
