import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Real machines under leases of seconds: a host that is starved by a test beside it would lose its lease.
export default defineConfig({
  resolve: { alias: { rouse: fileURLToPath(new URL("../../sdk/src/index.ts", import.meta.url)) } },
  test: {
    name: "fencing",
    include: ["test/fencing/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 600_000,
  },
});
