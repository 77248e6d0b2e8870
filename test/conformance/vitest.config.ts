import { defineConfig } from "vitest/config";

// One suite for every driver; the real one boots under software emulation where there is no KVM.
export default defineConfig({
  test: {
    name: "conformance",
    include: ["test/conformance/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 900_000,
  },
});
