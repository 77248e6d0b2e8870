/**
 * `npm run bench [-- --runs N]`: every path that users wait on, next to the floor of the same machine in the same run.
 * Prints a table and writes `results/latest.json`. With `--only storage` it measures sleep and what is stored alone,
 * with `--only edge` what the edge adds, and writes nothing.
 */
import { randomBytes } from "node:crypto";
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { cpus, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";
import { Rouse, type Sandbox } from "rouse";
import { defaultHome } from "../../backend-pool/config.ts";
import { freePort, launch } from "../../backend-pool/local/launcher.ts";
import { run } from "../../backend-pool/process.ts";
import { controlSecret, ticketSecret } from "../../sdk/contract/host-secrets.ts";
import { hostHeaders, hostPaths, type SleepDepth } from "../../sdk/contract/host.ts";
import { sign, signingKey } from "../../sdk/contract/ticket.ts";
import { measureEdge } from "./edge.ts";
import { Floor, timed, type FloorMachine } from "./floor.ts";
import { measureSavevm } from "./savevm.ts";
import { measureStorage } from "./storage.ts";

const { values: flags } = parseArgs({
  options: { runs: { type: "string" }, quick: { type: "boolean", default: false }, only: { type: "string" } },
});
if (flags.only !== undefined && flags.only !== "storage" && flags.only !== "edge")
  throw new Error(`--only storage or edge, not ${flags.only}`);
const ALL = flags.only === undefined;
const RUNS = Number(flags.runs ?? (flags.quick ? 5 : 20));
const WARM_RUNS = flags.quick ? 100 : 500;
const GIB = flags.quick ? 64 * 1_048_576 : 1024 * 1_048_576;

const SERVER = `
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "3"); self.end_headers(); self.wfile.write(b"ok\\n")
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`;

interface Row {
  readonly name: string;
  readonly unit: "ms" | "req/s" | "MiB/s";
  readonly runs: number;
  readonly p50: number;
  readonly p95: number;
  readonly floorP50: number | null;
  readonly ratio: number | null;
}

const rows: Row[] = [];
function put(
  name: string,
  unit: Row["unit"],
  values: readonly number[],
  floor: readonly number[] | number | null,
): void {
  const floorP50 = floor === null ? null : typeof floor === "number" ? floor : at(floor, 0.5);
  const p50 = at(values, 0.5);
  const row = { name, unit, runs: values.length, p50: round(p50), p95: round(at(values, 0.95)) };
  rows.push({
    ...row,
    floorP50: floorP50 === null ? null : round(floorP50),
    ratio: floorP50 === null ? null : round(p50 / floorP50),
  });
  console.error(`  ${name}: p50 ${row.p50} ${unit}`);
}

if (flags.only === "edge") {
  await edge();
  tell("the edge alone");
  process.exit(0);
}

const stateDir = await mkdtemp(join(tmpdir(), "rouse-bench-"));
// States stay on the host here: what leaves it is measured by itself.
const env = { ROUSE_ARCHIVE_SECONDS: "off" };
const system = await launch({ homeDir: defaultHome(), stateDir, edgePort: 0, hostPort: 0, env });
const rouse = new Rouse({ apiKey: system.apiKey, baseUrl: system.url });
const edgePort = Number(new URL(system.url).port);
const repeat = (n: number) => Array.from({ length: n }, (_, i) => i);

try {
  console.error(`measuring on ${system.accelerator}, ${RUNS} runs each ...`);
  const sandbox = await rouse.sandboxes.create({ name: `bench-${process.pid}`, idlePauseSeconds: 0 });
  await sandbox.files.write("/workspace/server.py", SERVER);
  await sandbox.exec(
    "nohup python3 server.py >/dev/null 2>&1 & for i in $(seq 300); do curl -sf localhost:8080 && exit 0; sleep 0.1; done; exit 1",
    { check: true },
  );
  const host = new Agent({ keepAlive: false });
  const first = () => firstByte(sandbox, host);
  await first();

  await sandbox.pause();
  await settle(sandbox, "local");
  const floor = new Floor(await filesOf(sandbox, "floor"));
  const storedFloor = new Floor(await filesOf(sandbox, "stored"));

  // Floor and product take turns, so that a busy minute of the machine falls on both.
  const own = { pause: [], local: [], prestarted: [], resident: [], wakeAck: [] } as Record<string, number[]>;
  const bare = { pause: [], local: [], prestarted: [], resident: [], wakeAck: [] } as Record<string, number[]>;
  for (const _ of repeat(RUNS)) {
    const started = await floor.start();
    const woken = await floor.wake();
    bare["local"]?.push(started + woken);
    bare["prestarted"]?.push(woken);
    await pause(200);
    bare["pause"]?.push(await floor.pause());
    await pause(200);
    bare["resident"]?.push(await floor.wakeResident());
    await pause(100);
    await floor.pause();
    await floor.end();
    bare["wakeAck"]?.push(
      await timed(async () => {
        await floor.start();
        await floor.load();
        await floor.cont();
      }),
    );
    await floor.firstByte();
    await floor.pause();
    await floor.end();

    own["local"]?.push(await timed(first));
    await pause(200);
    own["pause"]?.push(await timed(() => sandbox.pause()));
    await pause(200);
    own["resident"]?.push(await timed(first));
    await pause(100);
    await sandbox.pause();
    await settle(sandbox, "prestarted");
    await pause(200);
    own["prestarted"]?.push(await timed(first));
    await sandbox.pause();
    await settle(sandbox, "local");
    own["wakeAck"]?.push(await timed(() => sandbox.wake()));
    await first();
    await sandbox.pause();
    await settle(sandbox, "local");
  }
  put("pause_ack", "ms", own["pause"] ?? [], bare["pause"] ?? []);
  put("wake_ack", "ms", own["wakeAck"] ?? [], bare["wakeAck"] ?? []);
  put("wake_url_first_byte", "ms", own["local"] ?? [], bare["local"] ?? []);
  put("wake_url_first_byte_prestarted", "ms", own["prestarted"] ?? [], bare["prestarted"] ?? []);
  put("wake_url_first_byte_resident", "ms", own["resident"] ?? [], bare["resident"] ?? []);

  const savevm = await measureSavevm(await filesOf(sandbox, "savevm"), Math.min(RUNS, 3));
  put("qemu_savevm", "ms", savevm.save, bare["pause"] ?? []);
  put("qemu_loadvm_first_byte", "ms", savevm.load, bare["local"] ?? []);

  if (ALL) await awake(sandbox, floor, at(bare["local"] ?? [], 0.5));
  // The other parts' processes would be in the way.
  await system.stop();
  const stored = await measureStorage(storedFloor, Math.min(RUNS, 10));
  put("pause_durable", "ms", stored.durable, null);
  put("wake_compact_first_byte", "ms", stored.compact, stored.bareWake);
  put("wake_cold_first_byte", "ms", stored.cold, stored.bareWake);
  put("wake_elsewhere_first_byte", "ms", stored.elsewhere, stored.bareWake);
  put("snapshot_frozen", "ms", stored.frozen, stored.barePause);
  put("snapshot_ready", "ms", stored.snapshot, null);
  put("fork_first_byte", "ms", stored.fork, stored.bareWake);
  if (ALL) await edge();
} finally {
  await system.stop();
  await rm(stateDir, { recursive: true, force: true });
}

const machine = `${cpus().length} x ${cpus()[0]?.model ?? "CPU"}, ${Math.round(totalmem() / 2 ** 30)} GiB`;
const result = { machine, accelerator: system.accelerator, rows };
if (ALL) {
  await mkdir(join(import.meta.dirname, "results"), { recursive: true });
  await writeFile(join(import.meta.dirname, "results/latest.json"), `${JSON.stringify(result, null, 2)}\n`);
}
tell(`${machine}, ${system.accelerator}`);
process.exit(0);

function tell(title: string): void {
  console.log(title);
  console.log(`${"".padEnd(32)}${["runs", "p50", "p95", "floor", "ratio"].map((head) => head.padStart(10)).join("")}`);
  for (const row of rows) {
    const cells = [row.runs, row.p50, row.p95, row.floorP50 ?? "-", row.ratio ?? "-"]
      .map((cell) => String(cell).padStart(10))
      .join("");
    console.log(`${row.name.padEnd(32)}${cells}  ${row.unit}`);
  }
}

/** What the edge adds to a program's answer, next to a Worker that only passes on. */
async function edge(): Promise<void> {
  const { load, download, upload, webhook } = await measureEdge(flags.quick ? 200 : 2000, flags.quick ? 32 : 256);
  for (const [connections, { own, bare }] of Object.entries(load)) {
    put(`edge_request_c${connections}`, "ms", own.latency, bare.latency);
    put(`edge_throughput_c${connections}`, "req/s", own.rate, bare.rate);
  }
  put("edge_download", "MiB/s", download.own, download.bare);
  put("edge_upload", "MiB/s", upload.own, upload.bare);
  put("webhook_ack_asleep", "ms", webhook, load[1]?.bare.latency ?? null);
}

/** Requests, files, new machines and boots. */
async function awake(sandbox: Sandbox, floor: Floor, wakeFloor: number): Promise<void> {
  await sandbox.wake();
  // Emulation translates code as it is first run, so the first ones are not warm.
  for (const _ of repeat(10)) await sandbox.exec("true");
  const execs: number[] = [];
  for (const _ of repeat(RUNS * 2)) execs.push(await timed(() => sandbox.exec("true")));
  put("warm_exec", "ms", execs, null);

  await warmRequests(sandbox);
  await bigFile(sandbox);
  await sandbox.delete();

  const created: number[] = [];
  const firstExec: number[] = [];
  for (const i of repeat(Math.min(RUNS, 10))) {
    const began = performance.now();
    const made = await rouse.sandboxes.create({ name: `bench-${process.pid}-${i}`, idlePauseSeconds: 0 });
    created.push(performance.now() - began);
    await made.exec("true");
    firstExec.push(performance.now() - began);
    await made.delete();
    // The spare that was taken is made anew in the background; a user's next create comes later than at once.
    await pause(1500);
  }
  put("create", "ms", created, wakeFloor);
  put("first_exec", "ms", firstExec, wakeFloor + at(execs, 0.5));

  const boots: number[] = [];
  const bareBoots: number[] = [];
  const booted = await rouse.sandboxes.create({ name: `bench-${process.pid}-boot`, idlePauseSeconds: 0 });
  for (const _ of repeat(3)) {
    bareBoots.push(await floor.boot());
    await floor.end();
    boots.push(await timed(() => booted.restart()));
  }
  await booted.delete();
  put("cold_boot", "ms", boots, bareBoots);
}

/** A copy of the sleeper's files, to be driven by bare QEMU commands. */
async function filesOf(sandbox: Sandbox, name: string): Promise<FloorMachine> {
  const from = join(stateDir, "machines", sandbox.id);
  const dir = join(stateDir, name);
  await mkdir(dir);
  await run("cp", ["--sparse=always", join(from, "ram"), join(dir, "ram")]);
  for (const file of ["disk.qcow2", "device-state"]) await copyFile(join(from, file), join(dir, file));
  await cp(join(from, "machine.json"), join(dir, "machine.json"));
  const made = JSON.parse(await readFile(join(dir, "machine.json"), "utf8")) as {
    shape: { vcpu: number; memoryMiB: number };
    image: { kernel: string; initrd: string };
    slots: number;
  };
  return { dir, ...made.image, ...made.shape, slots: made.slots, accelerator: system.accelerator };
}

async function settle(sandbox: Sandbox, depth: SleepDepth): Promise<void> {
  await fetch(system.hostUrl + hostPaths.act(sandbox.id, "settle"), {
    method: "POST",
    headers: { authorization: `Bearer ${await controlSecret(system.home.secrets.hostSecret, "local")}` },
    body: JSON.stringify({ depth }),
  });
}

/** A request to the named URL until its first byte. */
function firstByte(sandbox: Sandbox, agent: Agent): Promise<void> {
  const headers = { host: new URL(sandbox.url()).host, authorization: `Bearer ${system.apiKey}` };
  return ask({ port: edgePort, path: "/", headers, agent });
}

function ask(options: { port: number; path: string; headers: Record<string, string>; agent: Agent }): Promise<void> {
  return new Promise((resolve, reject) => {
    const req = request({ host: "127.0.0.1", ...options }, (res) => {
      if (res.statusCode !== 200) reject(new Error(`${options.path}: ${res.statusCode}`));
      res.resume();
      res.once("end", resolve);
    });
    req.on("error", reject);
    req.end();
  });
}

/** One warm request through Rouse, through a Worker that does nothing but pass on, and straight to the host agent. */
async function warmRequests(sandbox: Sandbox): Promise<void> {
  const { generation } = (await sandbox.refresh()).info;
  const key = await signingKey(await ticketSecret(system.home.secrets.signingSecret, "local"), "ticket");
  const ticket = await sign(key, { m: sandbox.id, g: generation, e: Date.now() + 3_600_000 });
  const direct = new URL(system.hostUrl + hostPaths.port(sandbox.id, 8080));
  const barePort = await freePort();
  const bare = new Miniflare(
    convertV4MiniflareOptions({
      name: "bare",
      modules: true,
      compatibilityDate: "2026-11-01",
      port: barePort,
      host: "127.0.0.1",
      cf: false,
      script: `export default { fetch(request) { const headers = new Headers(request.headers); headers.set("${hostHeaders.ticket}", "${ticket}"); return fetch("${direct.href}/", { headers }); } }`,
    }),
  );
  await bare.ready;
  const ways = {
    warm_request: {
      port: edgePort,
      path: "/",
      headers: { host: new URL(sandbox.url()).host, authorization: `Bearer ${system.apiKey}` },
    },
    warm_request_bare_worker: { port: barePort, path: "/", headers: {} },
    warm_request_host: {
      port: Number(direct.port),
      path: `${direct.pathname}/`,
      headers: { [hostHeaders.ticket]: ticket },
    },
  };
  const agents = Object.fromEntries(
    Object.keys(ways).map((name) => [name, new Agent({ keepAlive: true, maxSockets: 8 })]),
  );
  const times: Record<string, number[]> = { warm_request: [], warm_request_bare_worker: [], warm_request_host: [] };
  const go = (name: keyof typeof ways) => ask({ ...ways[name], agent: agents[name] ?? new Agent() });
  const names = Object.keys(ways) as (keyof typeof ways)[];
  for (const i of repeat(WARM_RUNS + 20)) {
    for (const name of names) {
      const took = await timed(() => go(name));
      if (i >= 20) times[name]?.push(took);
    }
  }
  const floor = times["warm_request_host"] ?? [];
  for (const name of names) put(name, "ms", times[name] ?? [], floor);
  const rates: Record<string, number[]> = {};
  for (const _ of repeat(3)) {
    for (const name of names) {
      const took = await timed(() =>
        Promise.all(
          repeat(8).map(async () => {
            for (const __ of repeat(WARM_RUNS / 10)) await go(name);
          }),
        ),
      );
      (rates[name] ??= []).push((8 * Math.floor(WARM_RUNS / 10)) / (took / 1000));
    }
  }
  put("throughput", "req/s", rates["warm_request"] ?? [], rates["warm_request_bare_worker"] ?? []);
  for (const agent of Object.values(agents)) agent.destroy();
  await bare.dispose();
}

async function bigFile(sandbox: Sandbox): Promise<void> {
  const piece = randomBytes(1_048_576);
  async function* pieces() {
    for (let left = GIB; left > 0; left -= piece.length) yield piece;
  }
  const mib = GIB / 1_048_576;
  const wrote = await timed(() => sandbox.files.writeStream("/workspace/big", pieces()));
  put("file_write", "MiB/s", [mib / (wrote / 1000)], null);
  let bytes = 0;
  const read = await timed(async () => {
    for await (const chunk of await sandbox.files.readStream("/workspace/big")) bytes += chunk.length;
  });
  if (bytes !== GIB) throw new Error(`read ${bytes} bytes of ${GIB}`);
  put("file_read", "MiB/s", [mib / (read / 1000)], null);
}

function at(values: readonly number[], quantile: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? Number.NaN;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
