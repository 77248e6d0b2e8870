/** `docs/benchmarks.md` says what the kept run measured. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../support/markdown.ts";

interface Row {
  readonly name: string;
  readonly unit: string;
  readonly runs: number;
  readonly p50: number;
  readonly p95: number;
  readonly floorP50: number | null;
}

const read = (path: string): string => readFileSync(join(root, path), "utf8");

test("the table of benchmarks has each row of the kept run, and no other", () => {
  const { rows } = JSON.parse(read("test/bench/results/latest.json")) as { rows: Row[] };
  const kept = rows.map(({ name, unit, p50, p95, floorP50, runs }) =>
    [name, unit, p50, p95, floorP50 ?? "-", runs].join(" "),
  );
  const table = read("docs/benchmarks.md")
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replaceAll("`", "")))
    .filter((cells) => cells.length === 9 && rows.some(({ name }) => name === cells[2]))
    .map((cells) => cells.slice(2, 8).join(" "));
  expect(table.toSorted()).toEqual(kept.toSorted());
});
