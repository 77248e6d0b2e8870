import { defineConfig } from "vitest/config";

// Real machines: one system for all files, one file at a time, and limits that suit software emulation.
export default defineConfig({
  resolve: { conditions: ["rouse-source"] },
  ssr: { resolve: { conditions: ["rouse-source", "node"] } },
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/global-setup.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 600_000,
  },
});
