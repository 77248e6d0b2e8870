import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { secrets } from "./secrets.ts";

/** One for all files; the tests in it take names of their own. */
const disk = mkdtempSync(join(tmpdir(), "rouse-disk-"));

/** They look at all that an edge has, such as every host or sandbox: each has one of its own. */
const apart = ["api", "differences", "hosts", "lifecycle", "rouse-mcp"].map((name) => `test/edge/${name}.test.ts`);

const plugin = () =>
  cloudflareTest(({ inject }) => ({
    wrangler: { configPath: fileURLToPath(new URL("../../wrangler.toml", import.meta.url)) },
    miniflare: {
      serviceBindings: { TEST_DISK: { disk: { path: disk, writable: true } } },
      bindings: {
        ROUSE_DOMAIN: "rouse.test",
        ROUSE_LOG: "off",
        ROUSE_TRIALS: "open",
        // Receivers of the tests are on this machine.
        ROUSE_EVENT_TARGETS: "any",
        ROUSE_TRIAL_CREDIT: "1000000",
        // Tests call as fast as they can; the limit has a test of its own.
        ROUSE_RATE_LIMIT: "100000:100000",
        ROUSE_SECRET: secrets.signingSecret,
        ROUSE_HOST_SECRET: secrets.hostSecret,
        ROUSE_BOOTSTRAP_KEY: secrets.apiKey,
        // How many seeds, or which, tests by seed play.
        ROUSE_SEEDS: process.env["ROUSE_SEEDS"] ?? "",
        HOST_URL: inject("hostUrl"),
        ROUSE_DNS_URL: inject("dnsUrl"),
      },
    },
  }));

const project = (name: string, chosen: { include: string[]; exclude?: string[]; isolate: boolean }) => ({
  plugins: [plugin()],
  test: {
    name,
    ...chosen,
    globalSetup: [fileURLToPath(new URL("global-setup.ts", import.meta.url))],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});

// One edge for most files, whose tests take names of their own: to start one takes seconds.
export default defineConfig({
  test: {
    projects: [
      project("edge", { include: ["test/edge/**/*.test.ts"], exclude: apart, isolate: false }),
      project("edge apart", { include: apart, isolate: true }),
    ],
  },
});
