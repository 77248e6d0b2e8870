/**
 * Real clients at named URLs of machines that sleep: curl, Node's ws, Python, wrk, and Chromium at a Vite development
 * server. What this machine lacks is left out, and named in the result.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Sandbox } from "rouse";
import { WebSocket, type ClientOptions } from "ws";
import type { Course, Part } from "./part.ts";

const VITE = "vite@8.3.4";
const MIB = 1024;
/** Edge and host agent together may grow by so much while a body passes that is many times that, MiB. */
const GROWTH_MAX_MIB = 256;

const run = promisify(execFile);

export const clients: Part = { run: all };

interface Stage extends Course {
  readonly app: Sandbox;
  /** Host name and port of its URL. */
  readonly host: string;
  readonly key: string;
}

async function all(course: Course): Promise<Record<string, unknown>> {
  const { rouse, system, stateDir, say } = course;
  const app = await rouse.sandboxes.create({ name: "clients", idlePauseSeconds: 0, localhostPorts: [5173] });
  const ws = dirname(createRequire(import.meta.url).resolve("ws/package.json"));
  await putFolder(app, ws, "/workspace/node_modules/ws", stateDir);
  await app.files.write("/workspace/app.mjs", await readFile(new URL("app.mjs", import.meta.url), "utf8"));
  await app.spawn("node /workspace/app.mjs");
  const stage: Stage = { ...course, app, host: new URL(app.url(8080)).host, key: system.apiKey };
  await until(async () => (await curl(stage, "/")).status === 200);
  const leftOut: string[] = [];
  const done: Record<string, unknown> = {};
  const parts = { curl: byCurl, bodies, ws: byWs, python: byPython, wrk: byWrk, vite: byVite } as const;
  for (const [name, part] of Object.entries(parts)) {
    const missing = await part(stage).then(
      (result) => {
        done[name] = result ?? true;
        return null;
      },
      (fault: unknown) => {
        if (fault instanceof Missing) return fault.message;
        course.expect(false, `${name}: ${(fault instanceof Error ? fault.message : String(fault)).slice(-500)}`);
        return null;
      },
    );
    if (missing !== null) leftOut.push(missing);
    say(missing === null ? `${name}: ${JSON.stringify(done[name] ?? "failed")}` : `${name}: left out, ${missing}`);
  }
  await app.delete();
  return { ...done, leftOut };
}

/** A program that this machine does not have. */
class Missing extends Error {}

async function need(program: string): Promise<void> {
  await run("which", [program]).catch(() => {
    throw new Missing(`${program} is not installed`);
  });
}

async function asleep({ app, expect }: Stage): Promise<void> {
  // What a client before this one left on the way may wake it once more.
  for (let tries = 0; tries < 5 && (await app.refresh()).info.state !== "paused"; tries++) await app.pause();
  expect(app.info.state === "paused", "it sleeps before a client comes");
}

interface Answer {
  readonly status: number;
  readonly headers: string;
  readonly body: string;
}

async function curl({ host, key }: Stage, path: string, ...args: string[]): Promise<Answer> {
  const options = ["-sS", "-i", "--max-time", "60", "-H", `authorization: Bearer ${key}`, ...args];
  const ran = run("curl", [...options, `http://${host}${path}`], { maxBuffer: 1 << 24 });
  // A connection that is closed early is no answer for curl, which has told all the same what came.
  const { stdout } = await ran.catch((fault: { stdout?: string }) => ({ stdout: fault.stdout ?? "" }));
  // After 100 Continue comes the answer itself.
  const text = stdout.replace(/^HTTP\/1\.1 100[^]*?\r\n\r\n/, "");
  const [headers = "", ...rest] = text.split("\r\n\r\n");
  return { status: Number(headers.split(" ")[1]), headers: headers.toLowerCase(), body: rest.join("\r\n\r\n") };
}

