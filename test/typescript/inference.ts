/**
 * What the compiler infers of actions, queues and tools in strict mode, in every order of the properties. Nobody runs this file:
 * versions.test.ts compiles it with each version of TypeScript.
 */
import { type as arktype } from "arktype";
import {
  type Action,
  type ActionOptions,
  type AttemptContext,
  amount,
  day,
  email,
  type Nevertwice,
  nevertwice,
  notSent,
  refused,
  text,
  type,
  type WorkQueue,
} from "nevertwice";
import { guardTool } from "nevertwice/agents";
import { sqliteStore } from "nevertwice/sqlite";
import * as v from "valibot";
import { z } from "zod";

interface Lead {
  readonly leadId: string;
  readonly template: string;
  readonly at: Date;
  readonly body: string;
  readonly cents: number;
  readonly note?: string;
}

type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;
/** Compiles where the two types are one and the same. */
function same<A, B>(..._: Same<A, B> extends true ? [] : [{ got: A; wanted: B }]): void {}

const nt = nevertwice();
const mailer = {
  send: async (lead: Lead, options: { readonly idempotencyKey: string }) => ({
    id: lead.leadId + options.idempotencyKey,
  }),
};
type Sent = { id: string };

// ---- run is annotated ------------------------------------------------------------------------------------------------

const keyBeforeRun = nt.action("key before run", {
  key: (i) => [i.leadId, i.template, day(i.at)],
  free: ["body", "at"],
  run: async (i: Lead, ctx) => mailer.send(i, { idempotencyKey: ctx.key }),
});
same<typeof keyBeforeRun, Action<Lead, Sent>>();

const runBeforeKey = nt.action("run before key", {
  run: async (i: Lead, ctx) => mailer.send(i, { idempotencyKey: ctx.key }),
  key: (i) => {
    same<typeof i, Lead>();
    return [i.leadId];
  },
  free: ["body", "at"],
});
same<typeof runBeforeKey, Action<Lead, Sent>>();

const runAlone = nt.action("run alone", {
  key: (i) => {
    same<typeof i, Lead>();
    return [i.leadId];
  },
  run: async (i: Lead) => i.cents,
});
same<typeof runAlone, Action<Lead, number>>();

const listAndRun = nt.action("list", { key: ["leadId"], free: ["body"], run: async (_: Lead, ctx) => ctx.key });
same<typeof listAndRun, Action<Lead, string>>();

const fieldsAndRun = nt.action("fields", {
  key: { leadId: true, template: text, at: day, cents: amount("EUR") },
  free: ["body", "note"],
  run: async (i: Lead, ctx) => mailer.send(i, { idempotencyKey: ctx.key }),
});
same<typeof fieldsAndRun, Action<Lead, Sent>>();

const everythingBeforeRun = nt.action("everything before run", {
  key: (i) => [i.leadId],
  formerly: { name: "before", key: (i) => (i.note === undefined ? null : [i.note]) },
  limit: { by: (i) => String(i.leadId), concurrency: 2 },
  effect: "mail",
  doubt: { quietFor: "1m", probe: async (i) => (i.note === "x" ? "not-done" : { as: "done", result: 1 }) },
  exists: (_error, i) => i.cents,
  resultId: (result) => String(result),
  check: (i, ctx) => {
    if (i.cents < 0) throw refused(`too little, ${ctx.key}`);
  },
  prepare: async (i) => ({ draft: String(i.body) }),
  run: async (i: Lead, ctx, { draft }) => {
    same<typeof draft, string>();
    ctx.log.info(i.leadId);
    return draft.length;
  },
});
same<typeof everythingBeforeRun, Action<Lead, number>>();

const everythingAfterRun = nt.action("everything after run", {
  run: async (_: Lead, ctx) => ctx.attempt,
  check: (i) => {
    same<typeof i, Lead>();
  },
  resultId: (result) => {
    same<typeof result, number>();
    return undefined;
  },
  exists: (_error, i) => {
    same<typeof i, Lead>();
    return undefined;
  },
  doubt: {
    quietFor: "1m",
    probe: async (i, ctx) => {
      same<typeof i, Lead>();
      same<typeof ctx.firstSentAt, number>();
      return "unknown";
    },
  },
  limit: { by: (i) => i.leadId, rate: "1/s" },
  formerly: [
    {
      key: (i) => {
        same<typeof i, Lead>();
        return null;
      },
    },
    { key: ["template"] },
    { key: { leadId: true } },
  ],
  key: { leadId: true, template: (template) => template.toLowerCase() },
});
same<typeof everythingAfterRun, Action<Lead, number>>();

