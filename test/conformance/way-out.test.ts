/** Programs of a real machine that get out: by the proxy they are told of, and by the kernel, which asks nobody. */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { refusedDns } from "../../backend-pool/egress/dns-refusal.ts";
import type { Outside, OutsideMachine } from "../../backend-pool/egress/outside.ts";
import type { Driver } from "../../backend-pool/machine/driver.ts";
import { Machines } from "../../backend-pool/machine/machines.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { Journal } from "../../backend-pool/store/journal.ts";
import type { MachineEgress } from "../../sdk/contract/egress.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { drivers, execIn } from "./drivers.ts";

const policy = { residentSeconds: 600, prestartedSeconds: 0, compactAfterSeconds: 3600, coldAfterSeconds: 3600 };
const open: MachineEgress = { version: 1, network: { internet: true }, brokered: [], inside: "ticket" };
const closed: MachineEgress = { ...open, version: 2, network: { internet: false } };
const run = { env: {}, idlePauseSeconds: 0 };
const patience = { timeout: 60_000, interval: 500 };

/** `*.test` is a server of the test: port 80 speaks HTTP, the others say back what they are told. */
class TestOutside implements Outside {
  readonly asked: string[] = [];
  readonly #egress = new Map<string, MachineEgress | null>();
  readonly #ports: { http: number; echo: number };
  pem = "";

  constructor(ports: { http: number; echo: number }) {
    this.#ports = ports;
  }

