/**
 * Copies of the disks of a machine that runs. Each follows its disk, and once it has caught up every write goes to both,
 * so that ending it takes no time and leaves the disk of that instant. Backup jobs would begin at that instant instead,
 * but QEMU saves no devices while one runs.
 */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { run } from "../../process.ts";
import { QmpError, type Qmp } from "./qmp.ts";

/** One disk to copy. */
export interface MirroredDrive {
  /** The device or node in QEMU. */
  readonly source: string;
  /** A file that is made. */
  readonly target: string;
  /** `top`: the difference to the same backing file, as qcow2. `full`: all of it, raw. */
  readonly sync: "top" | "full";
}

const Node = z.object({
  "node-name": z.string(),
  image: z.object({
    "virtual-size": z.number(),
    "full-backing-filename": z.string().optional(),
    "backing-filename-format": z.string().optional(),
  }),
});
const Device = z.object({ device: z.string(), inserted: Node.optional() });
const Named = z.array(z.object({ "node-name": z.string() }));
const Jobs = z.array(z.object({ device: z.string() }));

/** Jobs and nodes of copies have names of their own, so that those of an earlier host agent are found. */
const PREFIX = "copy-";
const CATCH_UP_LIMIT_MS = 1_800_000;
const END_LIMIT_MS = 30_000;

export class Mirrors {
  readonly #qmp: Qmp;
  /** Jobs by name; true once its end was asked for. */
  readonly #jobs = new Map<string, boolean>();
  readonly #nodes: string[] = [];

  private constructor(qmp: Qmp) {
    this.#qmp = qmp;
  }

  /** Returns when all have caught up. @throws and then nothing is left of them but half-made files */
  static async start(qmp: Qmp, drives: readonly MirroredDrive[]): Promise<Mirrors> {
    const mirrors = new Mirrors(qmp);
    try {
      await Promise.all(drives.map((drive) => mirrors.#add(drive)));
    } catch (fault) {
      await mirrors.end();
      throw fault;
    }
    return mirrors;
  }

  /** The copies are what the disks are now, and stay so. For an instant at which nobody writes. */
  async finish(): Promise<void> {
    const jobs = [...this.#jobs.keys()];
    await Promise.all(
      jobs.map(async (job) => {
        const ended = jobEvent(this.#qmp, job, ["BLOCK_JOB_COMPLETED"], END_LIMIT_MS);
        this.#jobs.set(job, true);
        await this.#qmp.execute("block-job-cancel", { device: job });
        await ended;
        this.#jobs.delete(job);
      }),
    );
  }

  /** Close the files of finished copies: they are whole from then on. */
  async close(): Promise<void> {
    await endMirrors(this.#qmp, [], this.#nodes.splice(0));
  }

  /** Let go of what is not finished and closed. */
  async end(): Promise<void> {
    await endMirrors(this.#qmp, [...this.#jobs.keys()], this.#nodes.splice(0)).catch(() => undefined);
    this.#jobs.clear();
  }

  async #add({ source, target, sync }: MirroredDrive): Promise<void> {
    const { image } = await nodeOf(this.#qmp, source);
    const size = String(image["virtual-size"]);
    const backing = image["full-backing-filename"];
    if (sync === "full") await run("qemu-img", ["create", "-q", "-f", "raw", target, size]);
    else if (backing === undefined) throw new QmpError(`${source} is no difference to another file`);
    else {
      const base = ["-b", backing, "-F", image["backing-filename-format"] ?? "qcow2"];
      await run("qemu-img", ["create", "-q", "-f", "qcow2", ...base, target, size]);
    }
    const name = PREFIX + randomBytes(6).toString("hex");
    const file = { driver: "file", filename: target };
    const driver = sync === "full" ? "raw" : "qcow2";
    await this.#qmp.execute("blockdev-add", { driver, "node-name": name, discard: "unmap", file });
    this.#nodes.push(name);
    const ready = jobEvent(this.#qmp, name, ["BLOCK_JOB_READY"], CATCH_UP_LIMIT_MS);
    await this.#qmp.execute("blockdev-mirror", {
      ...{ "job-id": name, device: source, target: name, sync },
      "copy-mode": "write-blocking",
    });
    this.#jobs.set(name, false);
    await ready;
  }
}

/** End what an earlier host agent left in a process: it would be written to for as long as the machine runs. */
export async function endLeftMirrors(qmp: Qmp): Promise<void> {
  const jobs = Jobs.parse(await qmp.execute("query-block-jobs")).map((job) => job.device);
  const nodes = Named.parse(await qmp.execute("query-named-block-nodes", { flat: true }));
  const ours = (name: string) => name.startsWith(PREFIX);
  await endMirrors(qmp, jobs.filter(ours), nodes.map((node) => node["node-name"]).filter(ours));
}

async function endMirrors(qmp: Qmp, jobs: readonly string[], nodes: readonly string[]): Promise<void> {
  for (const job of jobs) {
    const ended = jobEvent(qmp, job, ["BLOCK_JOB_CANCELLED", "BLOCK_JOB_COMPLETED"], END_LIMIT_MS);
    await qmp.execute("block-job-cancel", { device: job, force: true }).then(
      () => ended,
      () => undefined, // it ended by itself
    );
  }
  for (const node of nodes) await qmp.execute("blockdev-del", { "node-name": node });
}

/** The node that a device or node name means. */
async function nodeOf(qmp: Qmp, name: string): Promise<z.infer<typeof Node>> {
  const devices = z.array(Device).parse(await qmp.execute("query-block"));
  const nodes = devices.flatMap(({ inserted }) => (inserted ? [inserted] : []));
  const found = devices.find((one) => one.device === name)?.inserted ?? nodes.find((one) => one["node-name"] === name);
  if (!found) throw new QmpError(`there is no disk ${name}`);
  return found;
}

/** The next event of a job that is one of these. Rejects when the job ends otherwise. */
function jobEvent(qmp: Qmp, job: string, wanted: readonly string[], limitMs: number): Promise<void> {
  let fault: string | null = null;
  const event = qmp.nextEvent((name, data) => {
    if (data["device"] !== job || !name.startsWith("BLOCK_JOB_")) return false;
    const isEnd = name === "BLOCK_JOB_COMPLETED" || name === "BLOCK_JOB_CANCELLED";
    if (!isEnd && !wanted.includes(name)) return false;
    if (typeof data["error"] === "string") fault = data["error"];
    else if (!wanted.includes(name)) fault = `it ended with ${name}`;
    return true;
  }, limitMs);
  const seen = event.then(() => {
    if (fault !== null) throw new QmpError(`a disk could not be copied: ${String(fault)}`);
  });
  seen.catch(() => undefined); // QEMU may end before whoever asked comes to wait
  return seen;
}
