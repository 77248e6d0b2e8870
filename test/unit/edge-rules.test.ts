import { describe, expect, it } from "vitest";
import { z } from "zod";
import { fromCursor, toCursor } from "../../durable/account/cursor.ts";
import { placeOn } from "../../durable/hosts/placement.ts";
import { namedUrl } from "../../durable/named-url.ts";
import type { Host } from "../../sdk/contract/host.ts";
import { labelFor, labelForKey, isLabel } from "../../sdk/contract/names.ts";
import { canonical, holdMs, readQuery } from "../../worker/api/input.ts";
import { matcher } from "../../worker/api/operation.ts";
import { errorCodes } from "../../sdk/contract/error-codes.ts";
import { openApi } from "../../worker/api/openapi.ts";
import { operations } from "../../worker/api/operations.ts";
import { plainRoutes } from "../../worker/api/plain-routes.ts";
import { guestHeaders } from "../../worker/proxy/headers.ts";
import { parseTarget } from "../../worker/proxy/target.ts";

describe("parseTarget", () => {
  const of = (host: string, path = "/") => parseTarget(host, path, "localhost:8787");

  it.each([
    ["agent-u-42.localhost:8787", { label: "agent-u-42", account: "default", port: 8080, prefix: "" }],
    ["AGENT.localhost", { label: "agent", port: 8080 }],
    ["3000-agent.localhost:8787", { label: "agent", port: 3000 }],
    ["3000-agent--acme.localhost:8787", { label: "agent", account: "acme", port: 3000 }],
    ["0sbx-abcdefghijklmnop.localhost", { label: "0sbx-abcdefghijklmnop", port: 8080 }],
  ])("reads the host %s", (host, target) => expect(of(host)).toMatchObject(target));

  it.each([
    ["/s/agent/3000/a/b", { label: "agent", port: 3000, prefix: "/s/agent/3000" }],
    ["/s/agent--acme/80", { label: "agent", account: "acme", port: 80, prefix: "/s/agent--acme/80" }],
  ])("reads the path %s", (path, target) => expect(of("localhost:8787", path)).toMatchObject(target));

  it.each([
    ["localhost:8787", "/v1/me", null],
    ["127.0.0.1:8787", "/", null],
    ["evil-localhost", "/", null],
    ["a.b.localhost", "/", { fault: "name" }],
    ["-x.localhost", "/", { fault: "name" }],
    ["65536-agent.localhost", "/", { fault: "port" }],
    ["10800-agent.localhost", "/", { fault: "port" }],
    ["localhost", "/s/agent/0/", { fault: "port" }],
    ["localhost", "/s/agent/65536/", { fault: "port" }],
    ["localhost", "/s/agent/10800/", { fault: "port" }],
    ["localhost", "/s/agent/x/", { fault: "port" }],
    ["localhost", "/s/agent", { fault: "name" }],
    ["localhost", "/s/a%2Fb/80/", { fault: "name" }],
  ])("answers %s%s with %o", (host, path, parsed) => expect(of(host, path)).toEqual(parsed));

  it("reads what namedUrl writes", async () => {
    const parts = { scheme: "http", domain: "localhost:8787" };
    for (const name of ["agent", "12", "Ünïcödé", "a:b/c d"]) {
      for (const account of ["default", "acme"]) {
        for (const port of [8080, 3000]) {
          const label = await labelFor(name);
          expect(of(new URL(namedUrl(parts, { account, label }, port)).host)).toMatchObject({ label, account, port });
        }
      }
    }
  });
});

