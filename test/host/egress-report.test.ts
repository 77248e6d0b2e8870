/** What a host tells of the way out of its machines, while the edge comes and goes. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EgressReporter, type RunReport } from "../../backend-pool/report/egress-report.ts";
import { EgressReport } from "../../sdk/contract/egress.ts";

let server: Server;
let taken: { path: string; report: EgressReport; key: string | undefined }[];
let status: number;
let news: RunReport[];
let reporter: EgressReporter;
let release: (() => void) | null;
let held: Promise<void> | null;

beforeEach(async () => {
  [taken, news, status, release, held] = [[], [], 200, null, null];
  server = createServer(async (req, res) => {
    const report = EgressReport.parse(JSON.parse(await text(req)));
    taken.push({ path: req.url ?? "", report, key: req.headers.authorization });
    await held;
    res.writeHead(status).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const edgeUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const takeReports = () => news.splice(0);
  reporter = new EgressReporter({ edgeUrl, hostKey: "k", takeReports, everyMs: 3_600_000 });
  reporter.start();
});
afterEach(async () => {
  release?.();
  await reporter.close();
  server.closeAllConnections();
  server.close();
});

function totals(id: string, bytesOut: number, generation = 1): RunReport {
  const report = { generation, bytesOut, bytesIn: 0, refusals: [], secretUses: [] };
  return { machine: { id, account: "default", generation }, report };
}

test("news is told once, to the account and machine that it is of", async () => {
  news.push(totals("a~abcdefghijkl", 5), totals("b~abcdefghijkl", 6, 3));
  await reporter.send();
  await reporter.send();
  expect(taken.map(({ path, report }) => [path, report.bytesOut]).toSorted()).toEqual([
    ["/internal/accounts/default/machines/a~abcdefghijkl/egress-report", 5],
    ["/internal/accounts/default/machines/b~abcdefghijkl/egress-report", 6],
  ]);
  expect(new Set(taken.map(({ key }) => key))).toEqual(new Set(["Bearer k"]));
});

test("what was not taken is told again, with the newest totals of each run", async () => {
  status = 503;
  news.push(totals("a~abcdefghijkl", 5));
  await reporter.send();
  news.push(totals("a~abcdefghijkl", 9), totals("a~abcdefghijkl", 1, 2));
  await reporter.send();
  status = 200;
  taken.length = 0;
  await reporter.send();
  expect(taken.map(({ report }) => [report.generation, report.bytesOut])).toEqual([
    [1, 9],
    [2, 1],
  ]);
  await reporter.send();
  expect(taken).toHaveLength(2);
});

test("what an edge will never take is given up", async () => {
  for (const code of [400, 404, 410]) {
    status = code;
    news.push(totals("gone~abcdefghijkl", 5));
    await reporter.send();
  }
  status = 200;
  await reporter.send();
  expect(taken).toHaveLength(3);
});

test("what comes while a report is under way is told after it, and at the end", async () => {
  held = new Promise((resolve) => (release = resolve));
  news.push(totals("a~abcdefghijkl", 5));
  const first = reporter.send();
  await expect.poll(() => taken.length).toBe(1);
  news.push(totals("a~abcdefghijkl", 7));
  const second = reporter.send();
  release?.();
  await Promise.all([first, second]);
  news.push(totals("b~abcdefghijkl", 1));
  await reporter.close();
  expect(taken.map(({ report }) => report.bytesOut)).toEqual([5, 7, 1]);
});

test("an edge that is away costs nothing but time", async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  news.push(totals("a~abcdefghijkl", 5));
  await reporter.send();
  expect(taken).toEqual([]);
});