  connect(...[machine, { host, port }, stream, answer]: Parameters<Outside["connect"]>): void {
    this.asked.push(`${host}:${port}`);
    if (!this.#isOpen(machine)) return answer.refuse({ code: "egress_refused", message: "No.", rule: "internet-off" });
    const to = port === 80 ? this.#ports.http : this.#ports.echo;
    const upstream = connect({ host: "127.0.0.1", port: to, allowHalfOpen: true });
    upstream.once("connect", () => {
      answer.open();
      stream.pipe(upstream);
      upstream.pipe(stream);
    });
    upstream.on("error", () => stream.destroy());
    stream.once("close", () => upstream.destroy());
  }

  async dns(machine: OutsideMachine, query: Buffer): Promise<Buffer> {
    if (!this.#isOpen(machine)) return refusedDns(query);
    // The question alone, without what the resolver in there added to it.
    const end = query.indexOf(0, 12) + 5;
    const answer = Buffer.from(query.subarray(0, end));
    answer.writeUInt16BE(0x8180, 2);
    for (const at of [6, 8, 10]) answer.writeUInt16BE(0, at);
    if (!answer.toString("latin1").includes("\u0004test")) {
      answer[3] = 0x83;
      return answer;
    }
    if (answer.readUInt16BE(end - 4) !== 1) return answer;
    answer.writeUInt16BE(1, 6);
    return Buffer.concat([answer, Buffer.from("c00c00010001000000100004cb007107", "hex")]);
  }

  inside(...[machine, , res]: Parameters<Outside["inside"]>): void {
    res.end(Buffer.from(`home of generation ${machine.generation}`));
  }

  caPem = () => this.pem;
  changed = ({ id }: OutsideMachine, egress: MachineEgress | null): void => void this.#egress.set(id, egress);
  gone = (id: string): void => void this.#egress.delete(id);

  #isOpen({ id }: OutsideMachine): boolean {
    return this.#egress.get(id)?.network.internet === true;
  }
}

/** Programs that know of no proxy. */
const PLAIN = "env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY";

const MUCH = `
import socket, hashlib, threading
s = socket.create_connection(('echo.test', 4000))
sent = b'0123456789abcdef-' * 500000
def send():
    s.sendall(sent); s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
got = hashlib.sha256()
while True:
    data = s.recv(65536)
    if not data: break
    got.update(data)
print(got.hexdigest() == hashlib.sha256(sent).hexdigest())
`;

const UDP = `
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
try:
    s.connect(('203.0.113.1', 443)); s.send(b'x'); s.recv(1); print('came')
except OSError as e: print(type(e).__name__)
`;

/** Asks a resolver that is not the machine's. */
const FOREIGN = `
import socket
query = bytes.fromhex('000101000001000000000000') + b'\\x03app\\x04test\\x00\\x00\\x01\\x00\\x01'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.sendto(query, ('8.8.8.8', 53))
print(s.recv(512)[-4])
`;

const HOLD = `
import socket
s = socket.create_connection(('echo.test', 4000))
s.sendall(b'x')
s.recv(1)
open('/tmp/held', 'w').write('held\\n')
try:
    s.recv(1); how = 'ended'
except OSError: how = 'broke'
open('/tmp/held', 'w').write(how + '\\n')
`;

const LOOP = `
while :; do
  ${PLAIN} curl -s -m 20 -o /dev/null -w '%{http_code}\\n' http://app.test/loop >> /tmp/codes
  sleep 0.2
done
`;

describe("a real machine", () => {
  const id = newSandboxId("out");
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  const app: Server = createServer((req, res) => {
    requests.push(req.url ?? "");
    res.end(`${req.method} ${req.url}\n`);
  });
  const echo = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    socket.pipe(socket);
  });
  let dir: string;
  let driver: Driver;
  let outside: TestOutside;
  let machines: Machines;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rouse-way-out-"));
    for (const server of [app, echo]) {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
    }
    const [http, back] = [app, echo].map((server) => (server.address() as AddressInfo).port);
    outside = new TestOutside({ http: http ?? 0, echo: back ?? 0 });
    const make = drivers["qemu"];
    if (!make) throw new Error("no driver qemu");
    driver = await make(dir);
    await driver.prepare(shapeOf({}));
    machines = new Machines(driver, new Journal(":memory:"), policy, { outside });
    await machines.create(id, {
      ...{ ...run, egress: open, generation: 1 },
      ...{ account: "default", shape: shapeOf({}), hostname: "out" },
    });
  });
  afterAll(async () => {
    await driver.destroy(id);
    await machines.close();
    app.close();
    echo.close();
    for (const socket of sockets) socket.destroy();
    await rm(dir, { recursive: true, force: true });
  });

  const exec = (command: string): Promise<string> => execIn(driver, id, command);
  const python = (code: string): Promise<string> => exec(`python3 - <<'END'\n${code}\nEND`);

  it("lets programs out that know of the proxy, and those that don't", async () => {
    expect(await exec("curl -sS http://app.test/proxied")).toBe("GET /proxied");
    expect(await exec(`${PLAIN} curl -sS http://app.test/plain`)).toBe("GET /plain");
    expect(await exec(`${PLAIN} curl -sS http://203.0.113.9/address`)).toBe("GET /address");
    const urllib = `python3 -c "import urllib.request as u; print(u.urlopen('http://app.test/python').read().decode())"`;
    expect(await exec(urllib)).toBe("GET /python");
    expect(await exec(`${PLAIN} ${urllib}`)).toBe("GET /python");
    const node = `node -e "fetch('http://app.test/node').then(r => r.text()).then(console.log)"`;
    expect(await exec(node)).toBe("GET /node");
    const byName = "app.test:80";
    expect(outside.asked).toEqual([byName, byName, "203.0.113.9:80", byName, byName, byName]);
    expect(await exec("curl -sS http://rouse.internal/kv")).toBe("home of generation 1");
    expect(await exec(`${PLAIN} curl -sS http://rouse.internal/kv`)).toBe("home of generation 1");
  });

  it("loses no byte of what is much, and passes ends on", async () => {
    expect(await python(MUCH)).toBe("True");
  });

  it("tells of names what its host tells, and refuses other ways at once", async () => {
    expect(await exec("getent ahosts app.test | cut -d' ' -f1 | sort -u")).toMatch(/^198\.1[89]\.\d+\.\d+$/);
    expect(await exec("getent ahosts missing.invalid; echo $?")).toBe("2");
    expect(await python(UDP)).toMatch(/^(PermissionError|ConnectionRefusedError)$/);
    expect(await python(FOREIGN)).toBe("198");
  });

  it("starts the way for programs without a proxy again when it was killed", async () => {
    await exec("pkill -9 -x rouse-redirect");
    const again = async () => expect(await exec(`${PLAIN} curl -sS http://app.test/again`)).toBe("GET /again");
    await vi.waitFor(again, patience);
  });

  it("trusts what its host signs", async () => {
    const own = "/usr/local/share/ca-certificates";
    const bundle = "/etc/ssl/certs/ca-certificates.crt";
    const taken = async () => Number(await exec(`ls ${own} | grep -c '^rouse-'`));
    // Those of the host that made the state which machines begin with.
    const before = await taken();
    outside.pem = `${await exec(`sed '/END CERT/q' ${bundle}`)}\n`;
    await machines.pause(id, { generation: 1 });
    await machines.wake(id, { ...run, egress: open, generation: 2 });
    expect(await exec("curl -sS http://app.test/trusting")).toBe("GET /trusting");
    expect(await taken()).toBe(before + 1);
    expect(await exec(`tail -n 1 ${bundle}; stat -c %a ${bundle}`)).toBe("-----END CERTIFICATE-----\n644");
    await exec(`cat ${own}/rouse-*.crt | sudo /usr/lib/rouse/trust.sh`);
    expect(await exec(`grep -c '^# rouse' ${bundle}`)).toBe("1");
  });

  it("ends what is open at a pause; what ran before it meets what is in force after it", async () => {
    for (const [program, code] of Object.entries({ "python3 /tmp/hold": HOLD, "sh /tmp/loop": LOOP }))
      await exec(
        `cat > ${program.split(" ")[1]} <<'END'\n${code}\nEND\n(setsid ${program} </dev/null >/dev/null 2>&1 &)`,
      );
    const isUp = async () => expect(await exec("cat /tmp/held; grep -c 200 /tmp/codes")).toMatch(/^held\n[1-9]/);
    await vi.waitFor(isUp, patience);
    await machines.pause(id, { generation: 2 });
    await vi.waitFor(() => expect(sockets.size).toBe(0));
    requests.length = 0;
    await machines.wake(id, { ...run, egress: closed, generation: 3 });
    await vi.waitFor(async () => expect(await exec("cat /tmp/held")).toMatch(/ended|broke/), patience);
    const isClosed = async () => expect(await exec("tail -n 3 /tmp/codes | grep -c 200")).toBe("0");
    await vi.waitFor(isClosed, patience);
    expect(requests).toEqual([]);
    const told = `curl -sS -o /dev/null -w '%{http_code} %header{x-rouse-egress}'`;
    expect(await exec(`${told} http://app.test/`)).toBe("403 internet-off");
    // Without the proxy, by address: on the port of HTTP there is an answer that says why.
    expect(await exec(`${PLAIN} ${told} http://203.0.113.9/`)).toBe("403 internet-off");
    await machines.configure(id, { ...run, egress: { ...open, version: 3 }, generation: 3 });
    expect(await exec("curl -sS http://app.test/open")).toBe("GET /open");
  });
});
