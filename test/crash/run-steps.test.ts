/** F40: a three-step run is killed at every boundary of every step; called again, it goes on, and no effect happens twice. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cleanUp, startProgram, temporaryFolder } from "./lib/processes.mjs";
import { startProvider } from "./lib/provider.mjs";

const PROGRAM = fileURLToPath(new URL("./run-steps.mjs", import.meta.url));
const STEPS = ["source", "enrich", "send"];
const POINTS = [
  "taken",
  ...STEPS.flatMap((step) => ["begun", "answered", "done"].map((what) => `${step}: ${what}`)),
  "ended",
];

let provider: Awaited<ReturnType<typeof startProvider>>;
beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  cleanUp();
  await provider.close();
});

let runs = 0;

async function killedAt(point: string, more: object) {
  runs += 1;
  const kind = "kind" in more ? "jsonl" : "db";
  const spec = {
    id: `A-run-${runs}`,
    ledger: `${temporaryFolder()}/ledger.${kind}`,
    provider: provider.url,
    leaseMs: 800,
    ...more,
  };
  const victim = startProgram(PROGRAM, { ...spec, pauseAt: point });
  await victim.paused();
  await victim.kill();
  return spec;
}

async function calledAgain(spec: Awaited<ReturnType<typeof killedAt>>) {
  const child = startProgram(PROGRAM, spec);
  await child.event("end");
  await child.exited;
  return child.said.find((one) => one.event === "result" || one.event === "threw");
}

const effects = (id: string) => STEPS.map((step) => provider.effectsOf(`${id}-${step}`));

describe.each([
  { what: "SQLite", store: {} },
  { what: "JSONL", store: { kind: "file" } },
])("F40: killed at every boundary ($what)", ({ store }) => {
  it.concurrent.each(POINTS)(
    "%s: steps of a provider with keys happen once each, and the run ends",
    async (point) => {
      const spec = await killedAt(point, { ...store, doubt: { resendWithin: "1h" } });
      expect(await calledAgain(spec)).toMatchObject({ event: "result", result: STEPS.map((step) => ({ step })) });
      expect(effects(spec.id)).toEqual([1, 1, 1]);
      // And once more: nothing is left to do.
      expect(await calledAgain(spec)).toMatchObject({ event: "result" });
      expect(effects(spec.id)).toEqual([1, 1, 1]);
    },
    60_000,
  );
});

it("F40: killed in flight where nobody can be asked: that step is held, the ones before it are not sent again", async () => {
  const spec = await killedAt("enrich: answered", { doubt: "hold" });
  const sent = provider.requestsFor(`${spec.id}-source`);
  expect(await calledAgain(spec)).toMatchObject({ event: "threw", code: "OUTCOME_UNKNOWN" });
  expect(await calledAgain(spec)).toMatchObject({ event: "threw", code: "OUTCOME_UNKNOWN" });
  expect(effects(spec.id)).toEqual([1, 1, 0]);
  expect(provider.requestsFor(`${spec.id}-source`)).toBe(sent);
}, 60_000);
