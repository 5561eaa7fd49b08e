/** The stories every framework is told, bare and guarded: without nevertwice they must show duplicates. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { queuedTool } from "../../../dist/agents/index.js";
import { type Nevertwice, nevertwice } from "../../../dist/index.js";
import { type MailProvider, sendMail, startMailProvider } from "./mail-provider.ts";
import { folder } from "./mcp.ts";

export interface World {
  readonly url: string;
  readonly nt: Nevertwice | null;
  /** The session, thread or run. */
  readonly thread: string;
  readonly crash?: boolean;
  /** Aborted when the caller of a run gives up on it; each agent hands it to its framework. */
  readonly signal?: AbortSignal;
  /** What the tool's errors mean. */
  readonly errors?: "not-done";
  /** How the tool fails: by refused() for an amount below zero; by notSent() with a time, once for each that is true. */
  readonly fails?: { readonly refused?: true; readonly busy?: boolean[] };
  /** The tool's options check the amount. */
  readonly checks?: true;
  /** Every call runs, and what would have been prevented is recorded. */
  readonly mode?: "observe";
  /** How many identical calls of one turn are intents of their own. */
  readonly repeats?: number;
  /** Takes the mail instead of the provider. */
  readonly record?: (mail: Mail) => Promise<string>;
}

export interface Mail {
  readonly id?: string;
  readonly to: string;
  readonly body: string;
  readonly amount?: number;
}

/** One run of a scripted agent; what the model was told by each tool call. */
export type Run = (world: World, steps: readonly (readonly Mail[])[]) => Promise<string[]>;

export const WAYS = [
  { way: "bare", guarded: false },
  { way: "guarded", guarded: true },
] as const;

export async function world(guarded: boolean): Promise<{ provider: MailProvider; world: World }> {
  const provider = await startMailProvider();
  const nt = guarded ? nevertwice({ store: "memory:", sweep: false }) : null;
  onTestFinished(async () => nt?.close());
  return { provider, world: { url: provider.url, nt, thread: "thread-1" } };
}

const crash = fileURLToPath(new URL("./crash.mjs", import.meta.url));

/** A program of its own, and how it ended. What it had started itself (an agent's own process) ends with it. */
function ended(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ code: unknown; signal: unknown; stdout: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argv, { env, detached: true, stdio: ["ignore", "pipe", "inherit"] });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.once("error", reject);
    child.once("exit", () => {
      try {
        process.kill(-(child.pid as number), "SIGKILL");
      } catch {
        // Nobody was left.
      }
    });
    child.once("close", (code, signal) => resolve({ code, signal, stdout }));
  });
}

/**
 * What was told, with the mails themselves in the place of their ids: calls of one turn run at the same time, and which of them is
 * the provider's second mail is left to chance, with a guard and without. Each mail is told of once.
 */
function inMails(told: readonly string[], { mails }: MailProvider): string[] {
  const left = new Map(mails.map(({ id, ...mail }) => [id, JSON.stringify(mail)]));
  const shown = told.map((text) =>
    text.replace(/mail_\d+/g, (id) => {
      const mail = left.get(id) ?? `${id}, told twice`;
      left.delete(id);
      return mail;
    }),
  );
  return [...shown, ...left.values()];
}

