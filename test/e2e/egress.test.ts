/**
 * The way out of real machines: what the rules refuse is never reached, whatever happens to the machine and its host
 * meanwhile, and the homes of state answer inside. `ROUSE_LEAK_WAKES` and `ROUSE_LEAK_FORKS` make it longer.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { Authority } from "../../backend-pool/egress/ca.ts";
import { launch, type System } from "../../backend-pool/local/launcher.ts";
import { freshName } from "./fresh-name.ts";

const WAKES = Number(process.env["ROUSE_LEAK_WAKES"] ?? 3);
const FORKS = Number(process.env["ROUSE_LEAK_FORKS"] ?? 2);
/** Forks that run together; the host agent begins anew with each lot. */
const AT_ONCE = 4;
const ALLOWED = "allowed.rouse-test.com";
const DENIED = "denied.rouse-test.com";

/** Asks for what is denied without end, with and without the proxy, and counts its rounds and what was answered. */
const LOOP = `
import socket, time, urllib.request
plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
rounds = 0
while True:
    for open_ in (urllib.request.urlopen, plain.open):
        for url in ("http://${DENIED}/", "http://93.184.216.34/"):
            try:
                open_(url, timeout=1)
                open("/workspace/leaks", "a").write(url + "\\n")
            except OSError:
                pass
    rounds += 1
    open("/workspace/rounds", "w").write(str(rounds))
`;

/** Prints what a server of code and packages has, as JSON of paths with their bytes in base64. */
const SERVED = `
import base64, io, json, os, subprocess, zipfile
run = lambda *argv: subprocess.run(argv, check=True, capture_output=True)
run("git", "init", "-q", "-b", "main", "/tmp/work")
open("/tmp/work/hello", "w").write("from git")
run("git", "-C", "/tmp/work", "add", ".")
run("git", "-C", "/tmp/work", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "first")
run("git", "clone", "-q", "--bare", "/tmp/work", "/tmp/served/acme/demo.git")
run("git", "-C", "/tmp/served/acme/demo.git", "update-server-info")
info = "demo-1.0.dist-info"
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as made:
    made.writestr("demo.py", "said = 'from pip'")
    made.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n")
    made.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    made.writestr(info + "/RECORD", "")
name = "demo-1.0-py3-none-any.whl"
files = {"/simple/demo/": f'<a href="/files/{name}">{name}</a>'.encode(), f"/files/{name}": wheel.getvalue()}
for folder, _, names in os.walk("/tmp/served"):
    for one in names:
        path = os.path.join(folder, one)
        files[path.removeprefix("/tmp/served")] = open(path, "rb").read()
print(json.dumps({path: base64.b64encode(data).decode() for path, data in files.items()}))
`;

