/** How an edge on plain workerd is set up: its configuration, its secrets, its folder. */
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openEdgeFolder, refuseWorkerdFolder } from "../../backend-pool/local/edge-folder.ts";
import { readEdgeConfig } from "../../backend-pool/local/edge-config.ts";
import { SETTINGS, workerOptions } from "../../backend-pool/local/edge-worker.ts";
import {
  uniqueKeys,
  workerdConfig,
  type EdgePlan,
  type WorkerOptions,
} from "../../backend-pool/local/workerd-config.ts";
import { TestEdge } from "./test-edge.ts";

const repository = fileURLToPath(new URL("../../", import.meta.url));
const worker = workerOptions() as unknown as WorkerOptions;
const plan: EdgePlan = {
  listen: "127.0.0.1:8787",
  dir: '/srv/a "b" \\c',
  variables: ["ROUSE_SECRET", "ROUSE_DOMAIN"],
  hostNetworks: ["10.1.0.0/16"],
  eventTargets: undefined,
};

describe("the configuration", () => {
  const text = workerdConfig(worker, plan);

  it("has every binding of wrangler.toml, and every class that it exports", async () => {
    const toml = await readFile(join(repository, "wrangler.toml"), "utf8");
    const names = [...toml.matchAll(/^(?:name|binding) = "([A-Z_]+)"/gm)].map(([, name]) => name ?? "");
    const classes = [...toml.matchAll(/^\[exports\.(\w+)\]/gm)].map(([, name]) => name ?? "");
    expect(names.length).toBeGreaterThan(11);
    for (const name of names) expect(text).toMatch(new RegExp(`\\(name = "${name}(?:_DISK)?", `));
    for (const name of classes)
      expect(text).toContain(`(className = "${name}", uniqueKey = "rouse-${name}", enableSql = true)`);
    expect(text).toContain('(name = "ROUSE_SCHEME", text = "http")');
  });

  it("takes secrets and settings from the environment, once each", () => {
    expect(text).toContain('(name = "ROUSE_SECRET", fromEnvironment = "ROUSE_SECRET")');
    expect(text.match(/"ROUSE_DOMAIN", /g)).toHaveLength(1);
  });

  it("lets the Worker to its hosts' networks, and events to public addresses alone", () => {
    expect(text).toContain('(name = "internet", network = (allow = ["10.1.0.0/16"]');
    expect(text).toMatch(/name = "events-out", network = \(allow = \["public"\], deny = \["64:ff9b::\/96"/);
    expect(workerdConfig(worker, { ...plan, eventTargets: "any" })).toContain(
      'allow = ["public", "private"], deny = []',
    );
  });

  it("quotes what it is given", () => {
    expect(text).toContain(String.raw`path = "/srv/a \"b\" \\c/objects/do"`);
    expect(() => workerdConfig(worker, { ...plan, dir: "/a\nb" })).toThrow("control character");
  });

  it("is refused for what this kind of edge can't give, all of it named", () => {
    const more = {
      ...worker,
      kvNamespaces: { A: "b" },
      durableObjects: { X: { className: "X", scriptName: "other" } },
    };
    expect(() => workerdConfig(more, plan)).toThrow(/kvNamespaces; X of another Worker/);
  });
});

describe("the settings", () => {
  it("are all that the Worker knows", async () => {
    const types = await readFile(join(repository, "worker/env.d.ts"), "utf8");
    const known = new Set([...types.matchAll(/^ {4}(ROUSE_\w+)\??: string/gm)].map(([, name]) => name));
    const own = [
      "ROUSE_DOMAIN",
      "ROUSE_SCHEME",
      "ROUSE_TRUSTED_PROXIES",
      "ROUSE_SECRET",
      "ROUSE_HOST_SECRET",
      "ROUSE_BOOTSTRAP_KEY",
    ];
    const given = new Set<string | undefined>([...SETTINGS, ...own]);
    expect([...known].filter((name) => !given.has(name))).toEqual([]);
  });

  it("are read from flags and environment, and what is wrong is named together, without values", () => {
    const config = readEdgeConfig(["--", "--dir", "/srv/x", "--listen", "*:9000"], {
      ROUSE_HOST_NETWORKS: "public, 10.0.0.0/8",
    });
    expect(config).toMatchObject({
      ROUSE_EDGE_DIR: "/srv/x",
      ROUSE_DOMAIN: "localhost:9000",
      ROUSE_HOST_NETWORKS: ["public", "10.0.0.0/8"],
    });
    // A folder that is named has its own secrets, whatever other system this shell is set up for.
    const secretsIn = (args: string[], env: Record<string, string>) => readEdgeConfig(args, env).secretsDir;
    expect(secretsIn(["--dir", "/srv/x"], { ROUSE_HOME: "/home" })).toBe("/srv/x");
    expect(secretsIn([], { ROUSE_EDGE_DIR: "/srv/y", ROUSE_HOME: "/home" })).toBe("/home");
    expect(secretsIn([], { ROUSE_EDGE_DIR: "/srv/y" })).toBe("/srv/y");
    const wrong = () =>
      readEdgeConfig(["--scheme", "ftp"], { ROUSE_SECRET: "short-one", ROUSE_HOST_NETWORKS: "everything" });
    expect(wrong).toThrow(/ROUSE_EDGE_DIR[^]*ROUSE_SCHEME[^]*ROUSE_HOST_NETWORKS[^]*ROUSE_SECRET/);
    expect(wrong).not.toThrow("short-one");
    expect(() => readEdgeConfig(["--dir", "/x"], { ROUSE_SECRET: "a-secret-of-20-chars" })).toThrow("together");
  });
});

describe("the folder", () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rouse-folder-"));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  it("loses what was not finished, and nothing else", async () => {
    const own = join(dir, "own");
    const vault = join(own, "buckets/b/blobs/v-1");
    const open = () => openEdgeFolder(own, uniqueKeys(worker), ["buckets/b"]);
    await mkdir(own);
    await open();
    await mkdir(vault, { recursive: true });
    await mkdir(join(own, "buckets/b/blobs/v-2"));
    for (const name of ["one.blob", ".two.blob.77.0.tmp"]) await writeFile(join(vault, name), "x");
    await mkdir(join(own, "objects/do/rouse-SandboxObject"));
    await open();
    await open();
    expect((await readdir(own, { recursive: true })).toSorted()).toEqual([
      ...["buckets", "buckets/b", "buckets/b/blobs", "buckets/b/blobs/v-1", "buckets/b/blobs/v-1/one.blob"],
      ...["edge.json", "objects", "objects/do", "objects/do/rouse-SandboxObject"],
    ]);
    await expect(refuseWorkerdFolder(own)).rejects.toThrow("plain workerd");
    await expect(openEdgeFolder(own, ["rouse-Other"], ["buckets/b"])).rejects.toThrow("rouse-SandboxObject");
  });

  it("of an edge by Miniflare is left alone", async () => {
    const other = join(dir, "other");
    await mkdir(join(other, "objects/do"), { recursive: true });
    await expect(openEdgeFolder(other, uniqueKeys(worker), [])).rejects.toThrow("Miniflare");
    expect(await readdir(other)).toEqual(["objects"]);
    await refuseWorkerdFolder(other);
  });
});

