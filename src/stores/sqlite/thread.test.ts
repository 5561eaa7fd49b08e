import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/support/each-store.ts";
import { loadDriver } from "./driver.ts";
import { SqliteThread } from "./thread.ts";

vi.mock("./thread-source.ts", async () => {
  const { threadSource } = await import("../../../scripts/bundle.mjs");
  return { THREAD_SOURCE: await threadSource(fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "")) };
});

it("the thread starts under node --input-type=module -e, in either spelling, and with flags of V8", () => {
  const program = (path: string) => `
    import { nevertwice } from "nevertwice";
    const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${path}`)}, sweep: false });
    // More callers than commit on the loop: the thread is needed.
    const all = await Promise.all(Array.from({ length: 32 }, (_, i) => nt.once("n", [i + 1], () => i)));
    await nt.close();
    console.log(all.length);`;
  const inputType = ["--input-type=module"];
  const memory = "--max-old-space-size=512";
  for (const flags of [inputType, ["--input-type", "module"], [memory, ...inputType]]) {
    const path = join(temporaryFolder(), "ledger.db");
    const printed = execFileSync(process.execPath, [...flags, "-e", program(path)], { encoding: "utf8" });
    expect(printed.trim()).toBe("32");
  }
});

it("the thread starts in a program that runs with flags of V8", () => {
  const folder = temporaryFolder();
  const program = join(folder, "program.mjs");
  writeFileSync(
    program,
    `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
     const nt = nevertwice({ store: ${JSON.stringify(`sqlite:${join(folder, "ledger.db")}`)}, sweep: false });
     const all = await Promise.all(Array.from({ length: 32 }, (_, i) => nt.once("n", [i + 1], () => i)));
     await nt.close();
     console.log(all.length);`,
  );
  const printed = execFileSync(process.execPath, ["--max-old-space-size=512", "--expose-gc", program], {
    encoding: "utf8",
  });
  expect(printed.trim()).toBe("32");
});

it("a checkpoint is nothing to queue behind at first, and leaves nothing: the log begins anew", async () => {
  const path = join(temporaryFolder(), "ledger.db");
  const db = loadDriver().open(path);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)");
  const commit = () => db.exec("INSERT INTO t VALUES (1)");
  // Two numbers that are others in each round of the log.
  const salts = () => readFileSync(`${path}-wal`).toString("hex", 16, 24);
  const thread = new SqliteThread({ path, busyMs: 1_000, onLoop: () => Promise.reject(new Error("a thread")) });
  commit();
  const first = salts();
  const copied = thread.checkpoint();
  let ended = false;
  copied.finally(() => {
    ended = true;
  });
  expect(thread.busy).toBe(false);
  // Whatever is committed beside the first pass is left to the second.
  while (!ended && !thread.busy) {
    commit();
    await new Promise((turned) => setImmediate(turned));
  }
  await copied;
  expect(salts()).toBe(first);
  commit();
  expect(salts()).not.toBe(first);
  await thread.close();
  db.close?.();
});

// Loaded before the program: each is a way in which an environment refuses threads.
const REFUSALS = {
  "the constructor throws": `class { constructor() { throw new Error("no threads here"); } }`,
  "the thread dies at its start": `class extends Worker { constructor(_, options) { super('throw new Error("no threads here")', options); } }`,
  "the thread ends at its start": `class extends Worker { constructor(_, options) { super('process.exit(7)', options); } }`,
};

it.each(Object.entries(REFUSALS))(
  "without a thread the ledger works on the loop, with one warning: %s",
  (_, refusing) => {
    const folder = temporaryFolder();
    const preload = join(folder, "preload.cjs");
    writeFileSync(
      preload,
      `const threads = require("node:worker_threads");
     const { Worker } = threads;
     threads.Worker = ${refusing};
     require("node:module").syncBuiltinESMExports();`,
    );
    const program = join(folder, "program.mjs");
    writeFileSync(
      program,
      `import { nevertwice } from ${JSON.stringify(import.meta.resolve("nevertwice"))};
     const warnings = [];
     process.on("warning", ({ code }) => warnings.push(code));
     let effects = 0;
     const calls = (nt) => Promise.all(Array.from({ length: 256 }, (_, i) => nt.once("n", [i + 1], () => ++effects)));
     const first = nevertwice({ store: ${JSON.stringify(`sqlite:${join(folder, "ledger.db")}`)}, sweep: false });
     const second = nevertwice({ store: ${JSON.stringify(`sqlite:${join(folder, "ledger.db")}`)}, sweep: false });
     const answers = await Promise.all([calls(first), calls(second)]);
     await first.sweep();
     await first.close();
     await second.close();
     console.log(JSON.stringify({ effects, same: JSON.stringify(answers[0]) === JSON.stringify(answers[1]), warnings: warnings.filter((code) => code?.startsWith("NEVERTWICE")) }));`,
    );
    const printed = execFileSync(process.execPath, ["-r", preload, program], {
      encoding: "utf8",
      stdio: ["pipe", "pipe", "pipe"],
    });
    expect(JSON.parse(printed)).toEqual({ effects: 256, same: true, warnings: ["NEVERTWICE_NO_THREAD"] });
  },
);
