import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    // One thread: the tests wait for the network most of the time.
    pool: "threads",
    maxWorkers: 1,
    isolate: false,
    testTimeout: 60_000,
    expect: { poll: { timeout: 50_000 } },
  },
});
