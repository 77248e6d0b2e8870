/**
 * Parallel writers on a machine's disk and on a volume, while it is put to sleep, woken, copied and forked: every file
 * is whole, SQLite and git find nothing wrong, and the file systems are in order.
 */
import { join } from "node:path";
import { copyFile, rm } from "node:fs/promises";
import type { Sandbox } from "rouse";
import { run } from "../../backend-pool/process.ts";
import type { Course, Part } from "./part.ts";

/** Writers of one folder: files whose name follows their content, a SQLite database in WAL mode, a git repository. */
const WRITERS = `
import hashlib, os, sqlite3, subprocess, sys, threading, time
root = sys.argv[1]
os.makedirs(root, exist_ok=True)
def files(n):
    i = 0
    while True:
        i += 1
        data = os.urandom(65536) * 8
        part = f"{root}/part{n}"
        with open(part, "wb") as f:
            f.write(data + hashlib.sha256(data).digest())
            f.flush()
            os.fsync(f.fileno())
        os.rename(part, f"{root}/file{n}-{i % 4}")
        time.sleep(0.1)
def rows():
    db = sqlite3.connect(f"{root}/rows.db", timeout=60)
    db.execute("pragma journal_mode=wal")
    db.execute("create table if not exists rows (n integer primary key, body blob)")
    while True:
        with db:
            for _ in range(20):
                db.execute("insert into rows (body) values (randomblob(400))")
            db.execute("delete from rows where n < (select max(n) from rows) - 4000")
        time.sleep(0.05)
def commits():
    repo = f"{root}/repo"
    git = lambda *a: subprocess.run(["git", "-C", repo, "-c", "user.name=n", "-c", "user.email=e@x", *a], capture_output=True)
    os.makedirs(repo, exist_ok=True)
    subprocess.run(["git", "init", "-q", repo], capture_output=True)
    i = 0
    while True:
        i += 1
        with open(f"{repo}/f{i % 50}", "w") as f:
            f.write(os.urandom(2000).hex())
        git("add", "-A")
        git("commit", "-qm", f"{i}")
        time.sleep(0.5)
for target, args in [(files, (n,)) for n in range(3)] + [(rows, ()), (commits, ())]:
    threading.Thread(target=target, args=args, daemon=True).start()
while True:
    time.sleep(60)
`;

/** Looks at all that the writers of a folder made. Prints what is wrong, and how much there is. */
const CHECK = `
import glob, hashlib, sqlite3, subprocess, sys, time
bad = []
def still(signal):
    for _ in range(2):
        subprocess.run(["pkill", f"-{signal}", "-f", "^python3 /workspace/writers[.]py"])
        subprocess.run(["pkill", f"-{signal}", "-x", "git"])
        time.sleep(0.2)
for root in sys.argv[1:]:
    for path in glob.glob(f"{root}/file*"):
        data = open(path, "rb").read()
        if hashlib.sha256(data[:-32]).digest() != data[-32:]:
            bad.append(f"{path} is torn")
    db = sqlite3.connect(f"{root}/rows.db", timeout=120)
    found = db.execute("pragma integrity_check").fetchone()[0]
    if found != "ok":
        bad.append(f"{root}/rows.db: {found}")
    # What is written while fsck reads would be missing to it. A repository is whole at any instant: its writer stands still.
    still("STOP")
    fsck = subprocess.run(["git", "-C", f"{root}/repo", "fsck", "--full", "--no-dangling"], capture_output=True, text=True)
    still("CONT")
    if fsck.returncode != 0:
        bad.append(f"{root}/repo: {fsck.stdout} {fsck.stderr}")
print("; ".join(bad) or "ok")
`;
const KERNEL = "sudo -n dmesg | grep -ciE 'ext4.*error|EBADMSG|I/O error|corrupt' ; true";

async function load(sandbox: Sandbox, roots: readonly string[]): Promise<void> {
  await sandbox.files.write("/workspace/writers.py", WRITERS);
  await sandbox.files.write("/workspace/check.py", CHECK);
  for (const root of roots)
    await sandbox.exec(`nohup python3 /workspace/writers.py ${root} >/workspace/writers.log 2>&1 &`);
  await sandbox.exec(
    `for i in $(seq 300); do ls ${roots[0]}/repo/.git/refs/heads/* && exit 0; sleep 0.2; done; exit 1`,
    {
      check: true,
    },
  );
}

