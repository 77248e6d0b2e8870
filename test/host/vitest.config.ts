import { defineConfig } from "vitest/config";

export default defineConfig({ test: { name: "host", include: ["test/host/**/*.test.ts"] } });