async function byCurl(stage: Stage): Promise<unknown> {
  await need("curl");
  const { expect } = stage;
  await asleep(stage);
  const first = await curl(stage, "/hello?a=1");
  expect(first.status === 200 && first.headers.includes("x-rouse-state: woken"), `a GET wakes it: ${first.headers}`);
  for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "POST"]) {
    await asleep(stage);
    const { status, body } = await curl(stage, "/m", "-X", method, "-d", "some");
    expect(
      status === 200 && body.includes(`"method":"${method}","bytes":4`),
      `${method} with a body: ${status} ${body}`,
    );
  }
  const head = await curl(stage, "/range", "--head");
  expect(head.headers.includes("content-length: 10000") && head.body === "", `HEAD: ${head.headers}`);
  const part = await curl(stage, "/range", "-r", "10-19");
  expect(part.status === 206 && part.body === "0123456789", `a range: ${part.status} ${part.body}`);
  const same = await curl(stage, "/etag", "-H", 'if-none-match: "v1"');
  expect(same.status === 304 && same.headers.includes('etag: "v1"'), `304: ${same.headers}`);
  const gzip = await curl(stage, "/gzip", "--compressed");
  expect(gzip.body.length === 10_000 && gzip.headers.includes("content-encoding: gzip"), `gzip: ${gzip.headers}`);
  const big = join(stage.stateDir, "body");
  await writeFile(big, randomBytes(5 << 20));
  await asleep(stage);
  const sent = await curl(stage, "/up", "-H", "expect: 100-continue", "--data-binary", `@${big}`);
  expect(sent.body.includes(sha256(await readFile(big))), `5 MiB with 100-continue to a sleeper: ${sent.body}`);
  await asleep(stage);
  const events = spawn("curl", ["-sN", "-H", `authorization: Bearer ${stage.key}`, `http://${stage.host}/events`]);
  const [line] = (await once(events.stdout, "data")) as [Buffer];
  expect(line.toString().startsWith("id: 1\n"), `an event stream that wakes it: ${line.toString()}`);
  // Each comes by itself: nothing gathers them.
  const gaps: number[] = [];
  for (let n = 0, before = performance.now(); n < 5; n++) {
    await once(events.stdout, "data");
    gaps.push(Math.round(performance.now() - before));
    before = performance.now();
  }
  events.kill();
  const closed = await curl(stage, "/", "-H", `x-big: ${"x".repeat(100_000)}`);
  expect(closed.status >= 400, `oversized headers: ${closed.headers.slice(0, 200)}`);
  return { eventGapsMs: gaps, oversizedHeaders: closed.status };
}

function sha256(data: Buffer): string {
  return createHash("sha256").update(data).digest("hex");
}

/** Large bodies of unknown length, both ways, while edge and host agent stay as small as they are. */
async function bodies(stage: Stage): Promise<unknown> {
  await need("curl");
  const { key, host, say, expect, count, stateDir } = stage;
  const mib = count ?? MIB;
  const file = join(stateDir, "large");
  await run("truncate", ["-s", `${mib}M`, file]);
  const auth = ["-H", `authorization: Bearer ${key}`];
  const timed = async (curlArgs: readonly string[], input?: string) => {
    const before = await residentMiB();
    let most = before;
    const timer = setInterval(() => void residentMiB().then((now) => (most = Math.max(most, now))), 500);
    const began = performance.now();
    const child = spawn("curl", ["-sS", ...auth, ...curlArgs]);
    if (input) createReadStream(input).pipe(child.stdin);
    let bytes = 0;
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes < 10_000) text += chunk.toString();
    });
    await once(child, "close");
    clearInterval(timer);
    const seconds = (performance.now() - began) / 1000;
    const grownMiB = Math.round(most - before);
    expect(grownMiB < GROWTH_MAX_MIB, `edge and host agent grew by ${grownMiB} MiB for a body of ${mib} MiB`);
    return { bytes, text, grownMiB, mibPerSecond: Math.round(mib / seconds) };
  };
  const { bytes, text: _text, ...down } = await timed([`http://${host}/down?mib=${mib}`]);
  expect(bytes === mib << 20 || bytes === mib * 1048576, `${mib} MiB came down: ${bytes} bytes`);
  say(`down: ${JSON.stringify(down)}`);
  await asleep(stage);
  const up = await timed(["-T", "-", "-H", "expect:", `http://${host}/up`], file);
  expect(up.text.includes(`"bytes":${mib * 1048576}`), `${mib} MiB went up: ${up.text}`);
  return { mib, down, up: { grownMiB: up.grownMiB, mibPerSecond: up.mibPerSecond } };
}

/** Memory of this system's edge and host agents, MiB. */
async function residentMiB(): Promise<number> {
  const { stdout } = await run("ps", ["-eo", "pid=,ppid=,rss=,args="]);
  const rows = stdout.split("\n").flatMap((row) => {
    const [, pid, parent, rss, args] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(row) ?? [];
    return pid === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), rss: Number(rss), args: args ?? "" }];
  });
  const ours = new Set([process.pid]);
  for (let more = true; more;) {
    const found = rows.filter(({ pid, parent }) => ours.has(parent) && !ours.has(pid));
    for (const { pid } of found) ours.add(pid);
    more = found.length > 0;
  }
  const counted = rows.filter(({ pid, args }) => ours.has(pid) && pid !== process.pid && !/^(qemu|curl|ps)/.test(args));
  return counted.reduce((sum, { rss }) => sum + rss, 0) / 1024;
}

