import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Those that kill processes by the hundred. vitest goes by the size of a file where it knows no better, and some of these are
// a few lines: begun at the end, they leave a worker waiting for another.
const LONG = /\/test\/(crash|linearizability)\//;

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

// What `npm test` leaves out: it takes minutes, or needs a gigabyte of frameworks.
const LONG_ONLY = ["test/{agents,orms,bundles,typescript}/**/*.test.ts", "**/*.long.test.ts"];
// What tries a sample in `npm test` and everything in `npm run test:long`. All other tests are the same in both, and run in the first.
const SAMPLED = ["test/{crash,linearizability,python}/**/*.test.ts", "test/docs.test.ts"];
const isLong = process.env.NEVERTWICE_TESTS === "long";

export default defineConfig({
  resolve: {
    alias: [
      // The SQLite store starts a thread from a file beside it, and only the build has that file as JavaScript: what
      // opens a store by its name (the default, the command) gets the built one.
      {
        find: /^\.\/stores\/sqlite\/index\.ts$/,
        replacement: fileURLToPath(new URL("./dist/stores/sqlite/index.js", import.meta.url)),
      },
    ],
  },
  test: {
    include: isLong ? [...LONG_ONLY, ...SAMPLED] : ["src/**/*.test.ts", "test/**/*.test.ts"],
    exclude: ["**/node_modules/**", ...(isLong ? [] : LONG_ONLY)],
    // Crash and fault tests start real processes; a starved machine must not turn into a red test.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Three workers on two cores: many tests wait for leases, timeouts and processes of their own.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // PostgreSQL, PgBouncer, Redis and Redis Cluster of our own for every run that needs them (about four seconds); what was tried.
    globalSetup: ["test/services/global-setup.ts", "test/support/tally.ts"],
  },
});
