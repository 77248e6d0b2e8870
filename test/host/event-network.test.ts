/** The network that events leave by, in workerd itself: what a name resolves to decides, not what it says. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { lookup } from "node:dns/promises";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, it } from "vitest";
import { eventNetwork } from "../../backend-pool/local/outbound.ts";

const seen: string[] = [];
let server: Server;
let flare: Miniflare;
let port = 0;

const script = `export default {
  async fetch(request, env) {
    const { url, network } = await request.json();
    try {
      const response = await env[network].fetch(url, { method: "POST", body: "{}", redirect: "manual" });
      return Response.json({ status: response.status });
    } catch {
      return Response.json({ status: null });
    }
  },
};`;

beforeAll(async () => {
  server = createServer((req, res) => {
    seen.push(req.url ?? "");
    res.writeHead(302, { location: "/elsewhere" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "::", resolve));
  port = (server.address() as AddressInfo).port;
  flare = new Miniflare(
    convertV4MiniflareOptions({
      name: "events",
      modules: true,
      script,
      compatibilityDate: "2026-11-01",
      serviceBindings: { PUBLIC: eventNetwork(undefined), ANY: eventNetwork("any") },
      cf: false,
    }),
  );
  await flare.ready;
});

afterAll(async () => {
  await flare.dispose();
  server.close();
});

async function statusOf(network: "PUBLIC" | "ANY", host: string): Promise<number | null> {
  const body = JSON.stringify({ network, url: `http://${host}:${port}/${network}` });
  const response = await flare.dispatchFetch("http://edge.test/", { method: "POST", body });
  return ((await response.json()) as { status: number | null }).status;
}

const loopback = ["127.0.0.1", "127.1.2.3", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"];

it("does not lead to this machine, whatever it is called", async () => {
  const { address } = await lookup(hostname()).catch(() => ({ address: "" }));
  const own = /^(?:127|10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\./.test(address) ? [hostname()] : [];
  // A name: that it resolves to this machine is found out by whoever connects.
  for (const host of [...loopback, "localhost", ...own])
    expect({ host, status: await statusOf("PUBLIC", host) }).toEqual({ host, status: null });
  expect(seen).toEqual([]);
});

it("leads anywhere where its operator wants that, and follows nothing", async () => {
  for (const host of ["127.0.0.1", "localhost", "[::1]"]) expect(await statusOf("ANY", host)).toBe(302);
  expect(seen).toEqual(["/ANY", "/ANY", "/ANY"]);
});
