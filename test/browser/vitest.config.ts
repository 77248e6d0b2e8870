import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// The dashboard in a real browser, on an edge as a process and a host whose machines are plain processes.
export default defineConfig({
  test: {
    name: "browser",
    include: ["test/browser/**/*.test.ts"],
    globalSetup: [fileURLToPath(new URL("global-setup.ts", import.meta.url))],
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 90_000,
  },
});