describe("a running one", () => {
  let edge: TestEdge;
  beforeAll(async () => {
    edge = await TestEdge.begin("workerd", { ROUSE_SCHEME: "https" });
  });
  afterAll(() => edge.end());

  it("is one process, workerd, without a secret in its arguments or configuration", async () => {
    const secrets = Object.values(
      JSON.parse(await readFile(join(edge.dir, "secrets.json"), "utf8")) as Record<string, string>,
    );
    const { pid } = edge.process;
    const args = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
    expect(args.slice(1, 3)).toEqual(["serve", join(edge.dir, "edge/workerd/config.capnp")]);
    expect(await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).toBe("");
    const texts = [
      args.join(" "),
      await readFile(join(edge.dir, "edge/workerd/config.capnp"), "utf8"),
      await readFile(join(edge.dir, "edge.log"), "utf8"),
    ];
    for (const secret of secrets) for (const text of texts) expect(text.includes(secret)).toBe(false);
  });

  it("leaves files to their owner alone", async () => {
    await edge.create();
    const names = await readdir(join(edge.dir, "edge"), { recursive: true });
    // Some come and go.
    const modes = names.map((name) => stat(join(edge.dir, "edge", name)).catch(() => null));
    const open = (await Promise.all(modes)).filter((found) => found !== null && (found.mode & 0o077) !== 0);
    expect(names.some((name) => name.endsWith(".sqlite"))).toBe(true);
    expect(open).toEqual([]);
  });

  it("has its folder for itself", () => {
    const program = join(repository, "backend-pool/local/workerd-edge.ts");
    const args = [
      "--disable-warning=ExperimentalWarning",
      program,
      "--dir",
      join(edge.dir, "edge"),
      "--listen",
      "127.0.0.1:0",
    ];
    expect(spawnSync(process.execPath, args, { timeout: 30_000 }).status).toBe(75);
  });

  it("believes a proxy of its machine how a client came, and nobody who it is", async () => {
    const { name } = await edge.create();
    const seen = async (headers: Record<string, string>) => {
      const own = { authorization: `Bearer ${edge.apiKey}`, ...headers };
      return (await edge.named<{ headers: Record<string, string> }>(name, "/", own)).body.headers;
    };
    const proxied = {
      "x-forwarded-proto": "https",
      "x-forwarded-for": "10.0.0.1, 203.0.113.7",
      "cf-connecting-ip": "192.0.2.1",
    };
    expect(await seen(proxied)).toMatchObject({ "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.7" });
    expect(await seen({ "cf-connecting-ip": "192.0.2.1" })).toMatchObject({
      "x-forwarded-proto": "http",
      // Not the program's own machine: this one.
      "x-forwarded-for": "10.0.2.3",
    });
  });
});
