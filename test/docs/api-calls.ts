/** Whether calls of the HTTP API in shell examples are ones that there are. Pure but for reading the API's description. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../support/markdown.ts";

const { paths } = JSON.parse(readFileSync(join(root, "sdk/openapi.json"), "utf8")) as {
  paths: Record<string, Record<string, unknown>>;
};

const operations = Object.entries(paths).flatMap(([path, methods]) => {
  const pattern = path.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&").replaceAll(/\{[^}]+\}/g, "[^/]+?");
  return Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path: new RegExp(`^${pattern}$`) }));
});

/** Options of curl that take a value, as far as examples use them. */
const VALUED = new Set(["-X", "-H", "-d", "-T", "-o"]);

/** What is wrong with a `call ...` or `curl ...` of the API, or null; also when it is none. */
export function faultOfCall(words: readonly string[]): string | null {
  const values = new Map<string, string>();
  const urls: string[] = [];
  for (let i = 1; i < words.length; i += 1) {
    const word = words[i] ?? "";
    if (VALUED.has(word)) values.set(word, words[(i += 1)] ?? "");
    else if (!word.startsWith("-")) urls.push(word);
  }
  const url = urls.find((one) => /^\$API\/v1(\/|$)/.test(one));
  if (url === undefined) return null;
  const data = values.get("-d");
  const method = values.get("-X") ?? (values.has("-T") ? "PUT" : data === undefined ? "GET" : "POST");
  const path = url.slice("$API".length).replace(/\?.*$/s, "");
  if (!operations.some((one) => one.method === method && one.path.test(path)))
    return `${method} ${path}: there is no such operation`;
  if (data === undefined || data.includes("$")) return null;
  try {
    JSON.parse(data);
    return null;
  } catch {
    return `${method} ${path}: the body is not JSON: ${data}`;
  }
}
