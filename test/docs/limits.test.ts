/** `docs/limits.md` says what the contract does. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../support/markdown.ts";

const SECOND = 1000;
const KIB = 1024;

/** Of what a table says: bytes, milliseconds, or a plain number. */
const units: Readonly<Record<string, number>> = {
  ...{ "": 1, bytes: 1, KiB: KIB, MiB: KIB ** 2, GiB: KIB ** 3, TiB: KIB ** 4 },
  ...{ s: SECOND, h: 3600 * SECOND, day: 86_400 * SECOND, days: 86_400 * SECOND },
};

/** The same of what a constant's name says. */
function unitOf(property: string): number {
  if (property.includes("MiB")) return KIB ** 2;
  if (/seconds/i.test(property)) return SECOND;
  return /days/i.test(property) ? 86_400 * SECOND : 1;
}

const folder = join(root, "sdk/contract");
const modules = readdirSync(folder).filter((name) => name.endsWith(".ts"));
const objects: Readonly<Record<string, unknown>> = Object.assign(
  {},
  ...(await Promise.all(modules.map((name) => import(join(folder, name)) as Promise<object>))),
);

function constantOf(name: string): number {
  const [object = "", property = ""] = name.split(".");
  const value: unknown = (objects[object] as Record<string, unknown> | undefined)?.[property];
  return typeof value === "number" ? value * unitOf(property) : Number.NaN;
}

test("each limit of the page is the contract's", () => {
  const page = readFileSync(join(root, "docs/limits.md"), "utf8");
  const rows = [...page.matchAll(/^\|(?<what>[^|]+)\|(?<value>[^|]+)\|(?<names>[^|]*`[^|]+)\|$/gm)];
  expect(rows.length).toBeGreaterThan(150);
  const wrong = rows.flatMap(({ groups }) => {
    const { what = "", value = "", names = "" } = groups ?? {};
    const [, amount, unit = ""] = /^(\d+) ?([A-Za-z]*)$/.exec(value.trim()) ?? [];
    const said = Number(amount) * (units[unit] ?? Number.NaN);
    return [...names.matchAll(/`([^`]+)`/g)]
      .map(([, name = ""]) => ({ name, is: constantOf(name) }))
      .filter(({ is }) => is !== said)
      .map(({ name, is }) => `${what.trim()}: ${value.trim()}, but ${name} is ${is}`);
  });
  expect(wrong).toEqual([]);
});
