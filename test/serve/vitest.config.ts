import { defineConfig } from "vitest/config";

// The edge as a process, with nothing of the tests inside, on a fake host. Both kinds at once: they wait more than they work.
export default defineConfig({
  test: {
    name: "serve",
    include: ["test/serve/**/*.test.ts"],
    maxWorkers: 3,
    testTimeout: 90_000,
    hookTimeout: 90_000,
  },
});
