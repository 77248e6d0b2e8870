import { defineConfig } from "vitest/config";

export default defineConfig({ test: { name: "archive", include: ["test/archive/**/*.test.ts"], testTimeout: 60_000 } });
