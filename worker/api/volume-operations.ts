/** Operations on volumes, their stays with sandboxes, and their backups. */
import { z } from "zod";
import {
  Attachment,
  AttachVolume,
  BackupPolicy,
  BackupVolume,
  CreateVolume,
  ResizeVolume,
  UpdateVolume,
  Volume,
  VolumeBackup,
  VolumeBackupList,
  VolumeBackupListQuery,
  VolumeList,
  VolumeListQuery,
} from "../../sdk/contract/volume.ts";
import type { Operation } from "./operation.ts";

const Empty = z.strictObject({});
const NoQuery = z.strictObject({});
const V = "/v1/volumes";
const ID = `${V}/{volume}`;
const A = `${ID}/attachments/{attachment}`;
const B = "/v1/volume-backups";

export const volumes: readonly Omit<Operation, "work">[] = [
  {
    method: "POST",
    path: V,
    summary: "Make a volume: empty, or what a backup holds.",
    query: NoQuery,
    body: CreateVolume,
    answer: Volume,
  },
  { method: "GET", path: V, summary: "List volumes, the newest first.", query: VolumeListQuery, answer: VolumeList },
  { method: "GET", path: ID, summary: "Read a volume, by id or name.", query: NoQuery, answer: Volume },
  {
    method: "POST",
    path: `${ID}:update`,
    summary: "Change name and labels.",
    query: NoQuery,
    body: UpdateVolume,
    answer: Volume,
  },
  {
    method: "POST",
    path: `${ID}:resize`,
    summary: "Make a volume larger, also while a sandbox uses it.",
    query: NoQuery,
    body: ResizeVolume,
    answer: Volume,
  },
  {
    method: "POST",
    path: `${ID}:delete`,
    summary: "Delete a volume that no sandbox has; its backups stay.",
    query: NoQuery,
    body: Empty,
    answer: Volume,
  },
  {
    method: "DELETE",
    path: ID,
    summary: "Delete a volume that no sandbox has; its backups stay.",
    query: NoQuery,
    answer: Volume,
  },
  {
    method: "POST",
    path: `${ID}:attach`,
    summary: "Give a volume to a sandbox that runs or is stopped.",
    query: NoQuery,
    body: AttachVolume,
    answer: Attachment,
  },
  { method: "GET", path: A, summary: "Read an attachment.", query: NoQuery, answer: Attachment },
  {
    method: "POST",
    path: `${A}:detach`,
    summary: "Unmount a volume and let go of it; waits until what was written is stored.",
    query: NoQuery,
    body: Empty,
    answer: Attachment,
  },
  {
    method: "POST",
    path: `${ID}:backup`,
    summary: "Copy a volume as it is now; a sandbox that uses it goes on.",
    query: NoQuery,
    body: BackupVolume,
    answer: VolumeBackup,
  },
  {
    method: "POST",
    path: `${ID}:backup-policy`,
    summary: "Have a backup taken every day, or not, and say how long each is kept.",
    query: NoQuery,
    body: BackupPolicy,
    answer: Volume,
  },
  {
    method: "GET",
    path: B,
    summary: "List backups of volumes, the newest first.",
    query: VolumeBackupListQuery,
    answer: VolumeBackupList,
  },
  { method: "GET", path: `${B}/{backup}`, summary: "Read a backup.", query: NoQuery, answer: VolumeBackup },
  {
    method: "POST",
    path: `${B}/{backup}:delete`,
    summary: "Delete a backup; volumes that were made of it stay.",
    query: NoQuery,
    body: Empty,
    answer: VolumeBackup,
  },
  {
    method: "DELETE",
    path: `${B}/{backup}`,
    summary: "Delete a backup; volumes that were made of it stay.",
    query: NoQuery,
    answer: VolumeBackup,
  },
];
