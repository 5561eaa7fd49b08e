import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    // Crash and fault tests start real processes; a starved machine must not turn into a red test.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two workers on two cores: several tests drive child processes of their own.
    maxWorkers: 2,
  },
});
