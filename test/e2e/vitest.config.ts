import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Real machines: one system for all files, one file at a time, and limits that suit software emulation.
export default defineConfig({
  resolve: { alias: { rouse: fileURLToPath(new URL("../../sdk/src/index.ts", import.meta.url)) } },
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/global-setup.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 600_000,
  },
});