// ---- key is annotated ------------------------------------------------------------------------------------------------

const annotatedKey = nt.action("annotated key", {
  key: (i: Lead) => [i.leadId],
  free: ["body"],
  prepare: async (i, ctx) => {
    same<typeof i, Lead>();
    return ctx.attempt;
  },
  run: async (i, ctx, draft) => {
    same<typeof i, Lead>();
    same<typeof draft, number>();
    return mailer.send(i, { idempotencyKey: ctx.key });
  },
});
same<typeof annotatedKey, Action<Lead, Sent>>();

const annotatedKeyLast = nt.action("annotated key, last", {
  run: async (i, ctx) => {
    same<typeof i, Lead>();
    return mailer.send(i, { idempotencyKey: ctx.key });
  },
  doubt: { quietFor: "1m", probe: async (i) => ({ as: "done", result: { id: i.leadId } }) },
  free: ["body"],
  key: (i: Lead) => [i.leadId],
});
same<typeof annotatedKeyLast, Action<Lead, Sent>>();

const partOfTheInput = nt.action("a key of a part", {
  key: (i: Pick<Lead, "leadId">) => [i.leadId],
  run: async (i: Lead, ctx) => mailer.send(i, { idempotencyKey: ctx.key }),
});
same<typeof partOfTheInput, Action<Lead, Sent>>();

// ---- input declares it -----------------------------------------------------------------------------------------------

const declaredLast = nt.action("declared last", {
  key: (i) => {
    same<typeof i, Lead>();
    return [i.leadId];
  },
  free: ["body"],
  prepare: async (i) => i.body.trim(),
  run: async (i, _ctx, draft) => {
    same<typeof i, Lead>();
    return draft.length;
  },
  doubt: { quietFor: "1m", probe: async (i) => (i.cents > 0 ? "not-done" : { as: "done", result: i.cents }) },
  input: type<Lead>(),
});
same<typeof declaredLast, Action<Lead, number>>();

const byZod = nt.action("zod", {
  run: async (i, ctx) => {
    same<typeof i, { n: number; to: string }>();
    return `${ctx.key} ${i.n}`;
  },
  key: { to: email },
  free: ["n"],
  input: z.object({ n: z.string().transform(Number), to: z.string() }),
});
same<typeof byZod, Action<{ n: string; to: string }, string>>();

const byValibot = nt.action("valibot", {
  input: v.object({ n: v.pipe(v.string(), v.transform(Number)), to: v.string() }),
  key: ["to"],
  run: async (i) => i.n + 1,
});
same<typeof byValibot, Action<{ n: string; to: string }, number>>();

const byArktype = nt.action("arktype", {
  key: (i) => [i.to, i.n.toFixed()],
  input: arktype({ to: "string", n: "number" }),
  run: async (i, ctx) => i.to + ctx.key,
});
same<typeof byArktype, Action<{ to: string; n: number }, string>>();

// ---- other inputs ----------------------------------------------------------------------------------------------------

const ofText = nt.action("of text", { key: (id) => [id.toLowerCase()], run: async (id: string) => id.length });
same<typeof ofText, Action<string, number>>();

type Either = { kind: "a"; a: string } | { kind: "b"; b: string };
const ofUnion = nt.action("of a union", { key: ["kind"], run: async (i: Either, ctx) => ctx.key + i.kind });
same<typeof ofUnion, Action<Either, string>>();

const ofNothing = nt.action("of nothing", { key: () => ["daily"], run: async () => 1 });
same<typeof ofNothing, Action<unknown, number>>();

const explicit = nt.action<Lead, string>("explicit", { key: (i) => [i.leadId], run: async (i) => i.body });
same<typeof explicit, Action<Lead, string>>();

const given: ActionOptions<Lead, number> = { key: ["leadId"], run: async (i) => i.cents };
same<ReturnType<typeof nt.action<Lead, number>>, Action<Lead, number>>();
const fromOptions = nt.action("from options", given);
same<typeof fromOptions, Action<Lead, number>>();
void nt.action("spread", { ...given, keep: "7d", formerly: { key: ["template"] } })({} as Lead);