describe("matcher", () => {
  const match = matcher(operations);

  it.each([
    ["POST", "/v1/sandboxes/a%3Ab:pause", "/v1/sandboxes/{id}:pause", ["a:b"]],
    ["POST", "/v1/sandboxes/agent%7Eabcdefghijkl:exec", "/v1/sandboxes/{id}:exec", ["agent~abcdefghijkl"]],
    ["GET", "/v1/sandboxes/a%2Fb", "/v1/sandboxes/{id}", ["a/b"]],
    ["GET", "/v1/sandboxes/%C3%BC%20x/files/list", "/v1/sandboxes/{id}/files/list", ["ü x"]],
    ["POST", "/v1/sandboxes/x/processes/p-1:signal", "/v1/sandboxes/{id}/processes/{pid}:signal", ["x", "p-1"]],
    ["POST", "/v1/sandboxes/x/files:mkdir", "/v1/sandboxes/{id}/files:mkdir", ["x"]],
    ["DELETE", "/v1/sandboxes/x/previews/80", "/v1/sandboxes/{id}/previews/{port}", ["x", "80"]],
    ["POST", "/v1/volumes/a%3Ab:backup-policy", "/v1/volumes/{volume}:backup-policy", ["a:b"]],
    ["POST", "/v1/volumes/a:backup", "/v1/volumes/{volume}:backup", ["a"]],
    [
      "POST",
      "/v1/volumes/a%3Ab/attachments/att-1:detach",
      "/v1/volumes/{volume}/attachments/{attachment}:detach",
      ["a:b", "att-1"],
    ],
    ["DELETE", "/v1/volume-backups/bak-1", "/v1/volume-backups/{backup}", ["bak-1"]],
  ])("finds %s %s", (method, path, template, params) => {
    expect(match(method, path)).toMatchObject({ operation: { path: template, method }, params });
  });

  it("tells a wrong method from a wrong path", () => {
    expect(match("PUT", "/v1/sandboxes")).toBe("method_not_allowed");
    expect(match("POST", "/v1/sandboxes/x:explode")).toBeNull();
    expect(match("GET", "/v1/sandboxes/%E0%A4%A")).toBe("bad_encoding");
  });
});

describe("input", () => {
  it("reads repeated keys as a list only where the schema has one", () => {
    const schema = z.strictObject({ label: z.array(z.string()).optional(), name: z.string().optional() });
    expect(readQuery(schema, new URLSearchParams("label=a&name=x"))).toEqual({ label: ["a"], name: "x" });
    expect(() => readQuery(schema, new URLSearchParams("name=x&name=y&other=1"))).toThrow(/name.*other/);
  });

  it("waits as told, and for plain clients to the end", () => {
    expect(holdMs(new Headers({ prefer: "wait=5" }))).toBe(5000);
    expect(holdMs(new Headers({ prefer: "respond-async, wait=100000" }))).toBe(120_000);
    expect(holdMs(new Headers({ "x-runtime-client": "sdk-js/1" }))).toBe(0);
    expect(holdMs(new Headers())).toBe(60_000);
  });

  it("has one text for one content", () => {
    expect(canonical({ b: [1, { d: null, c: "x" }], a: undefined })).toBe(canonical({ b: [1, { c: "x", d: null }] }));
    expect(canonical({ a: 1 })).not.toBe(canonical({ a: "1" }));
  });
});

it("keeps what is meant for the edge from the program", () => {
  const from = new Headers({
    authorization: "Bearer x",
    cookie: "a=1; rouse_token=secret; b=2",
    connection: "close, x-hop",
    "x-hop": "1",
    "x-rouse-key": "k",
    "x-rouse-ticket": "t",
    "x-runtime-preview-token": "p",
    "x-forwarded-for": "6.6.6.6",
    accept: "*/*",
  });
  const to = {
    host: "agent.localhost",
    scheme: "http",
    prefix: "",
    requestId: "r1",
    dropAuthorization: true,
    keyId: null,
    endsAt: null,
  };
  expect(Object.fromEntries(guestHeaders(from, to))).toEqual({
    accept: "*/*",
    cookie: "a=1; b=2",
    // Of a client that is not known, or on the edge's machine.
    "x-forwarded-for": "10.0.2.3",
    "x-forwarded-host": "agent.localhost",
    "x-forwarded-proto": "http",
    "x-request-id": "r1",
  });
  const socket = guestHeaders(new Headers({ connection: "Upgrade", upgrade: "websocket", authorization: "Basic x" }), {
    ...to,
    dropAuthorization: false,
  });
  expect(socket.get("upgrade")).toBe("websocket");
  expect(socket.get("authorization")).toBe("Basic x");
});

