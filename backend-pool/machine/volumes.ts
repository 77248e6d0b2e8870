/**
 * The volumes of this host's machines: brought before a run, plugged in with it, let go of after it. What a machine wrote
 * is stored off this host before its disk is removed.
 */
import { RouseFailure } from "../../sdk/contract/errors.ts";
import type { MachineVolume } from "../../sdk/contract/host.ts";
import type { Journal } from "../store/journal.ts";
import type { Driver } from "./driver.ts";
import type { HostVolume, VolumeFiles } from "./qemu/volume-files.ts";
import type { SavedStates } from "./saved-states.ts";

export class MachineVolumes {
  readonly #driver: Driver;
  readonly #files: VolumeFiles;
  readonly #journal: Journal;
  readonly #saved: SavedStates;

  constructor(driver: Driver, files: VolumeFiles, journal: Journal, saved: SavedStates) {
    this.#driver = driver;
    this.#files = files;
    this.#journal = journal;
    this.#saved = saved;
  }

  /** After a start of the host agent: what was let go of goes on being stored. */
  resume(): void {
    for (const row of this.#journal.volumes()) this.#saved.storeVolume(row);
  }

  of(machine: string): Promise<readonly HostVolume[]> {
    return this.#files.of(machine);
  }

  /** Have the disks of all volumes here, before a run that may know them. */
  async prepare(machine: string, wanted: readonly MachineVolume[]): Promise<void> {
    const noted = await this.#files.of(machine);
    const fresh = wanted.filter(({ attachment }) => !noted.some(({ id }) => id === attachment));
    if (fresh.length > 0)
      await this.#files.note(machine, [
        ...noted,
        ...fresh.map(({ attachment: id, slot, path, mode, sizeMiB }) => {
          return { id, slot, path, mode, sizeMiB, plugged: false, clean: false };
        }),
      ]);
    for (const volume of wanted) await this.#bring(machine, volume, noted);
  }

  /** Plug in what the running machine does not have yet, and grow what is to be larger. */
  async plugAll(machine: string, wanted: readonly MachineVolume[]): Promise<void> {
    for (const { attachment, sizeMiB } of wanted) {
      const found = (await this.#files.of(machine)).find(({ id }) => id === attachment);
      if (!found?.plugged) await this.#driver.plugVolume(machine, attachment);
      if (found && sizeMiB > found.sizeMiB) await this.#driver.growVolume(machine, attachment, sizeMiB);
    }
  }

  /** Take a volume out of a machine, running or without RAM, and store what it holds. What is done of that is not done again. */
  async unplug(machine: { id: string; account: string; generation: number }, attachment: string): Promise<void> {
    const { id } = machine;
    const found = (await this.#files.of(id)).find((volume) => volume.id === attachment);
    if (!found) return;
    if (found.plugged) await this.#driver.unplugVolume(id, attachment);
    const [now = found] = (await this.#files.of(id)).filter((volume) => volume.id === attachment);
    await this.#release(machine, now);
    await this.#files.change(id, attachment, null);
  }

  async grow(machine: string, attachment: string, sizeMiB: number): Promise<void> {
    const found = (await this.#files.of(machine)).find(({ id }) => id === attachment);
    if (found && sizeMiB > found.sizeMiB) await this.#driver.growVolume(machine, attachment, sizeMiB);
  }

  /** Copy a volume of a machine, and store the copy under that backup's id. */
  async copy(
    { id, account, generation }: { id: string; account: string; generation: number },
    attachment: string,
    backup: string,
  ): Promise<void> {
    if (this.#journal.volumes().some((row) => row.id === backup)) return;
    const clean = await this.#driver.copyVolume(id, attachment, backup);
    this.#keep({ id: backup, account, generation, clean });
  }

  /**
   * The machine goes: what of its volumes is not stored is, and then removed.
   * @param newest the run that it is stored as, so that the edge knows that nothing newer comes
   */
  async letGo(machine: { id: string; account: string; generation: number }, newest: number): Promise<void> {
    const { id, account, generation } = machine;
    for (const volume of await this.#files.of(id)) {
      if (await this.#saved.isStored(volume.id, generation)) await this.drop(volume.id);
      else await this.#release({ account, generation: newest }, volume);
    }
  }

  /** The machine's disks are not what is wanted: another state of it is brought. A disk may outlive its machine here. */
  async discard(machine: string, wanted: readonly MachineVolume[]): Promise<void> {
    const noted = (await this.#files.of(machine)).map(({ id }) => id);
    for (const id of new Set([...noted, ...wanted.map(({ attachment }) => attachment)])) await this.drop(id);
  }

  /** A disk that is stored, or that nobody wants. */
  async drop(id: string): Promise<void> {
    this.#saved.forget(id);
    await this.#files.drop(id);
    this.#journal.removeVolume(id);
  }

  async #release({ account, generation }: { account: string; generation: number }, volume: HostVolume): Promise<void> {
    const { id, mode, clean } = volume;
    const isOver = mode === "snapshot" || (await this.#saved.isStored(id, generation));
    if (isOver || !(await this.#files.isHere(id))) await this.drop(id);
    else this.#keep({ id, account, generation, clean });
  }

  #keep(row: { id: string; account: string; generation: number; clean: boolean }): void {
    this.#journal.putVolume(row);
    this.#saved.storeVolume(row);
  }

  async #bring(machine: string, volume: MachineVolume, noted: readonly HostVolume[]): Promise<void> {
    const { attachment, saved, sizeMiB } = volume;
    if (await this.#files.isHere(attachment)) return;
    if (saved) {
      await this.#saved.bringVolume(attachment, saved);
    } else {
      // What this machine has had is not empty, and must not become so.
      if (noted.some(({ id, plugged }) => id === attachment && plugged))
        throw new RouseFailure(
          "state_damaged",
          "The disk of a volume is not on this host, and nothing of it is stored.",
        );
      await this.#files.makeEmpty(attachment, sizeMiB);
    }
    await this.#files.change(machine, attachment, { sizeMiB: await this.#files.size(attachment) });
  }
}
