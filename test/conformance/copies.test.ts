/** Copies of a real machine that runs on: of one instant in RAM and on disk, and without its connections. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { defaultHome } from "../../backend-pool/config.ts";
import { buildImage } from "../../backend-pool/images/build.ts";
import { defaultRecipe } from "../../backend-pool/images/recipe.ts";
import { chooseAccelerator } from "../../backend-pool/machine/qemu/accelerator.ts";
import { QemuDriver, qemuVersion } from "../../backend-pool/machine/qemu/driver.ts";
import { lineProgress } from "../../backend-pool/progress.ts";
import { shapeOf } from "../../backend-pool/shape.ts";
import { newSandboxId } from "../../sdk/contract/names.ts";
import { execIn } from "./drivers.ts";

/** Answers what it is sent on two ports, one of them for IPv6 as well, and says how connections end. */
const SERVER = `
import socket, threading
def serve(family, address):
    server = socket.socket(family)
    if family == socket.AF_INET6: server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(address)
    server.listen()
    def answer(connection):
        try:
            while data := connection.recv(100): connection.sendall(data)
        except OSError as fault:
            print(type(fault).__name__, file=open("ends", "a"))
    while True:
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection,)).start()
threading.Thread(target=serve, args=(socket.AF_INET, ("127.0.0.1", 9000))).start()
threading.Thread(target=serve, args=(socket.AF_INET6, ("::", 9001))).start()
inner = socket.create_connection(("127.0.0.1", 9000))
import time
while True:
    inner.sendall(b"x"); inner.recv(1)
    print(time.monotonic(), file=open("inner", "w"))
    time.sleep(0.1)
`;

/**
 * Writes a number all over its RAM, each time over the one before, and to a page of its own on the disk, synced. RAM of
 * another instant would have other numbers, and a disk of another one would lack pages that RAM knows to be there.
 */
const WRITER = `
import mmap, os
ram = mmap.mmap(-1, 32 << 20)
disk = os.open("numbers", os.O_RDWR | os.O_CREAT)
n = wrong = 0
while not os.path.exists("stop"):
    n += 1
    os.pwrite(disk, n.to_bytes(8, "little") * 512, n * 4096)
    os.fsync(disk)
    for at in range(0, len(ram), 1 << 15):
        wrong += int.from_bytes(ram[at:at + 8], "little") != n - 1
        ram[at:at + 8] = n.to_bytes(8, "little")
open("result", "w").write(f"{n} {wrong}")
`;

/** Reads the pages back, from the disk itself. */
const READER = `
import os
open("/proc/sys/vm/drop_caches", "w").write("3")
n, wrong = map(int, open("result").read().split())
pages = open("numbers", "rb").read()
good = sum(pages[i * 4096:(i + 1) * 4096] == i.to_bytes(8, "little") * 512 for i in range(1, n + 1))
print(n > 0, wrong, n - good)
`;

/** Draws so often, on all CPUs, that whatever runs before the kernel draws anew is caught. */
const DRAWER = `
import os
def draw(name):
    with open(name, "a", buffering=1) as numbers:
        while not os.path.exists("enough"):
            print(*(os.getrandom(6).hex() for _ in range(3)), file=numbers)
for name in ("drawn.1", "drawn.2"): os.fork() or draw(name)
`;

