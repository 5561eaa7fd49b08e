/** Inside durable engines: a process killed in a step runs the step again; the effect does not happen again. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { entrypoint, MemorySaver, task } from "@langchain/langgraph";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { isPointlessToRetry, langGraphTask } from "../../dist/agents/durable.js";
import { nevertwice } from "../../dist/index.js";
import { freshDatabase } from "../services/addresses.ts";
import { sendMail, startMailProvider } from "./lib/mail-provider.ts";
import { folder } from "./lib/mcp.ts";
import { WAYS } from "./lib/stories.ts";

const script = (engine: string) => fileURLToPath(new URL(`./lib/durable/${engine}.mjs`, import.meta.url));

/** OpenWorkflow takes a dead worker's run over after half a minute: time passes faster here. */
async function leaseIsOver(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("UPDATE openworkflow.workflow_runs SET available_at = now()");
  await client.end();
}

describe.each(["dbos", "openworkflow"])("%s on PostgreSQL", (engine) => {
  it.each(WAYS)("F6: killed in the step and recovered, $way", { timeout: 150_000 }, async ({ guarded }) => {
    const provider = await startMailProvider();
    const { url } = await freshDatabase();
    const store = guarded ? `sqlite:${join(folder(), "ledger.db")}` : "bare";
    const start = (how: string) =>
      promisify(execFile)(process.execPath, [script(engine), provider.url, store, how, url]);
    await expect(start("crash")).rejects.toMatchObject({ signal: "SIGKILL" });
    if (engine === "openworkflow") await leaseIsOver(url);
    const { stdout } = await start("resume");
    expect(provider.mails).toHaveLength(guarded ? 1 : 2);
    expect(stdout).toMatch(guarded ? /may or may not have happened/ : /mail_2/);
  });
});

describe("Vercel Workflow in its local world", () => {
  it.each(WAYS)(
    "F21: a step whose answer was lost is retried by the engine, $way",
    { timeout: 150_000 },
    async ({ guarded }) => {
      const provider = await startMailProvider();
      provider.dropNext();
      const argv = [fileURLToPath(new URL("./vercel-workflow/run.mjs", import.meta.url)), provider.url];
      // Its compiler writes into the working directory.
      const way = guarded ? "guarded" : "bare";
      const { stdout } = await promisify(execFile)(process.execPath, [...argv, way], { cwd: folder() });
      expect(provider.mails).toHaveLength(guarded ? 1 : 2);
      expect(stdout).toMatch(guarded ? /ended: .*may or may not have happened/ : /ended: .*mail_2/);
    },
  );
});

describe("LangGraph tasks", () => {
  it.each(WAYS)("a task whose answer was lost, retried and resumed, $way", async ({ guarded }) => {
    const provider = await startMailProvider();
    const nt = nevertwice({ store: "memory:", sweep: false });
    onTestFinished(() => nt.close());
    const mail = { to: "ada", body: "Hello" };
    const action = nt.action("send_mail", { key: ["to"], run: (given: typeof mail) => sendMail(provider.url, given) });
    const retryOn = (error: unknown) => !isPointlessToRetry(error);
    const send = task({ name: "send", retry: { maxAttempts: 2, initialInterval: 1, retryOn } }, async () => {
      return guarded ? langGraphTask(config)(action, mail) : sendMail(provider.url, mail);
    });
    const config = { configurable: { thread_id: "t1" }, durability: "sync" as const };
    const graph = entrypoint({ name: "mailing", checkpointer: new MemorySaver() }, async (_input: string) => send());
    provider.dropNext();
    const first = await graph.invoke("go", config).catch((error: Error) => error);
    const again = await graph.invoke(null as never, config).catch((error: Error) => error);
    expect(provider.mails.length).toBe(guarded ? 1 : 2);
    if (!guarded) return;
    for (const ended of [first, again]) expect(ended).toMatchObject({ code: "OUTCOME_UNKNOWN" });
  });
});
