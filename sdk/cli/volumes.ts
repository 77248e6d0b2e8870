/** Volumes as people name them on the command line. */
import { VolumeId } from "../contract/names.ts";
import { VolumeMode, volumeLimits } from "../contract/volume.ts";
import type { CreateVolumeMount } from "../contract/volume.ts";
import type { Rouse, Volume } from "../src/index.ts";
import { UsageError } from "./args.ts";
import type { OptionSpec } from "./args.ts";
import { sizeOf } from "./output.ts";

export const nameOption: OptionSpec = {
  type: "string",
  value: "N",
  help: "What it is called; with ls: only the one called so",
};
export const labelOption: OptionSpec = { type: "string", value: "K=V", multiple: true, help: "Label" };
export const sizeOption: OptionSpec = {
  type: "string",
  value: "N",
  help: `Size in MiB, ${volumeLimits.sizeMiBMin} to ${volumeLimits.sizeMiBMax}; with restore the backup's unless given`,
};
export const noWaitOption: OptionSpec = { type: "boolean", help: "Do not wait until it is stored" };

/** `10.0 GiB` */
export function volumeSizeOf(sizeMiB: number): string {
  return sizeOf(sizeMiB * 2 ** 20);
}

/** What people call it. */
export function wordOf({ id, name }: Volume): string {
  return name ?? id;
}

/** A volume, by id or name, and where it is to appear. */
interface Mount {
  readonly volume: string;
  readonly path: string;
  readonly mode: VolumeMode | undefined;
}

/** What `V:/PATH[:MODE]` says. @throws UsageError for what is not of that form */
export function mountOf(text: string): Mount {
  const at = text.indexOf(":/");
  if (at < 1) {
    throw new UsageError(
      `--volume is ${JSON.stringify(text)}, not a volume and a path`,
      "Such as --volume data:/data, or data:/data:snapshot to read only.",
    );
  }
  const volume = text.slice(0, at);
  const place = text.slice(at + 1);
  const last = place.slice(place.lastIndexOf("/"));
  if (!last.includes(":")) return { volume, path: place, mode: undefined };
  const colon = place.lastIndexOf(":");
  const mode = VolumeMode.safeParse(place.slice(colon + 1));
  if (mode.success) return { volume, path: place.slice(0, colon), mode: mode.data };
  throw new UsageError(
    `${JSON.stringify(place.slice(colon + 1))} is not a mode of a volume`,
    `It is one of: ${VolumeMode.options.join(", ")}.`,
  );
}

/** The same with ids instead of names. */
export async function mountsOf(client: Rouse, mounts: readonly Mount[]): Promise<CreateVolumeMount[]> {
  const all: CreateVolumeMount[] = [];
  for (const { volume, path, mode } of mounts) all.push({ volumeId: await volumeIdOf(client, volume), path, mode });
  return all;
}

/** The id of a volume that a word names; an id is not looked up, as the volume may be deleted. */
export async function volumeIdOf(client: Rouse, idOrName: string): Promise<string> {
  return VolumeId.safeParse(idOrName).success ? idOrName : (await client.volumes.get(idOrName)).id;
}
