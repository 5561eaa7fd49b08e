import { describe, expect, it, onTestFinished } from "vitest";
import { notSent, rejected } from "../core/errors.ts";
import { nevertwice } from "../nevertwice.ts";
import { memoryStore } from "../stores/memory.ts";
import {
  dbosStep,
  inngestStep,
  isPointlessToRetry,
  langGraphTask,
  openWorkflowStep,
  type RunInStep,
  restateRun,
  temporalActivity,
  triggerTask,
  vercelStep,
} from "./durable.ts";

class Stop extends Error {
  readonly stops = true;
}
const stopping = { nonRetryable: (message: string, type?: string) => Object.assign(new Stop(message), { type }) };

const engines: readonly (readonly [name: string, run: (id: string) => RunInStep, stops: boolean])[] = [
  [
    "Temporal",
    (workflowId) => temporalActivity({ workflowExecution: { workflowId } }, { ApplicationFailure: stopping }),
    true,
  ],
  ["Restate", (id) => restateRun({ request: () => ({ id }) }, { TerminalError: Stop }), true],
  ["Inngest", (runId) => inngestStep({ runId }, { NonRetriableError: Stop }), true],
  ["Trigger.dev", (id) => triggerTask({ run: { id } }, { AbortTaskRunError: Stop }), true],
  ["Vercel Workflow", (workflowRunId) => vercelStep({ workflowRunId }, { FatalError: Stop }), true],
  ["DBOS", (workflowID) => dbosStep({ workflowID }), false],
  ["LangGraph", (thread_id) => langGraphTask({ configurable: { thread_id } }), false],
  ["OpenWorkflow", (id) => openWorkflowStep({ id }), false],
];

function open() {
  const nt = nevertwice({ store: memoryStore(), sweep: false });
  onTestFinished(() => nt.close());
  let runs = 0;
  const action = nt.action("send", {
    key: ["to"],
    retry: { attempts: 1 },
    run: async ({ to, how }: { to: string; how?: string }) => {
      runs += 1;
      if (how === "lost") throw new Error("socket hang up");
      if (how === "refused") throw rejected(new Error("blocked"));
      if (how === "later" && runs === 1) throw notSent(new Error("no quota"));
      return `sent ${to} ${runs}`;
    },
  });
  return { action, runs: () => runs };
}

describe.each(engines)("%s", (_name, run, stops) => {
  it("a step that runs again gets the first result; another workflow is another scope", async () => {
    const { action, runs } = open();
    const results = [
      await run("w1")(action, { to: "ada" }),
      await run("w1")(action, { to: "ada" }),
      await run("w2")(action, { to: "ada" }),
    ];
    expect(results).toEqual(["sent ada 1", "sent ada 1", "sent ada 2"]);
    expect(runs()).toBe(2);
  });

  it("a doubt ends the engine's retries, what surely did not happen does not", async () => {
    const { action, runs } = open();
    const doubt = await run("w1")(action, { to: "ada", how: "lost" }).catch((error: unknown) => error);
    expect(stops ? (doubt as Stop).stops : isPointlessToRetry(doubt)).toBe(true);
    expect((doubt as Error).message).toMatch(/may or may not have happened/);
    await run("w1")(action, { to: "ada", how: "lost" }).catch(() => {});
    expect(runs()).toBe(1);
    const other = open();
    await expect(run("w1")(other.action, { to: "ada", how: "later" })).rejects.toThrow(/^no quota$/);
    expect(await run("w1")(other.action, { to: "ada", how: "later" })).toBe("sent ada 2");
  });
});

describe("durable steps", () => {
  it("a conflict and a remembered final failure are pointless to retry; other errors are not", async () => {
    const { action } = open();
    await action({ to: "ada" });
    const conflict = await action({ to: "ada", how: "other" }).catch((error: unknown) => error);
    await action({ to: "bob", how: "refused" }).catch(() => {});
    const final = await action({ to: "bob", how: "refused" }).catch((error: unknown) => error);
    expect([conflict, final, new Error("any"), undefined].map(isPointlessToRetry)).toEqual([true, true, false, false]);
  });

  it("outside of a workflow there is no scope, and that is said", () => {
    expect(() => dbosStep({ workflowID: undefined })).toThrow(/no workflow id to use as the scope/);
  });
});