describe("a copy of a machine that runs", () => {
  let dir: string;
  let driver: QemuDriver;
  let makeDriver: () => Promise<QemuDriver>;
  const [id, child] = [newSandboxId("source"), newSandboxId("child")];
  const [first, second] = ["c", "d"].map((letter) => `snap-${letter.repeat(20)}`) as [string, string];
  const identity = { hostname: "source" };
  const whole = (capture: string) => ({ capture, diskOnly: false, volumes: [] });

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "rouse-copies-"));
    const imagesDir = join(defaultHome(), "images");
    const image = await buildImage(defaultRecipe, imagesDir, lineProgress);
    const version = await qemuVersion();
    const accelerator = await chooseAccelerator({ ...image, qemuVersion: version, cacheDir: imagesDir });
    const [machinesDir, runDir] = [join(dir, "machines"), join(dir, "run")];
    await mkdir(runDir);
    makeDriver = async () =>
      new QemuDriver(image, accelerator, version, {
        imagesDir,
        machinesDir,
        runDir,
        spares: 1,
        progress: lineProgress,
      });
    driver = await makeDriver();
    await driver.prepare(shapeOf({}));
    await driver.create(id, shapeOf({}));
    await (
      await driver.wake(id, { ...identity, origin: "new" })
    ).ready;
  });
  afterAll(async () => {
    for (const one of [id, child]) await driver.destroy(one);
    await driver.close();
    await rm(dir, { recursive: true, force: true });
  });

  const exec = (command: string, of = id): Promise<string> => execIn(driver, of, command);

  const start = (name: string, program: string) =>
    exec(`cat > ${name}.py <<'END'\n${program}\nEND\nnohup python3 ${name}.py >/dev/null 2>&1 &`);

  /** Of a child of the first copy. */
  async function wakeChild(capture: string): Promise<void> {
    await driver.createFrom(capture, child);
    await (
      await driver.wake(child, { hostname: "source", origin: "copy" })
    ).ready;
  }

  async function echo(socket: Socket): Promise<string> {
    const answer = once(socket, "data", { signal: AbortSignal.timeout(30_000) });
    socket.write("hello");
    return String((await answer)[0]);
  }

  const connected = (of: string) => exec("ss -Htn state connected dst 10.0.2.2 and not sport = :10800", of);

  it("has none of its connections, even under the same name, and the source keeps them", async ({ expect }) => {
    await start("server", SERVER);
    await expect.poll(() => driver.listening(id, 9001), { timeout: 60_000, interval: 200 }).toBe("reachable");
    const sockets = await Promise.all(
      [9000, 9001].map(async (port) => {
        const at = await driver.endpoint(id, port);
        const socket = connect(at.port, at.host);
        await once(socket, "connect");
        return socket;
      }),
    );
    for (const socket of sockets) expect(await echo(socket)).toBe("hello");
    expect(await driver.capture(id, whole(first), identity)).toBeGreaterThan(0);
    for (const socket of sockets) expect(await echo(socket)).toBe("hello");
    await wakeChild(first);
    expect(await connected(child)).toBe("");
    expect((await exec("cat ends", child)).split("\n")).toHaveLength(2);
    const inner = await exec("cat inner", child);
    await expect.poll(() => exec("cat inner", child), { timeout: 20_000 }).not.toBe(inner);
    const ids = "cat /etc/machine-id /proc/sys/kernel/random/boot_id";
    expect(await exec(ids, child)).not.toBe(await exec(ids));
    for (const socket of sockets) expect(await echo(socket)).toBe("hello");
    expect((await connected(id)).split("\n")).toHaveLength(2);
    for (const socket of sockets) socket.destroy();
    await driver.destroy(child);
    await driver.dropCapture(first);
  });

  it("is of one instant, while RAM and disk change", async ({ expect }) => {
    await start("writer", WRITER);
    await expect.poll(() => exec("stat -c %s numbers"), { timeout: 60_000 }).not.toBe("");
    expect(await driver.capture(id, whole(second), identity)).toBeGreaterThan(0);
    await promisify(execFile)("qemu-img", ["check", "-q", join(dir, "machines", second, "disk.qcow2")]);
    await wakeChild(second);
    await exec("touch stop", child);
    await expect.poll(() => exec("cat result", child), { timeout: 30_000 }).not.toBe("");
    expect(await exec(`sudo python3 -c '${READER}'`, child)).toBe("True 0 0");
    expect(await exec("sudo dmesg | grep -ciE 'ext4-fs error|i/o error'", child)).toBe("0");
    expect(await exec("test -e result || echo goes on")).toBe("goes on");
    await driver.destroy(child);
    await driver.dropCapture(second);
  });

  it("draws no random number that its source or another copy draws", async ({ expect }) => {
    await start("drawer", DRAWER);
    await expect.poll(() => exec("wc -l < drawn.2"), { timeout: 30_000 }).toMatch(/^\d{2,}$/);
    await exec("truncate --size 0 drawn.1 drawn.2");
    expect(await driver.capture(id, whole(first), identity)).toBeGreaterThan(0);
    const drawnBy = async (of: string): Promise<string[][]> => {
      await exec("touch enough; sleep 0.1", of);
      const both = [await exec("cat drawn.1", of), await exec("cat drawn.2", of)];
      return both.map((one) => one.split(/\s+/));
    };
    const all = [await drawnBy(id)];
    for (let n = 0; n < 2; n++) {
      await wakeChild(first);
      all.push(await drawnBy(child));
      await driver.destroy(child);
    }
    for (const cpu of [0, 1]) {
      const drawn = all.map((one) => one[cpu] ?? []);
      // All that they have in common is from before; where one goes on alone, each does.
      const common = drawn[0]?.findIndex((number, at) => drawn.some((one) => one[at] !== number)) ?? -1;
      expect(common).toBeGreaterThan(0);
      const after = drawn.flatMap((one) => one.slice(common));
      expect(after.length).toBeGreaterThan(100);
      expect(new Set(after).size).toBe(after.length);
    }
    await driver.dropCapture(first);
  });

  it("that a host agent's end cuts off leaves the machine running, and nothing that follows it", async ({ expect }) => {
    const cut = driver.capture(id, whole(first), identity).then(
      () => "copied",
      () => "cut off",
    );
    await expect
      .poll(() => readFile(join(dir, "machines", `${first}.part`, "disk.qcow2")).catch(() => null))
      .not.toBe(null);
    await driver.close();
    await cut;
    driver = await makeDriver();
    expect(await driver.list()).toEqual([id]);
    expect((await driver.adopt(id, identity)).running).toBe(true);
    const before = await exec("stat -c %s numbers");
    await expect.poll(() => exec("stat -c %s numbers"), { timeout: 20_000 }).not.toBe(before);
    // A mirror would still be there, and QEMU refuse a second one.
    expect(await driver.capture(id, whole(second), identity)).toBeGreaterThan(0);
    await driver.dropCapture(second);
  });
});