/** In a generic function the compiler cannot tell a type parameter from an input that nothing declares. */
export function guarded<I, R>(name: string, run: (input: I) => Promise<R>): Action<I, R> {
  const define = nt.action as <A, B>(name: string, options: ActionOptions<A, B>) => Action<A, B>;
  return define(name, { key: (i) => [i], run });
}

// ---- probes ----------------------------------------------------------------------------------------------------------

const run = async (i: Lead) => i.cents;
nt.action("probe 1", { doubt: { quietFor: "1m", probe: async () => "not-done" }, run });
nt.action("probe 2", { doubt: { quietFor: "1m", probe: () => "not-done" }, run });
nt.action("probe 3", { run, doubt: { quietFor: "1m", probe: async (i: Lead) => ({ as: "done", result: i.cents }) } });
nt.action("probe 4", {
  doubt: {
    quietFor: "1m",
    probe: async (i) => {
      if (i.cents === 0) return { as: "not-done" };
      return i.cents === 1 ? "unknown" : { as: "done", result: i.cents };
    },
  },
  run,
});

// ---- resend, status, resolve -----------------------------------------------------------------------------------------

export async function callers(lead: Lead) {
  same<Awaited<ReturnType<typeof keyBeforeRun.resend>>, Sent>();
  await keyBeforeRun.resend(lead, { by: "ada", reason: "bounced" });
  await keyBeforeRun.resolve({ key: "nt1_x" }, { as: "done", result: { id: "m1" }, by: "ada", reason: "seen" });
  // @ts-expect-error the result is another one
  await keyBeforeRun.resolve({ key: "nt1_x" }, { as: "done", result: 5, by: "ada", reason: "seen" });
  // @ts-expect-error a lead is more than that
  await keyBeforeRun({ leadId: "L1" });
  await byZod({ n: "1", to: "ada" });
  // @ts-expect-error callers give what the schema takes, not what it makes
  await byZod({ n: 1, to: "ada" });
  // @ts-expect-error who and why are needed
  await keyBeforeRun.resend(lead);
  same<Awaited<ReturnType<typeof once>>, string>();
}
const once = () => nt.once("welcome", [1], async (ctx) => ctx.key);

// ---- transactions ----------------------------------------------------------------------------------------------------

interface Client {
  query(statement: string, values?: readonly unknown[]): Promise<unknown>;
}
const byContext = nt.action("by context", {
  key: ["leadId"],
  run: async (i: Lead, ctx: AttemptContext<Client>) => {
    await ctx.tx?.query("INSERT INTO leads VALUES ($1)", [i.leadId]);
    return i.cents;
  },
});
same<typeof byContext, Action<Lead, number, Client>>();
export const inTransaction = (lead: Lead, tx: Client) => byContext(lead, { tx });
// @ts-expect-error a transaction of another kind
export const inAnother = (lead: Lead) => byContext(lead, { tx: "BEGIN" });

const inSqlite = nevertwice({ store: sqliteStore({ path: "app.db" }) });
const bySqlite = inSqlite.action("by the store", {
  key: (i: Lead) => [i.leadId],
  run: async (i, ctx) => ctx.tx?.prepare("INSERT INTO leads VALUES (?)").run(i.leadId),
});
// What takes an instance takes one with transactions of any type.
export const anyInstance: Nevertwice = inSqlite;
guardTool(inSqlite, { name: "send", key: ["leadId"] }, async (i: Lead) => i.cents);
// @ts-expect-error no connection
export const notSqlite = (lead: Lead) => bySqlite(lead, { tx: 5 });
const untyped = nt.action("untyped", { key: ["leadId"], run: async (_: Lead, ctx) => ctx.tx });
same<typeof untyped, Action<Lead, unknown>>();

// ---- mistakes --------------------------------------------------------------------------------------------------------

