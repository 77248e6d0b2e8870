import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/sdk/**/*.test.ts"],
    isolate: false,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
  },
});
