#!/usr/bin/env node
// The command line: the built one of a package, or in a checkout the source, with the Node.js that the checkout pins.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const built = new URL("../dist/cli/main.js", import.meta.url);
const source = fileURLToPath(new URL("../cli/main.ts", import.meta.url));
if (existsSync(source)) {
  const node = fileURLToPath(new URL("../../node_modules/.bin/node", import.meta.url));
  const flags = ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning"];
  const { status, signal } = spawnSync(node, [...flags, source, ...process.argv.slice(2)], { stdio: "inherit" });
  if (signal) process.kill(process.pid, signal);
  process.exitCode = status ?? 1;
} else {
  await import(built.href);
}
