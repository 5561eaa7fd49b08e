// The bundles for npm run torture: every bundler, thousands of calls each. Resolves to what is wrong, by bundle.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startAll } from "../../scripts/services/start-all.mjs";
import { BUNDLERS, bun } from "./bundlers.mjs";
import { exercise, smoke } from "./exercise.mjs";
import { linkPackages, makeProject, moveElsewhere } from "./project.mjs";

const SMOKE_CALLS = 200;

export async function exerciseBundles({ calls, onBundle }) {
  const wrong = [];
  const servers = await startAll(["postgres"]);
  const project = makeProject();
  try {
    for (const [name, bundle] of Object.entries(BUNDLERS)) {
      const made = join(project.folder, "out");
      mkdirSync(made, { recursive: true });
      const { file, warnings } = await bundle(project.entry, made);
      const moved = moveElsewhere(made);
      try {
        const at = join(moved.folder, file.slice(made.length + 1));
        linkPackages(moved.folder, ["@photostructure/sqlite", "pg"]);
        const found = warnings.map((warning) => `bundling: ${warning}`);
        found.push(...(await exerciseOne(at, calls, servers)));
        if (name.startsWith("bun,")) found.push(...(await exerciseUnderBun(at, calls)));
        onBundle(name, found);
        wrong.push(...found.map((one) => `${name}: ${one}`));
      } finally {
        moved.remove();
      }
    }
  } finally {
    project.remove();
    await servers.close();
  }
  return wrong;
}

async function exerciseOne(file, calls, { addresses }) {
  const wrong = await exercise({ file, calls });
  wrong.push(...(await smoke({ file, store: "file:", calls: SMOKE_CALLS })));
  wrong.push(...(await smoke({ file, store: "memory:", calls: SMOKE_CALLS, repeats: false })));
  // One server for all bundles: each has a tenant of its own, and so its own keys.
  process.env.NEVERTWICE_TEST_TENANT = `bundle-${process.hrtime.bigint()}`;
  wrong.push(...(await smoke({ file, store: addresses.NEVERTWICE_TEST_POSTGRES, calls: SMOKE_CALLS })));
  return wrong;
}

async function exerciseUnderBun(file, calls) {
  const wrong = await exercise({ file, calls, runtime: bun() });
  return wrong.map((one) => `under bun: ${one}`);
}