nt.action("misspelt list", {
  // @ts-expect-error there is no such field
  key: ["leadIt"],
  run: async (_: Lead, ctx) => ctx.key,
});
nt.action("misspelt fields", {
  // @ts-expect-error there is no such field
  key: { leadIt: true },
  run: async (_: Lead, ctx) => ctx.key,
});
nt.action("misspelt in a function", {
  run: async (_: Lead, ctx) => ctx.key,
  // @ts-expect-error there is no such field
  key: (i) => [i.leadIt],
});
nt.action("misspelt before a schema", {
  // @ts-expect-error there is no such field
  key: (i) => [i.leadIt],
  run: async (_, ctx) => ctx.key,
  input: type<Lead>(),
});
nt.action("misspelt free", {
  key: ["leadId"],
  // @ts-expect-error there is no such field
  free: ["bodyy"],
  run: async (_: Lead, ctx) => ctx.key,
});
nt.action("misspelt free, declared", {
  input: type<Lead>(),
  // @ts-expect-error there is no such field
  free: ["bodyy"],
  run: async (_, ctx) => ctx.key,
});
nt.action("misspelt former field", {
  key: ["leadId"],
  // @ts-expect-error there is no such field
  formerly: { key: ["leadIt"] },
  run: async (_: Lead, ctx) => ctx.key,
});
nt.action("misspelt option", {
  run: async (_: Lead, ctx) => ctx.key,
  // @ts-expect-error there is no such option
  kee: "1d",
});
nt.action("another form", {
  // @ts-expect-error email takes a text
  key: { cents: email },
  run: async (_: Lead, ctx) => ctx.key,
});
nt.action("another input", {
  run: async (_: Lead, ctx) => ctx.key,
  // @ts-expect-error the key takes an input that run does not
  key: (i: { orderId: string }) => [i.orderId],
});
nt.action("another result", {
  run,
  doubt: {
    quietFor: "1m",
    // @ts-expect-error the result of run is a number
    probe: async () => ({ as: "done", result: "text" }),
  },
});
nt.action("nothing declared, function", {
  // @ts-expect-error nothing says what the input is
  key: (i) => [i.leadId],
  run: async (_i, ctx) => ctx.key,
});
nt.action("nothing declared, list", {
  // @ts-expect-error nothing says what the input is
  key: ["leadId"],
  run: async (_i, ctx) => ctx.key,
});
nt.action("nothing declared, list, no parameter", {
  // @ts-expect-error nothing says what the input is
  key: ["leadId"],
  run: async () => 1,
});
nt.action("nothing declared, fields", {
  // @ts-expect-error nothing says what the input is
  key: { leadId: true },
  run: async (_i, ctx) => ctx.key,
});
nt.action("nothing declared, no key", {
  // @ts-expect-error nothing says what the input is
  run: async (i) => i.leadId,
});
nt.action("not sent", {
  key: ["leadId"],
  run: async (i: Lead) => {
    if (i.cents === 0) throw notSent(new Error("no quota"), { retryAfter: "1m" });
    return i.cents;
  },
});

// ---- queues ----------------------------------------------------------------------------------------------------------

const declared = nt.queue("declared", { key: ["leadId"], free: ["body"], input: type<Lead>() });
same<typeof declared, WorkQueue<Lead, unknown>>();
const byKey = nt.queue("by key", { free: ["body"], key: (i: Lead) => [i.leadId] });
same<typeof byKey, WorkQueue<Lead, unknown>>();
const bySchema = nt.queue("by schema", {
  key: (i) => [i.n.toFixed()],
  input: z.object({ n: z.string().transform(Number) }),
});
same<typeof bySchema, WorkQueue<{ n: number }, unknown, { n: string }>>();
const named = nt.queue<Lead, Sent>("named", { key: ["leadId"] });
same<typeof named, WorkQueue<Lead, Sent>>();
// @ts-expect-error there is no such field
nt.queue("misspelt", { input: type<Lead>(), key: ["leadIt"] });
// @ts-expect-error nothing says what a task is
nt.queue("nothing declared", { key: ["leadId"] });
// @ts-expect-error nothing says what a task is
nt.queue("nothing declared, function", { key: (i) => [i.leadId] });

// ---- tools -----------------------------------------------------------------------------------------------------------

const tool = guardTool(
  nt,
  { name: "send", key: ["leadId"], free: ["body"], scope: (thread: string) => thread },
  async (i: Lead, thread) => ({ id: i.leadId + thread }),
);
same<Parameters<typeof tool>[0], Lead>();
// @ts-expect-error there is no such field
guardTool(nt, { name: "send", key: ["leadIt"] }, async (i: Lead) => i.cents);
// @ts-expect-error there is no such field
guardTool(nt, { name: "send", free: ["bodyy"] }, async (i: Lead) => i.cents);