async function byWs(stage: Stage): Promise<unknown> {
  const { expect } = stage;
  await asleep(stage);
  const socket = await open(stage, 8080, ["other", "chat"]);
  expect(socket.protocol === "chat", `the subprotocol is the program's choice: ${socket.protocol}`);
  const echo = async (data: string | Buffer) => {
    const answer = once(socket, "message");
    socket.send(data);
    return (await answer) as [Buffer, boolean];
  };
  const [text, isBinary] = await echo("hello");
  expect(!isBinary && text.toString() === "hello", "text comes back as text");
  const binary = randomBytes(500_000);
  const [back, wasBinary] = await echo(binary);
  expect(wasBinary && back.equals(binary), "binary comes back as binary, byte by byte");
  const ponged = once(socket, "pong");
  socket.ping("are you there");
  expect(String((await ponged)[0]) === "are you there", "a ping is answered");
  const ended = once(socket, "close");
  socket.send("close because of that");
  const [code, reason] = (await ended) as [number, Buffer];
  expect(code === 4002 && reason.toString() === "because of that", `the program's close: ${code} ${reason.toString()}`);
  const second = await open(stage, 8080, []);
  second.close(4003, "the client's");
  await once(second, "close");
  await until(async () => (await curl(stage, "/last-close")).body === "4003 the client's");
  return true;
}

async function open({ system, key, app }: Stage, port: number, protocols: string[]): Promise<WebSocket> {
  const url = new URL(app.url(port));
  const headers = { authorization: `Bearer ${key}`, host: url.host };
  const options: ClientOptions = { headers };
  const at = new URL(system.url);
  const socket = new WebSocket(`ws://${at.host}/`, protocols, options);
  await once(socket, "open");
  return socket;
}

const PYTHON = `
import http.client, json, sys, urllib.request
at, host, key = sys.argv[1:]
headers = {"host": host, "authorization": "Bearer " + key}
one = http.client.HTTPConnection(at, timeout=60)
for n in range(3):
    one.request("POST", f"/n/{n}", body=(b"x" * 1000 for _ in range(50)), headers=headers, encode_chunked=True)
    answer = one.getresponse()
    assert json.load(answer)["bytes"] == 50000
    assert (answer.headers["x-rouse-state"] == "woken") == (n == 0), answer.headers
with urllib.request.urlopen(urllib.request.Request(f"http://{at}/down?mib=3", headers=headers)) as answer:
    assert len(answer.read()) == 3 << 20
print("fine")
`;

async function byPython(stage: Stage): Promise<unknown> {
  await need("python3");
  await asleep(stage);
  const args = ["-c", PYTHON, new URL(stage.system.url).host, stage.host, stage.key];
  const { stdout } = await run("python3", args);
  stage.expect(stdout.trim() === "fine", `Python: ${stdout}`);
  return true;
}

async function byWrk(stage: Stage): Promise<unknown> {
  await need("wrk");
  const { host, key, system, expect } = stage;
  const results: Record<string, string> = {};
  for (const connections of [1, 32, 256]) {
    await asleep(stage);
    const headers = ["-H", `authorization: Bearer ${key}`, "-H", `Host: ${host}`];
    const load = ["-t1", `-c${connections}`, "-d10s", "--timeout", "20s", "--latency"];
    const { stdout } = await run("wrk", [...load, ...headers, `${system.url}/etag`]);
    expect(!/Non-2xx|Socket errors/.test(stdout), `wrk with ${connections} connections: ${stdout}`);
    const perSecond = /Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1] ?? "?";
    const [, half = "?"] = /50%\s+(\S+)/.exec(stdout) ?? [];
    const [, most = "?"] = /99%\s+(\S+)/.exec(stdout) ?? [];
    results[connections] = `${perSecond}/s, half in ${half}, 99 % in ${most}`;
  }
  return results;
}