async function check({ expect }: Course, sandbox: Sandbox, roots: readonly string[], when: string): Promise<void> {
  const found = await sandbox.exec(`python3 /workspace/check.py ${roots.join(" ")}`, { timeoutMs: 300_000 });
  const text = (found.stdout + found.stderr).trim();
  expect(text === "ok", `${when}: ${text}`);
  const errors = (await sandbox.exec(KERNEL)).stdout.trim();
  expect(errors === "0", `${when}: the kernel complains ${errors} times`);
}

/** Stop a sandbox, and look at its disk from outside. */
async function checkDisk({ expect, stateDir }: Course, sandbox: Sandbox, when: string): Promise<void> {
  await sandbox.stop();
  const image = join(stateDir, "looked-at.raw");
  const disk = join(stateDir, "machines", sandbox.id, "disk.qcow2");
  await run("qemu-img", ["convert", "-f", "qcow2", "-O", "raw", disk, image]);
  await inOrder(image).then(
    () => undefined,
    (fault: unknown) => expect(false, `${when}: ${String(fault)}`),
  );
  await rm(image);
}

/** A disk that was in use has a journal to play; after that there must be nothing to mend. */
async function inOrder(image: string): Promise<void> {
  await run("e2fsck", ["-p", image]);
  await run("e2fsck", ["-fn", image]);
}

export const writeLoad: Part = { run: underLoad };

async function underLoad(course: Course): Promise<Record<string, unknown>> {
  const { rouse, say, stateDir } = course;
  const pauses = course.cycles ?? 100;
  const copies = course.count ?? 20;
  const plain = await rouse.sandboxes.create({ name: "plain", idlePauseSeconds: 0 });
  // The golden image leaves its host once, and not under this load.
  await plain.pause();
  await plain.waitUntilDurable({ timeoutMs: 900_000 });
  await plain.wake();
  const volume = await rouse.volumes.create({ sizeMiB: 1024 });
  const mounts = [{ volumeId: volume.id, path: "/data" }];
  const other = await rouse.sandboxes.create({ name: "other", idlePauseSeconds: 0, volumes: mounts });
  const [disk, both] = [["/workspace/w"], ["/workspace/w", "/data/w"]];
  await Promise.all([load(plain, disk), load(other, both)]);
  say("writers write");
  for (let n = 1; n <= pauses; n++) {
    const sandbox = n % 2 === 0 ? plain : other;
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 1500));
    await sandbox.pause();
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 1500));
    await sandbox.wake();
    if (n % 10 < 2) await check(course, sandbox, sandbox === plain ? disk : both, `after ${n} pauses`);
    if (n % 20 === 0) say(`${n} pauses`);
  }
  // While a copy is looked at its source sleeps: software emulation is slow enough as it is.
  const sources = [plain, other];
  for (let n = 1; n <= copies; n++) {
    if (n % 2 === 0) {
      const fork = await plain.fork();
      await Promise.all(sources.map((one) => one.pause()));
      await check(course, fork, disk, `fork ${n}`);
      await checkDisk(course, fork, `disk of fork ${n}`);
      await fork.delete();
    } else {
      const snapshot = await other.snapshot();
      await Promise.all(sources.map((one) => one.pause()));
      const child = await rouse.sandboxes.create({ snapshot: snapshot.id, idlePauseSeconds: 0 });
      await check(course, child, both, `snapshot ${n}`);
      const [copied] = child.volumes;
      await checkDisk(course, child, `disk of snapshot ${n}`);
      const raw = join(stateDir, "machines", copied?.attachmentId ?? "", "volume.raw");
      const looked = join(stateDir, "volume-looked-at.raw");
      await copyFile(raw, looked);
      await inOrder(looked).catch((fault: unknown) =>
        course.expect(false, `volume of snapshot ${n}: ${String(fault)}`),
      );
      await rm(looked);
      await child.delete();
      await rouse.snapshots.delete(snapshot.id);
    }
    await Promise.all(sources.map((one) => one.wake()));
    say(`${n} of ${copies} copies`);
  }
  await check(course, plain, disk, "at the end");
  await check(course, other, both, "at the end");
  await checkDisk(course, plain, "the disk at the end");
  await checkDisk(course, other, "the disk of the one with a volume at the end");
  return { pauses, copies };
}
