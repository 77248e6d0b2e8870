import { afterEach, expect, test, vi } from "vitest";
import { logRequest, type RequestNote } from "../../worker/log.ts";

afterEach(() => vi.restoreAllMocks());

const PROGRAM: Partial<RequestNote> = { toProgram: true };
const SLOW = 1000;

test.each([
  ["to the API", {}, 200, undefined, true],
  ["to a program that runs", PROGRAM, 200, undefined, false],
  ["that a program refuses", PROGRAM, 404, undefined, false],
  ["that woke it", { ...PROGRAM, woken: true }, 200, undefined, true],
  ["that failed", PROGRAM, 502, undefined, true],
  ["that took long", { ...PROGRAM, startedAt: Date.now() - SLOW }, 200, undefined, true],
  ["to a program that runs, where each is wanted", PROGRAM, 200, "all", true],
  ["to the API, where none is wanted", {}, 500, "off", false],
] as const)("a request %s", (_, about, status, log, has) => {
  const said = vi.spyOn(console, "log").mockImplementation(() => undefined);
  const url = new URL("https://bot.example.com/path?secret=1");
  const request = new Request(url, { headers: { authorization: "Bearer secret" } });
  logRequest(log, request, url, { id: "r-1", startedAt: Date.now(), ...about }, status);
  expect(said).toHaveBeenCalledTimes(has ? 1 : 0);
  if (!has) return;
  const line = JSON.parse(String(said.mock.calls[0]?.[0])) as object;
  expect(line).toMatchObject({ requestId: "r-1", method: "GET", host: "bot.example.com", path: "/path", status });
  expect(JSON.stringify(line)).not.toMatch(/secret|toProgram/);
});
