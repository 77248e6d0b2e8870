import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { defaultRates } from "../../sdk/contract/pricing.ts";
import { CliBench } from "./cli-bench.ts";

let bench: CliBench;
beforeEach(async () => {
  bench = await CliBench.start();
});
afterEach(() => bench[Symbol.asyncDispose]());

const example = "--users 1000 --awake-hours 10 --cpu 0.1 --memory-gib 4 --stored-gb 0.5".split(" ");

test("cost prints the lines of the published example and its total", async () => {
  const { code, stdout } = await bench.run(["cost", ...example]);
  expect(code).toBe(0);
  const amounts = stdout
    .trimEnd()
    .split("\n")
    .map((line) => /^(\w+).* (\S+)$/.exec(line)?.slice(1));
  expect(amounts.slice(1)).toEqual([
    ["CPU", "$25.00"],
    ["Memory", "$300.00"],
    ["Asleep", "$39.44"],
    ["Total", "$364.44"],
  ]);
});

test("cost answers JSON, and takes other rates", async () => {
  const file = join(bench.folder, "rates.json");
  await writeFile(file, JSON.stringify({ ...defaultRates, memoryPerGibHour: 15_000 }));
  const { stdout } = await bench.run(["cost", ...example, "--volume-gib", "1", "--rates", file, "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({
    lines: [{ dollars: "$25.00" }, { dollars: "$600.00" }, { dollars: "$39.44" }, { micros: 110_160_000 }],
    total: "$774.60",
  });
});

test("cost says every fault of its numbers and its file", async () => {
  const wrong = await bench.run(["cost", "--users", "0", "--cpu", "x", "--memory-gib=-1"]);
  expect(wrong.code).toBe(2);
  for (const flag of ["--users", "--cpu", "--memory-gib"]) expect(wrong.stderr).toContain(flag);
  expect((await bench.run(["cost", "--awake-hours", "721"])).stderr).toContain("--awake-hours");
  const file = join(bench.folder, "bad.json");
  await writeFile(file, JSON.stringify({ ...defaultRates, cpuPerVcpuHour: -1, extra: true }));
  const bad = await bench.run(["cost", "--rates", file]);
  expect(bad.code).toBe(2);
  expect(bad.stderr).toContain("cpuPerVcpuHour");
  expect(bad.stderr).toContain("extra");
  expect((await bench.run(["cost", "--rates", join(bench.folder, "none.json")])).code).toBe(2);
});