describe("placement", () => {
  const host = (hostId: string, freeMemoryMiB: number, change: Partial<Host> = {}) =>
    ({
      hostId,
      freeMemoryMiB,
      freeDiskMiB: 100_000,
      live: true,
      draining: false,
      images: ["default"],
      ...change,
    }) as Host;
  const shape = { image: "default", vcpu: 1, memoryMiB: 256, diskMiB: 4096 };
  const place = (hosts: readonly Host[], random?: () => number) => {
    const placement = placeOn(hosts, shape, random);
    return "host" in placement ? placement.host.hostId : placement.failure.code;
  };

  it("takes the host with the most free memory among those that can take the machine", () => {
    const others = [
      host("silent", 9000, { live: false }),
      host("without the image", 9000, { images: ["x"] }),
      host("draining", 9000, { draining: true }),
      host("without disk", 9000, { freeDiskMiB: 100 }),
    ];
    expect(place([host("a", 1000), host("b", 3000), ...others])).toBe("b");
    expect(place(others.slice(1))).toBe("no_capacity");
    expect(place(others.slice(1, 2))).toBe("invalid_image");
    expect(place(others.slice(0, 1))).toBe("no_host");
    expect(place([host("small", 255)])).toBe("no_capacity");
    expect(place([])).toBe("no_host");
  });

  it("spreads what many decide at once on the same board", () => {
    const hosts = Array.from({ length: 100 }, (_, i) => host(`h${i}`, 10_000 + i));
    let state = 1;
    const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
    const taken = new Map<string, number>();
    for (let i = 0; i < 1000; i++) {
      const chosen = place(hosts, random);
      taken.set(chosen, (taken.get(chosen) ?? 0) + 1);
    }
    // All of them would take the last host; the best of three takes it three times in a hundred.
    expect(Math.max(...taken.values())).toBeLessThan(80);
    expect(taken.size).toBeGreaterThan(60);
  });
});

it("reads its own cursors and no others", () => {
  const position = { createdAt: "2031-01-02T03:04:05.000Z", label: "agent" };
  expect(fromCursor(toCursor(position))).toEqual(position);
  for (const text of ["", "x", "%%%", btoa("yesterday agent")]) expect(fromCursor(text)).toBeNull();
});

it("gives a key one label, another for another account", async () => {
  const label = await labelForKey("default", "k1");
  expect(isLabel(label)).toBe(true);
  expect(await labelForKey("default", "k1")).toBe(label);
  expect(await labelForKey("acme", "k1")).not.toBe(label);
});

it("takes a key over slashes and colons", () => {
  const match = matcher(operations);
  const key = "/v1/sandboxes/bot/state/keys/";
  expect(match("GET", `${key}a/b:c%2Fd`)).toMatchObject({ params: ["bot", "a/b:c/d"] });
  expect(match("GET", key)).toBeNull();
  expect(match("PUT", "/v1/sandboxes/bot/objects/a:sign")).toMatchObject({ params: ["bot", "a:sign"] });
});

it("describes every operation, with references that lead somewhere", () => {
  const document = openApi(operations, plainRoutes);
  const text = JSON.stringify(document);
  const { paths, components, tags } = document as {
    paths: Record<string, Record<string, { operationId: string; tags: string[]; "x-error-codes": string[] }>>;
    components: Record<string, Record<string, object>>;
    tags: { name: string }[];
  };
  for (const { path, method } of operations)
    expect(paths[path.replace("*}", "}")]).toHaveProperty(method.toLowerCase());
  const refs = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref ?? "");
  expect(refs.length).toBeGreaterThan(20);
  for (const ref of refs) {
    const [kind = "", name = ""] = ref.replace("#/components/", "").split("/");
    expect(components[kind]).toHaveProperty([name]);
  }
  for (const [name, schema] of Object.entries(components["schemas"] ?? {}))
    expect(schema).not.toMatchObject({ $ref: `#/components/schemas/${name}` });
  const all = Object.values(paths).flatMap((methods) => Object.values(methods));
  expect(new Set(all.map(({ operationId }) => operationId)).size).toBe(all.length);
  for (const {
    tags: [part],
  } of all)
    expect(tags).toContainEqual({ name: part });
  // What only named URLs, programs in a machine, and clients say.
  const elsewhere = ["egress_refused", "route_not_found", "port_not_listening", "service_not_ready", "service_failed"];
  const codes = new Set([
    ...elsewhere,
    "boot_failed",
    "unknown_preset",
    "wrong_provider",
    ...all.flatMap((one) => one["x-error-codes"]),
  ]);
  expect(errorCodes.filter((code) => !codes.has(code))).toEqual([]);
});
