import { describe, expect, it } from "vitest";
import { faultsOf } from "./boundaries.ts";

const faults = (path: string, text: string) =>
  faultsOf([{ path, text }]).map((fault) => `${fault.line}: ${fault.message}`);

describe("folder boundaries", () => {
  const allowed: [string, string][] = [
    ["sdk/contract/a.ts", `import { z } from "zod";\nimport { b } from "./b.ts";`],
    ["sdk/src/a.ts", `import { b } from "../contract/b.ts";\ntype M = typeof import("node:fs");`],
    ["sdk/src/a.ts", `const fs = await import("node:fs");`],
    ["sdk/cli/a.ts", `import { readFile } from "node:fs/promises";\nimport { Sandbox } from "rouse";`],
    ["worker/a.ts", `import { o } from "../durable/sandbox/object.ts";\nimport { Hono } from "hono";`],
    ["durable/a.ts", `import { DurableObject } from "cloudflare:workers";`],
    ["durable/hosts/board.ts", `import { createDurable } from "itty-durable/itty-durable.js";`],
    ["backend-pool/local/a.ts", `import { Sandbox } from "../../sdk/src/index.ts";\nimport { x } from "../main.ts";`],
    [
      "backend-pool/guest/a.ts",
      `import type { Process } from "../../sdk/contract/guest.ts";\nimport net from "node:net";`,
    ],
    ["backend-pool/guest/a.ts", `import { guestLimits } from "../../sdk/contract/guest-limits.ts";`],
    ["backend-pool/guest/build.ts", `import { build } from "esbuild";`],
    ["test/e2e/a.ts", `import { o } from "../../durable/sandbox/object.ts";\nimport { x } from "itty-durable";`],
    [
      "sdk/contract/a.ts",
      `/** like\n * import { x } from "../src/x.ts"\n */\n// import "node:fs";\nconst a = "import x";`,
    ],
  ];
  it.each(allowed)("%s may: %s", (path, text) => {
    expect(faults(path, text)).toEqual([]);
  });

  const refused: [string, string, string][] = [
    ["sdk/contract/a.ts", `import { x } from "../src/x.ts";`, "1: sdk/contract may not import sdk/src/x.ts"],
    ["sdk/contract/a.ts", `import { Hono } from "hono";`, "1: sdk/contract may not import the package hono"],
    ["sdk/contract/a.ts", `\nimport { x } from "node:fs";`, "2: sdk/contract may not import node:fs when it loads"],
    ["sdk/src/a.ts", `export * from "../../worker/x.ts";`, "1: sdk/src may not import worker/x.ts"],
    ["sdk/src/a.ts", `import "../../durable/x.ts";`, "1: sdk/src may not import durable/x.ts"],
    ["worker/a.ts", `import type { X } from "../backend-pool/x.ts";`, "1: worker may not import backend-pool/x.ts"],
    ["durable/a.ts", `import { x } from "../worker/app.ts";`, "1: durable may not import worker/app.ts"],
    [
      "durable/sandbox/a.ts",
      `import { x } from "itty-durable";`,
      "1: only durable/hosts/board*.ts may import itty-durable",
    ],
    ["backend-pool/a.ts", `import {\n  x,\n} from "../sdk/src/x.ts";`, "1: backend-pool may not import sdk/src/x.ts"],
    ["backend-pool/a.ts", `const x = await import("../durable/x.ts");`, "1: backend-pool may not import durable/x.ts"],
    [
      "backend-pool/local/a.ts",
      `import { x } from "../../worker/x.ts";`,
      "1: backend-pool/local may not import worker/x.ts",
    ],
    [
      "backend-pool/guest/a.ts",
      `import { request } from "undici";`,
      "1: backend-pool/guest may not import the package undici",
    ],
    [
      "backend-pool/guest/a.ts",
      `import { type Process } from "../../sdk/contract/guest.ts";`,
      "1: backend-pool/guest may not import sdk/contract/guest.ts",
    ],
  ];
  it.each(refused)("%s may not: %s", (path, text, fault) => {
    expect(faults(path, text)).toEqual([fault]);
  });
});

describe("no shell strings", () => {
  it.each([
    `import { exec } from "node:child_process";`,
    `import { execFile, execSync } from "node:child_process";`,
    `import * as cp from "node:child_process";\ncp.exec("ls");`,
    `import cp from "child_process";\ncp.execSync("ls");`,
    `spawn("ls", { shell: true });`,
    `spawn("ls", { shell: "/bin/bash" });`,
  ])("refuses %s on the host", (text) => {
    expect(faults("backend-pool/a.ts", text)).toHaveLength(1);
  });

  it("lets regular expressions, SQL and argument lists be", () => {
    const text = [
      `import { execFile, spawn } from "node:child_process";`,
      `/a/.exec("a");`,
      `sql.exec("SELECT 1");`,
      `spawn("ls", ["-l"], { shell: false });`,
    ].join("\n");
    expect(faults("backend-pool/a.ts", text)).toEqual([]);
  });
});

describe("long files", () => {
  const lines = (count: number) => "x\n".repeat(count);

  it.each(["sdk/python/a.py", "backend-pool/local/a.sh", "test/unit/a.ts"])("%s ends at 500 lines", (path) => {
    expect(faults(path, lines(500))).toEqual([]);
    expect(faults(path, lines(501))).toHaveLength(1);
  });

  it("may be longer for a stated reason", () => {
    expect(faults("worker/a.ts", `// long file: one table of facts\n${lines(600)}`)).toEqual([]);
    expect(faults("a.sh", `#!/bin/sh\n# long file: one table of facts\n${lines(600)}`)).toEqual([]);
    expect(faults("worker/a.ts", `// long file:\n${lines(600)}`)).toHaveLength(1);
  });
});

describe("tests", () => {
  const test = { path: "test/unit/a.test.ts", text: "" };

  it("belong to a project with a configuration", () => {
    expect(faultsOf([test, { path: "test/unit/vitest.config.ts", text: "" }])).toEqual([]);
    expect(faultsOf([test])).toHaveLength(1);
  });

  it.each(["sdk/src/a.test.ts", "test/other/a.test.ts", "test/a.test.ts"])("%s would never run", (path) => {
    expect(faults(path, "")).toHaveLength(1);
  });
});
