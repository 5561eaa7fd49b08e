/** D7: the Python client with Debian's python3 against the real service, on SQLite and on PostgreSQL. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { nevertwice } from "nevertwice";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { cleanUp, temporaryFolder } from "../crash/lib/processes.mjs";
import { startProvider } from "../crash/lib/provider.mjs";
import { freshDatabase } from "../services/addresses.ts";
import { until } from "../support/gate.ts";
import { PYTHON, startPython, startService } from "./lib.mjs";

const SCENARIOS = fileURLToPath(new URL("scenarios.py", import.meta.url));
const CLIENT = fileURLToPath(new URL("../../clients/python/nevertwice.py", import.meta.url));
const database = await freshDatabase();
const folder = temporaryFolder();
const names = [...readFileSync(SCENARIOS, "utf8").matchAll(/^@scenario\ndef (\w+)\(/gm)].map(([, name]) =>
  String(name),
);
let provider: Awaited<ReturnType<typeof startProvider>>;

beforeAll(async () => {
  provider = await startProvider();
});
afterAll(async () => {
  await provider.close();
  cleanUp();
});

describe.each([
  ["SQLite", `sqlite:${folder}/ledger.db`],
  ["PostgreSQL", database.url],
])("D7: the Python client on %s", (_, store) => {
  let at: { url: string; provider: string };

  beforeAll(async () => {
    const { url } = await startService({ store });
    at = { url, provider: provider.url };
  });

  it.each(names)("D7: %s", async (name) => {
    const python = startPython([SCENARIOS, name], at);
    const { code } = await python.exited;
    expect(code, python.stderr).toBe(0);
  });

  it("D7: an intent of Python is the same one in TypeScript, with its result", async () => {
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    const parts = ["lead-7", 3, true, { a: [1.5, "é", null] }, store];
    const program = [
      "import json, nevertwice",
      `with nevertwice.Nevertwice().once("send", json.loads(${JSON.stringify(JSON.stringify(parts))}), scope="s") as attempt:`,
      "    if attempt.run: attempt.result = {'id': 7}",
      "print(json.dumps({'key': attempt.key}))",
    ];
    const { key } = await startPython(["-c", program.join("\n")], at).says((one) => "key" in one);
    const run = () => {
      throw new Error("it ran twice");
    };
    expect(await nt.once("send", parts, run, { scope: "s" })).toEqual({ id: 7 });
    expect(await nt.status({ key })).toMatchObject({ status: "done", result: { id: 7 } });
  });

  it("D7: a process that was suspended past its lease has no effect any more", async () => {
    const id = `suspended-${store}`;
    const python = startPython([SCENARIOS, "suspended", id, "900ms"], at);
    await python.event("inside");
    python.signal("SIGSTOP");
    await python.stopped();
    const nt = nevertwice({ store, sweep: false });
    onTestFinished(() => nt.close());
    await until(() => isUnknown(nt, id), "the doubt");
    python.signal("SIGCONT");
    python.tell("go on");
    await python.event("lost");
    expect(provider.effectsOf(id)).toBe(0);
  });

  it("D7: the service is restarted while an attempt is under way: it settles afterwards", async () => {
    const socket = `${folder}/restart-${store.length}.sock`;
    const service = await startService({ store, socket });
    const id = `restart-${store}`;
    const python = startPython([SCENARIOS, "suspended", id, "60s"], { url: service.url, provider: provider.url });
    await python.event("inside");
    await service.process.kill();
    await startService({ store, socket });
    python.tell("go on");
    await python.event("done");
    expect(provider.effectsOf(id)).toBe(1);
  });

  it("D7: over a Unix socket", async () => {
    const socket = `${folder}/${store.length}.sock`;
    const { url } = await startService({ store, socket });
    const python = startPython([SCENARIOS, "once_runs_and_repeats_get_the_result"], { url, provider: provider.url });
    expect((await python.exited).code, python.stderr).toBe(0);
  });
});

async function isUnknown(nt: ReturnType<typeof nevertwice>, id: string): Promise<boolean> {
  const refused = await nt.once("send", [id], () => 1).catch((error: unknown) => error);
  return (refused as { code?: string }).code === "OUTCOME_UNKNOWN";
}

it("D7: one file that imports nothing but the standard library, and is valid for Python 3.9", () => {
  const check = [
    "import ast, sys",
    "tree = ast.parse(open(sys.argv[1]).read(), feature_version=(3, 9))",
    "names = {n.name.split('.')[0] for x in ast.walk(tree) if isinstance(x, ast.Import) for n in x.names}",
    "names |= {x.module.split('.')[0] for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)}",
    "print(sorted(names - set(sys.stdlib_module_names)))",
  ];
  const { stdout, stderr } = spawnSync(PYTHON, ["-c", check.join("\n"), CLIENT], { encoding: "utf8" });
  expect(stdout.trim(), stderr).toBe("[]");
});