/** `seesErrors`: the guard is given what the tool throws, not a text the framework made of it. */
export function tellStories(
  run: Run,
  { agent, seesErrors = true }: { agent?: string; seesErrors?: boolean } = {},
): void {
  const hello = { to: "ada", body: "Hello" };

  it.each(WAYS)("A3: a re-planned call with a new id and reworded text, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    const told = await run(at, [[hello], [{ ...hello, body: "Good day" }]]);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    if (!guarded) return;
    expect(told.at(-1)).toMatch(/Already done at .*Your body differs/s);
    expect(told.at(-1)).toContain("mail_1");
  });

  it.each(WAYS)("A1: the same call twice in one turn, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    const told = await run(at, [[hello, hello]]);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    if (guarded) for (const answer of told) expect(answer).toContain("mail_1");
  });

  it.each(WAYS)("A3: the run is started again in the same session, $way", async ({ guarded }) => {
    const { provider, world: at } = await world(guarded);
    await run(at, [[hello]]);
    await run(at, [[hello]]);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
  });

  it.each(WAYS)(
    "O5: the provider took it and its answer was lost; the model tries again, $way",
    async ({ guarded }) => {
      const { provider, world: at } = await world(guarded);
      provider.dropNext();
      const told = await run(at, [[hello], [hello]]);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
      if (guarded) for (const answer of told) expect(answer).toMatch(/It may have happened all the same/);
    },
  );

  it.each([...WAYS, { way: "guarded, with repeats", guarded: true, repeats: 2 }] as const)(
    "F42: the run is timed out while the tool hangs, and started again, $way",
    async ({ guarded, ...more }) => {
      const { provider, world: fresh } = await world(guarded);
      const at: World = { ...fresh, ...more };
      provider.hold();
      const timeout = new AbortController();
      const givenUp = run({ ...at, signal: timeout.signal }, [[hello]]).catch(() => []);
      await provider.sent(1);
      timeout.abort(new DOMException("The operation timed out", "TimeoutError"));
      const again = run(at, [[hello]]);
      if (guarded) setTimeout(() => provider.release(), 300);
      else void provider.sent(2).then(() => provider.release());
      const [told] = await Promise.all([again, givenUp]);
      // LangChain cuts a tool off with its run, so that nobody knows; elsewhere the tool goes on, and the second call joins it.
      expect(told.at(-1)).toMatch(guarded ? /mail_1|It may have happened all the same/ : /mail_2/);
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    },
  );

  it("B4: a tool that records returns at once, whatever the provider does; a worker sends one mail", async () => {
    const { provider, world: at } = await world(true);
    const nt = at.nt as Nevertwice;
    const send = nt.action("send_mail", {
      key: ["to"],
      free: ["body"],
      run: ({ to, body }: Mail) => sendMail(provider.url, { to, body }),
    });
    const record = queuedTool(send, { scope: at.thread });
    provider.hold();
    const recording = { ...at, nt: null, record: (mail: Mail) => record(mail, undefined) };
    const told = await run(recording, [[hello], [{ ...hello, body: "Good day" }]]);
    expect(told[0]).toMatch(/Accepted: send_mail will be carried out in the background/);
    expect(told[1]).toMatch(/Scheduled: send_mail will be carried out in the background/);
    expect(provider.mails).toHaveLength(0);
    provider.release();
    await nt.worker().drain();
    expect(provider.mails.map(({ body }) => body)).toEqual(["Hello"]);
  });

  it("mode: observe: every call runs, the model reads what it reads without a guard, and the ledger knows", async () => {
    const steps = [[hello], [hello, { ...hello, amount: 6 }], [{ ...hello, to: "bob", body: "" }], [hello]];
    const { provider: bare, world: without } = await world(false);
    const told = inMails(await run(without, steps), bare);
    const { provider, world: at } = await world(true);
    expect(inMails(await run({ ...at, mode: "observe" }, steps), provider)).toEqual(told);
    expect([bare.mails.length, provider.mails.length]).toEqual([4, 4]);
    const { prevented, observed } = await (at.nt as Nevertwice).prevented();
    expect([prevented, observed]).toEqual([0, 3]);
  });

  const heard = (told: readonly string[], what: RegExp) => told.filter((answer) => what.test(answer)).length;

  it("repeats: identical calls of one turn are first and second, one more is the last one's repeat; turns made again run nothing", async () => {
    const { provider, world: at } = await world(true);
    const twice = { ...at, repeats: 2 };
    const told = await run(twice, [[hello, hello, hello]]);
    expect(provider.mails).toHaveLength(2);
    expect(new Set(told.map((answer) => /mail_\d/.exec(answer)?.[0])).size).toBe(2);
    expect(heard(told, /Already done/)).toBe(1);
    // The run is started again, and the model plans again.
    const again = await run(twice, [[hello, { ...hello, body: "Good day" }], [hello], [hello, hello]]);
    expect(provider.mails).toHaveLength(2);
    expect(heard(again.slice(-5), /Already done/)).toBe(5);
    expect(heard(again.slice(-5), /mail_[12]/)).toBe(5);
  });

  it("repeats: of two, the one whose answer was lost is held, and the other is not run again", async () => {
    const { provider, world: at } = await world(true);
    const twice = { ...at, repeats: 2 };
    provider.dropNext();
    const told = await run(twice, [[hello, hello]]);
    expect([heard(told, /It may have happened all the same/), provider.mails.length]).toEqual([1, 2]);
    const again = (await run(twice, [[hello, hello], [hello]])).slice(-3, -1);
    expect(heard(again, /It may have happened all the same/)).toBe(1);
    expect(heard(again, /Already done/)).toBe(1);
    expect(provider.mails).toHaveLength(2);
  });

  it("F2: a changed amount reaches the model as a clear refusal", async () => {
    const { provider, world: at } = await world(true);
    const told = await run(at, [[{ ...hello, amount: 5 }], [{ ...hello, amount: 6 }]]);
    expect(told.at(-1)).toMatch(
      /Refused, and nothing was done: send_mail was already called for this with another amount/,
    );
    expect(provider.mails).toHaveLength(1);
  });

  const inDoubt = async ({ nt }: World) => {
    const { items } = await (nt as Nevertwice).store.list({ states: ["unknown", "sent"], limit: 10 });
    return items.length;
  };

  it("O4: arguments that do not fit the tool's schema were not sent, and the corrected call runs", async () => {
    const { provider, world: at } = await world(true);
    const told = await run(at, [[{ to: "ada", body: 7 } as never], [hello]]);
    expect(await inDoubt(at)).toBe(0);
    expect(told.at(-1)).toContain("mail_1");
    expect(told.at(-1)).not.toContain("Already done");
    expect(provider.mails).toHaveLength(1);
  });

  it("F21: a tool's plain error is held in doubt, and the corrected call waits", async () => {
    const { provider, world: at } = await world(true);
    const told = await run(at, [[{ ...hello, body: "" }], [hello]]);
    for (const answer of told) expect(answer).toMatch(/It may have happened all the same/);
    expect(await inDoubt(at)).toBe(1);
    expect(provider.mails).toHaveLength(0);
  });

  it('O4: with errors: "not-done" it is not, and the corrected call runs', async () => {
    const { provider, world: at } = await world(true);
    const told = await run({ ...at, errors: "not-done" }, [[{ ...hello, body: "" }], [hello]]);
    expect(told[0]).not.toMatch(/may have happened/);
    expect(told.at(-1)).toContain("mail_1");
    expect(await inDoubt(at)).toBe(0);
    expect(provider.mails).toHaveLength(1);
  });

  const negative = { ...hello, amount: -5 };
  const corrected = { ...hello, amount: 5 };

  /** The model's mistake is told to it, and its first correction gets through. */
  const getsThrough = async (at: World, provider: MailProvider, told: readonly string[], records: number) => {
    expect(told[0]).toMatch(/the amount is negative|An error occurred while running the tool/);
    expect(told[0]).not.toMatch(/may have happened|nothing was done/);
    expect(told[1]).toContain("mail_1");
    expect(told[1]).not.toContain("Already done");
    expect(provider.mails).toMatchObject([{ to: "ada", amount: 5 }]);
    const { items } = await (at.nt as Nevertwice).store.list({ limit: 10 });
    expect(items.map(({ record }) => `${record.state} ${record.attempt}`)).toEqual([`confirmed ${records}`]);
  };

  it("O4: check stops the call before anything is recorded, and the corrected one runs", async () => {
    const { provider, world: at } = await world(true);
    const told = await run({ ...at, checks: true }, [[negative], [corrected]]);
    await getsThrough(at, provider, told, 1);
  });

  it('O4: with errors: "not-done" a call that is corrected in a guarded field runs', async () => {
    const { provider, world: at } = await world(true);
    const told = await run({ ...at, errors: "not-done" }, [[negative], [corrected]]);
    await getsThrough(at, provider, told, 2);
  });

  it("O5: an answer was lost, and the model varies the amount: the first call is still held", async () => {
    const { provider, world: at } = await world(true);
    provider.dropNext();
    const told = await run({ ...at, checks: true }, [[{ ...hello, amount: 4 }], [corrected]]);
    expect(told[0]).toMatch(/It may have happened all the same/);
    expect(told[1]).toMatch(/It may have happened all the same/);
    expect(provider.mails).toMatchObject([{ amount: 4 }]);
  });

  if (seesErrors) {
    it("O4: refused() is told to the model at once, nothing is in doubt, and the corrected call runs", async () => {
      const { provider, world: at } = await world(true);
      const told = await run({ ...at, fails: { refused: true } }, [[negative], [corrected]]);
      await getsThrough(at, provider, told, 2);
    });

    it("O4: notSent() is told at once with its time, and the next call is the model's to make", async () => {
      const { provider, world: at } = await world(true);
      const told = await run({ ...at, fails: { busy: [true] } }, [[hello], [hello]]);
      expect(told[0]).toMatch(/It did not happen: too many mails\. You may call send_mail again, but not before 2/);
      expect(told[1]).toContain("mail_1");
      expect(provider.mails).toHaveLength(1);
      expect(await inDoubt(at)).toBe(0);
    });
  }

  if (seesErrors)
    it('O5: with errors: "not-done" a lost answer is in doubt all the same', async () => {
      const { provider, world: at } = await world(true);
      provider.dropNext();
      const told = await run({ ...at, errors: "not-done" }, [[hello], [hello]]);
      for (const answer of told) expect(answer).toMatch(/It may have happened all the same/);
      expect(provider.mails).toHaveLength(1);
    });

  it("K2: another session is another intent, another addressee too", async () => {
    const { provider, world: at } = await world(true);
    await run(at, [[hello, { to: "bob", body: "Hello" }]]);
    await run({ ...at, thread: "thread-2" }, [[hello]]);
    expect(provider.mails.map(({ to }) => to).toSorted()).toEqual(["ada", "ada", "bob"]);
  });

  if (agent === undefined) return;
  it.each(WAYS)("F6: the process is killed in the tool, and the run resumed in another, $way", async ({ guarded }) => {
    const provider = await startMailProvider();
    const store = guarded ? `sqlite:${join(folder(), "ledger.db")}` : "bare";
    const env = { ...process.env, AGENT_HOME: folder() };
    const start = (how: string) => ended([crash, agent, provider.url, store, how], env);
    expect(await start("crash")).toMatchObject({ signal: "SIGKILL" });
    const { code, stdout } = await start("resume");
    expect(code).toBe(0);
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    if (guarded) expect(stdout).toMatch(/It may have happened all the same/);
  });
}
