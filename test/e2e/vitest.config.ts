import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Real machines: one system for most files, two files at a time as they wait a lot, and limits that suit software emulation.
export default defineConfig({
  resolve: { alias: { rouse: fileURLToPath(new URL("../../sdk/src/index.ts", import.meta.url)) } },
  test: {
    name: "e2e",
    include: ["test/e2e/**/*.test.ts"],
    globalSetup: ["test/e2e/global-setup.ts"],
    maxWorkers: 2,
    testTimeout: 300_000,
    hookTimeout: 600_000,
  },
});
