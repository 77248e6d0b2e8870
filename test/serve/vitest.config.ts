import { defineConfig } from "vitest/config";

// The edge as a process, with nothing of the tests inside, on a fake host.
export default defineConfig({
  test: { name: "serve", include: ["test/serve/**/*.test.ts"], testTimeout: 90_000, hookTimeout: 90_000 },
});
