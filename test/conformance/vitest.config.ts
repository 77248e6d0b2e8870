import { defineConfig } from "vitest/config";

// One suite for every driver; the real one boots under software emulation where there is no KVM. Two files at a time, as
// they wait a lot.
export default defineConfig({
  test: {
    name: "conformance",
    include: ["test/conformance/**/*.test.ts"],
    maxWorkers: 2,
    testTimeout: 240_000,
    hookTimeout: 900_000,
  },
});
