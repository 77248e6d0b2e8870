import { defineConfig } from "vitest/config";

// What the documentation says is tried: its examples, its links, its guides.
export default defineConfig({
  test: { name: "docs", include: ["test/docs/**/*.test.ts"], testTimeout: 90_000, hookTimeout: 120_000 },
});