describe("the way out of a machine", () => {
  let own: System;
  let rouse: Rouse;
  let stateDir: string;
  let service: Server;
  /** What a server of code and packages has; it shows nothing to whoever brings no token. */
  const served = new Map<string, Buffer>();
  let packages: ReturnType<typeof createTlsServer>;
  /** Host names of requests that came. */
  const asked: string[] = [];

  beforeAll(async () => {
    stateDir = await mkdtemp(join(tmpdir(), "rouse-way-"));
    service = createServer((req, res) => {
      asked.push(req.headers.host ?? "");
      res.end("hello");
    }).listen(0, "127.0.0.1");
    await once(service, "listening");
    const authority = await Authority.open(join(stateDir, "authority.pem"));
    const caFile = join(stateDir, "ca.pem");
    await writeFile(caFile, authority.pem);
    packages = createTlsServer({ SNICallback: (name, done) => done(null, authority.context(name)) }, (req, res) => {
      const found = req.headers.authorization === "Bearer known" ? served.get(req.url?.split("?")[0] ?? "") : undefined;
      if (req.url?.startsWith("/simple/")) res.setHeader("content-type", "text/html");
      res.writeHead(found ? 200 : 404).end(found);
    }).listen(0, "127.0.0.1");
    await once(packages, "listening");
    const tls = `127.0.0.1:${(packages.address() as AddressInfo).port}`;
    const place = `127.0.0.1:${(service.address() as AddressInfo).port}`;
    own = await launch({
      ...{ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0 },
      env: {
        ROUSE_ARCHIVE_SECONDS: "off",
        ROUSE_EGRESS_UPSTREAM_CA: caFile,
        ROUSE_EGRESS_HOSTS: JSON.stringify({
          ...{ [`${ALLOWED}:80`]: place, [`${DENIED}:80`]: place },
          ...{ "github.com:443": tls, "pypi.org:443": tls },
        }),
      },
    });
    rouse = new Rouse({ apiKey: own.apiKey, baseUrl: own.url });
  });
  afterAll(async () => {
    await own.stop();
    service.close();
    packages.close();
    await rm(stateDir, { recursive: true, force: true });
  });

  async function out(sandbox: Sandbox, command: string): Promise<string> {
    const { stdout, stderr } = await sandbox.exec(command, { timeoutMs: 120_000 });
    return stdout + stderr;
  }

  it("never leads where a rule says no: not after wakes, in forks, or when its host begins anew", async ({
    expect,
  }) => {
    const sandbox = await rouse.sandboxes.create({
      ...{ name: freshName("leak"), idlePauseSeconds: 0 },
      network: { internet: false, allow: [ALLOWED] },
    });
    await sandbox.files.write("/workspace/loop.py", LOOP);
    await sandbox.exec("nohup python3 loop.py >/dev/null 2>&1 &");
    expect(await out(sandbox, `curl -sm 20 http://${ALLOWED}/`)).toBe("hello");
    for (let wake = 0; wake < WAKES; wake++) {
      await sandbox.pause();
      await sandbox.wake();
      expect(await out(sandbox, `curl -sm 20 --retry 3 --retry-all-errors http://${ALLOWED}/`)).toBe("hello");
    }
    for (let made = 0; made < Math.max(FORKS, 1); made += AT_ONCE) {
      const count = Math.min(AT_ONCE, FORKS - made);
      const forks = count <= 0 ? [] : await sandbox.fork({ count });
      await own.host.kill();
      await own.host.start();
      for (const one of [sandbox, ...forks]) {
        const before = Number(await out(one, "cat rounds"));
        await expect
          .poll(async () => Number(await out(one, "cat rounds")), { timeout: 60_000 })
          .toBeGreaterThan(before);
        const again = `curl -sm 20 --retry 8 --retry-all-errors http://${ALLOWED}/`;
        expect(await out(one, again)).toBe("hello");
        expect(await out(one, "cat leaks")).toMatch(/No such file/);
      }
      await Promise.all(forks.map((one) => one.delete()));
    }
    expect(asked.filter((host) => host !== ALLOWED)).toEqual([]);

    const refused = await out(sandbox, `curl -sm 20 -D - -o /dev/null http://${DENIED}/`);
    expect(refused).toMatch(/^HTTP\/1.1 403 /);
    expect(refused).toMatch(/x-rouse-egress: not-allowed/i);
    await sandbox.network.set({ internet: false, allow: [ALLOWED, DENIED] });
    expect(await out(sandbox, `curl -sm 20 http://${DENIED}/`)).toBe("hello");
    await sandbox.delete();
  });

  it("leads to no address of its host or of a private network, by name, by address, or by DNS", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("private"), idlePauseSeconds: 0 });
    const { port } = service.address() as AddressInfo;
    const ours = Object.values(networkInterfaces())
      .flat()
      .filter((one) => one?.family === "IPv4" && !one.internal)
      .map((one) => one?.address ?? "");
    const before = asked.length;
    for (const host of ["10.0.2.2", "10.0.2.3", "169.254.169.254", "192.168.1.1", "100.64.0.1", ...ours]) {
      expect(await out(sandbox, `curl -sm 5 --noproxy '*' http://${host}:${port}/ || true`), host).not.toContain(
        "hello",
      );
      expect(await out(sandbox, `curl -sm 5 http://${host}:${port}/ || true`), host).not.toContain("hello");
    }
    expect(await out(sandbox, `curl -sm 5 -x http://127.0.0.1:10801 http://127.0.0.1:${port}/`)).not.toContain("hello");
    expect(asked.length).toBe(before);
    await sandbox.network.set({ internet: false, allow: [ALLOWED] });
    const lookUp = (name: string) =>
      out(sandbox, `python3 -c 'import socket; print(socket.getaddrinfo("${name}", 80)[0][4][0])'`);
    expect(await lookUp("secret-words.tunnel.example.com")).toMatch(/gaierror/);
    expect(await lookUp(ALLOWED)).toMatch(/^[\d.]+\n$/);
    await sandbox.delete();
  });

  it("takes git and pip out as they are, to a place that knows a secret that they don't", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({ name: freshName("tools"), idlePauseSeconds: 0 });
    const hosts = ["github.com", "pypi.org"];
    await sandbox.secrets.set("packages", { value: "known", hosts });
    await sandbox.files.write("/tmp/served.py", SERVED);
    const { stdout } = await sandbox.exec("python3 /tmp/served.py", { check: true, timeoutMs: 120_000 });
    for (const [path, bytes] of Object.entries(JSON.parse(stdout) as Record<string, string>))
      served.set(path, Buffer.from(bytes, "base64"));
    expect(await out(sandbox, "git clone -q https://github.com/acme/demo.git && cat demo/hello")).toBe("from git");
    const install = "pip install -q --no-cache-dir --disable-pip-version-check --root-user-action ignore demo";
    expect(await out(sandbox, `cd /tmp && ${install} && python3 -c 'import demo; print(demo.said)'`)).toBe(
      "from pip\n",
    );
    await sandbox.delete();
  });

  it("leads to the homes of state, which have what programs put when it sleeps", async ({ expect }) => {
    const sandbox = await rouse.sandboxes.create({
      ...{ name: freshName("homes"), idlePauseSeconds: 0 },
      network: { internet: false },
    });
    const put = `curl -sSm 20 -X PUT -H 'content-type: application/json' -d '{"step":7}' http://rouse.internal/state/keys/progress`;
    expect(await out(sandbox, put)).toContain('"version":1');
    const remember = `curl -sSm 20 -H 'content-type: application/json' -d '{"text":"prefers weekly summaries"}' --noproxy '*' http://rouse.internal/memory`;
    expect(await out(sandbox, remember)).toContain("prefers weekly");
    await sandbox.exec(`printf '{"step":7}' | rouse-checkpoint save job --step 7`, { check: true });
    await sandbox.pause();
    expect(await sandbox.data.get("progress")).toEqual({ step: 7 });
    expect((await sandbox.memory.search({ query: "summaries" })).data).toHaveLength(1);
    expect((await sandbox.refresh()).info.state).toBe("paused");
    expect((await sandbox.resume()).checkpoint).toMatchObject({ name: "job", step: 7 });
    expect(await out(sandbox, "curl -sSm 20 http://rouse.internal/state/keys/progress")).toContain('"step":7');
    await sandbox.delete();
  });
});
