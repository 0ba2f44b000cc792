// vitest as the exercises expect Jest: its functions are global, and `told.mjs` hears of each test.
export default {
  cacheDir: "/tmp/vite",
  test: {
    globals: true,
    reporters: ["default", "/tests/told.mjs"],
    setupFiles: ["/tests/globals.mjs"],
    testTimeout: 60_000, // the task has a limit of its own
  },
};
