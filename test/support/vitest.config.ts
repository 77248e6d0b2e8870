import { defineConfig } from "vitest/config";

export default defineConfig({ test: { include: ["test/support/**/*.test.ts"] } });
