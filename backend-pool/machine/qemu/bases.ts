/**
 * Golden states off their host: a saved state is the difference to one, so it goes along, once, and a host that takes
 * up the saved state fetches the golden one with its image.
 */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { RouseFailure } from "../../../sdk/contract/errors.ts";
import { Shape } from "../../../sdk/contract/host.ts";
import { upload, type Blobs } from "../../archive/blobs.ts";
import type { ArchiveEdge } from "../../archive/edge.ts";
import { FILE_UNIT, openManifest } from "../../archive/manifest.ts";
import { restore } from "../../archive/restore.ts";
import type { Sealer } from "../../archive/sealer.ts";
import { exists } from "../../paths.ts";
import { run } from "../../process.ts";
import type { Progress } from "../../progress.ts";
import { SLOTS_BEFORE } from "./command.ts";
import { DEVICE_STATE, DISK, FACTS, RAM, type Golden, type GoldenState } from "./golden.ts";

const BaseFacts = z.object({
  id: z.string(),
  /** Of its folder. */
  name: z.string().regex(/^[A-Za-z0-9._-]+$/),
  shape: Shape,
  image: z.object({ name: z.string(), key: z.string(), bootKey: z.string() }),
  slots: z.int().default(SLOTS_BEFORE),
});

export interface BasesOptions {
  readonly golden: Golden;
  readonly imagesDir: string;
  readonly edge: ArchiveEdge;
  readonly blobs: (ticket: string) => Blobs;
  readonly sealer: Sealer;
  readonly progress: Progress;
}

export class Bases {
  readonly #options: BasesOptions;
  readonly #underWay = new Map<string, Promise<unknown>>();
  /** As the edge has said: another installation may use the same folder of images. */
  readonly #published = new Set<string>();

  constructor(options: BasesOptions) {
    this.#options = options;
  }

  /** Store a golden state, unless it is stored. */
  async publish(golden: GoldenState, signal: AbortSignal): Promise<void> {
    if (this.#published.has(golden.id)) return;
    await this.#once(golden.id, () => this.#publish(golden, signal));
    this.#published.add(golden.id);
  }

  /** A golden state that a saved one is the difference to; fetched when this host does not have it. */
  async obtain(id: string): Promise<GoldenState> {
    const { golden, progress } = this.#options;
    const here = await golden.find(id);
    if (here) return here;
    await this.#once(id, () => progress.step(`fetching the golden state ${id.slice(0, 8)}`, () => this.#fetch(id)));
    const fetched = await golden.find(id);
    if (!fetched) throw new RouseFailure("state_damaged", "The golden state of the saved one is not stored.");
    return fetched;
  }

  async #once(id: string, work: () => Promise<unknown>): Promise<void> {
    const running = this.#underWay.get(id) ?? work().finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, running);
    await running;
  }

  async #publish({ id, dir, shape, image, slots }: GoldenState, signal: AbortSignal): Promise<void> {
    const { edge, blobs, sealer } = this.#options;
    const permit = await edge.beginBase(id);
    if (!permit) return;
    // Other host agents of this machine share the folder; what one of them leaves behind is removed as theirs.
    const work = `${dir}.sealing.part-${process.pid}`;
    await rm(work, { recursive: true, force: true });
    await mkdir(work, { recursive: true, mode: 0o700 });
    try {
      const part = (name: string, path: string) => ({ name, path, unit: FILE_UNIT, base: null }) as const;
      const { name, key, bootKey } = image;
      const facts: z.infer<typeof BaseFacts> = { id, name: basename(dir), shape, slots, image: { name, key, bootKey } };
      const sealed = await sealer.seal(
        {
          parts: [
            ...[part("image-disk", image.disk), part("kernel", image.kernel), part("initrd", image.initrd)],
            ...[RAM, DISK, DEVICE_STATE].map((file) => part(file, join(dir, file))),
          ],
          ...{ previous: null, key: permit.key, facts, outDir: join(work, "sealed") },
        },
        signal,
      );
      const { manifest } = sealed;
      await edge.baseStep(id, { step: "upload", manifest, blobs: [...sealed.blobs] });
      await upload(join(work, "sealed"), sealed.blobs, blobs(permit.ticket), permit.vault, { signal });
      await edge.baseStep(id, { step: "commit", manifest });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  async #fetch(id: string): Promise<void> {
    const { edge, blobs, imagesDir } = this.#options;
    const saved = await edge.base(id);
    if (!saved) throw new RouseFailure("state_damaged", "The golden state of the saved one is not stored.");
    const store = blobs(saved.ticket);
    const manifest = await openManifest(await store.get(saved.vault, saved.manifest), saved);
    const facts = BaseFacts.parse(manifest.facts);
    // Beside the ones that this host made: the same recipe gives other bytes there.
    const mark = id.slice(0, 12);
    const imageDir = join(imagesDir, "base", `${facts.image.name}-${facts.image.key}.${mark}`);
    const dir = join(imagesDir, "golden", `${facts.name}.${mark}`);
    const [imagePart, part] = [imageDir, dir].map((path) => `${path}.part-${process.pid}`) as [string, string];
    for (const path of [imagePart, part]) {
      await rm(path, { recursive: true, force: true });
      await mkdir(path, { recursive: true, mode: 0o700 });
    }
    const image = {
      disk: join(imageDir, "disk.ext4"),
      kernel: join(imageDir, "vmlinuz"),
      initrd: join(imageDir, "initrd"),
    };
    const at = (path: string) => ({ path, ready: false });
    await restore({
      manifest,
      parts: {
        "image-disk": at(join(imagePart, basename(image.disk))),
        kernel: at(join(imagePart, basename(image.kernel))),
        initrd: at(join(imagePart, basename(image.initrd))),
        ...Object.fromEntries([RAM, DISK, DEVICE_STATE].map((file) => [file, at(join(part, file))])),
      },
      fetch: (blob, signal) => store.get(saved.vault, blob, signal),
    });
    await run("qemu-img", ["rebase", "-u", "-f", "qcow2", "-F", "raw", "-b", image.disk, join(part, DISK)]);
    const state = { id, shape: facts.shape, image: { ...facts.image, ...image }, slots: facts.slots };
    await writeFile(join(part, FACTS), JSON.stringify(state), { mode: 0o600 });
    // The image first: a golden state without it would be of no use.
    if (!(await exists(image.disk))) await rename(imagePart, imageDir);
    if (!(await exists(join(dir, FACTS)))) await rename(part, dir);
    await Promise.all([imagePart, part].map((path) => rm(path, { recursive: true, force: true })));
  }
}