/** A development server with hot replacement, in a browser, across a sleep. */
async function byVite(stage: Stage): Promise<unknown> {
  await need("chromium");
  const { app, stateDir, expect } = stage;
  const dir = join(stateDir, "vite");
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefix", dir, VITE], { timeout: 300_000 });
  await writeFile(join(dir, "index.html"), '<h1 id="h"></h1><script type="module" src="/main.js"></script>');
  const main = (word: string) =>
    `document.querySelector("#h").textContent = "${word}";\nif (import.meta.hot) import.meta.hot.accept();\n`;
  await writeFile(join(dir, "main.js"), main("first"));
  await putFolder(app, dir, "/workspace/site", stateDir);
  await app.spawn("cd /workspace/site && node node_modules/vite/bin/vite.js --host 127.0.0.1 --port 5173 --strictPort");
  const link = await app.links.create({ port: 5173 });
  const listening = "ss -tlnH sport = :5173 | wc -l";
  await until(async () => (await app.exec(listening)).stdout.trim() === "1");
  await asleep(stage);
  const browser = await Browser.start(join(stateDir, "profile"));
  try {
    // The link's token goes into a cookie, and the address is clean again.
    await browser.go(`${app.url(5173)}?rouse_token=${link.token}`);
    const heading = () => browser.evaluate('document.querySelector("#h")?.textContent ?? ""');
    await until(async () => (await heading()) === "first");
    expect(!(await browser.evaluate("location.href")).includes("rouse_token"), "the token is not in the address");
    await app.files.write("/workspace/site/main.js", main("second"));
    await until(async () => (await heading()) === "second");
    await browser.picture(join(stateDir, "..", "rouse-vite.png"));
    return { hotReplacement: true };
  } finally {
    browser.stop();
  }
}

/** Chromium by its debugging protocol. */
class Browser {
  readonly #process: ChildProcess;
  readonly #socket: WebSocket;
  #next = 1;

  private constructor(process: ChildProcess, socket: WebSocket) {
    this.#process = process;
    this.#socket = socket;
  }

  static async start(profile: string): Promise<Browser> {
    const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
    const child = spawn("chromium", [...flags, `--user-data-dir=${profile}`, "about:blank"], { stdio: "ignore" });
    const port = await until(async () => {
      const text = await readFile(join(profile, "DevToolsActivePort"), "utf8").catch(() => "");
      return text.split("\n")[0] ?? "";
    });
    const pages = await until(async () => {
      const listed = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as Record<string, string>[];
      return listed.filter(({ type }) => type === "page");
    });
    const socket = new WebSocket(pages[0]?.["webSocketDebuggerUrl"] ?? "");
    await once(socket, "open");
    return new Browser(child, socket);
  }

  async go(url: string): Promise<void> {
    await this.#call("Page.navigate", { url });
  }

  async evaluate(expression: string): Promise<string> {
    const { result } = (await this.#call("Runtime.evaluate", { expression })) as { result: { value?: unknown } };
    return String(result.value ?? "");
  }

  async picture(path: string): Promise<void> {
    const { data } = (await this.#call("Page.captureScreenshot", {})) as { data: string };
    await writeFile(path, Buffer.from(data, "base64"));
  }

  stop(): void {
    this.#socket.close();
    this.#process.kill("SIGKILL");
  }

  async #call(method: string, params: object): Promise<unknown> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const onMessage = (data: Buffer) => {
        const message = JSON.parse(data.toString()) as { id?: number; result?: unknown; error?: { message: string } };
        if (message.id !== id) return;
        this.#socket.off("message", onMessage);
        if (message.error) reject(new Error(`${method}: ${message.error.message}`));
        else resolve(message.result);
      };
      this.#socket.on("message", onMessage);
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }
}

/** A folder of this machine, at a path of the sandbox. */
async function putFolder(sandbox: Sandbox, dir: string, path: string, stateDir: string): Promise<void> {
  const archive = join(stateDir, `${createHash("sha256").update(path).digest("hex")}.tgz`);
  await run("tar", ["-czf", archive, "-C", dir, ...(await readdir(dir))]);
  await sandbox.files.write("/workspace/archive.tgz", await readFile(archive));
  const { exitCode, stderr } = await sandbox.exec(`mkdir -p ${path} && tar -xzf /workspace/archive.tgz -C ${path}`);
  if (exitCode !== 0) throw new Error(`${(await stat(archive)).size} bytes could not be unpacked: ${stderr}`);
}

/** @throws Error when that does not come within two minutes */
async function until<T>(read: () => Promise<T>): Promise<T> {
  const endsAt = performance.now() + 120_000;
  for (;;) {
    const value = await read().catch(() => null);
    if (value && (!Array.isArray(value) || value.length > 0)) return value;
    if (performance.now() > endsAt) throw new Error("it never came to hold");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
