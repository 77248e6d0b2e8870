/** Volumes, their stays with sandboxes, and their backups. */
import { sandboxObject } from "../../durable/sandbox/api.ts";
import { volumesObject, type VolumesApi } from "../../durable/volumes/api.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { labelOfId } from "../../sdk/contract/names.ts";
import {
  AttachVolume,
  BackupPolicy,
  BackupVolume,
  CreateVolume,
  ResizeVolume,
  UpdateVolume,
  VolumeBackupListQuery,
  VolumeListQuery,
  type Attachment,
} from "../../sdk/contract/volume.ts";
import { holdMs, readJson, readQuery } from "../api/input.ts";
import { changeOf, okOrThrow, onceOf, referenceOf, type Context } from "./context.ts";

/** The sandbox of an attachment is no more, or has let go of it: there is nothing to ask of it. */
const GONE: ReadonlySet<string> = new Set(["not_found", "sandbox_gone", "attachment_not_found"]);

export async function volumeRoute(context: Context): Promise<Response> {
  const { env, caller, operation } = context;
  const object = volumesObject(env.VOLUMES, caller.account);
  if (operation.path.startsWith("/v1/volume-backups")) return backups(context, object);
  return operation.path.includes("/attachments/") ? attachments(context, object) : volumes(context, object);
}

async function volumes(context: Context, object: VolumesApi): Promise<Response> {
  const { operation, params, request, url } = context;
  const { method, path } = operation;
  const [volume] = params;
  if (volume === undefined && method === "GET")
    return pageOrThrow(await object.list(readQuery(VolumeListQuery, url.searchParams)));
  readQuery(operation.query ?? VolumeListQuery, url.searchParams);
  if (volume === undefined) {
    const { value } = await readJson(CreateVolume, request);
    return answer(okOrThrow(await object.create(value, await onceOf(context, value))).volume);
  }
  if (method === "GET") return answer(okOrThrow(await object.get(volume)).volume);
  switch (method === "DELETE" ? "delete" : path.slice(path.lastIndexOf(":") + 1)) {
    case "update": {
      const { value } = await readJson(UpdateVolume, request);
      return answer(okOrThrow(await object.update(volume, value, await onceOf(context, value))).volume);
    }
    case "resize": {
      const { value } = await readJson(ResizeVolume, request);
      const once = await onceOf(context, value);
      return answer(okOrThrow(await object.resize(volume, value.sizeMiB, once)).volume);
    }
    case "backup-policy": {
      const { value } = await readJson(BackupPolicy, request);
      return answer(okOrThrow(await object.setPolicy(volume, value, await onceOf(context, value))).volume);
    }
    case "backup": {
      const { value } = await readJson(BackupVolume, request);
      const once = await onceOf(context, value);
      return answer(okOrThrow(await object.backup(volume, value, once, holdMs(request.headers))).backup);
    }
    case "attach":
      return attach(context, object, volume);
    default:
      return answer(okOrThrow(await object.remove(volume, await onceOf(context, {}))).volume);
  }
}

/** The sandbox takes it: it asks for the volume, and its host plugs it in. */
async function attach(context: Context, object: VolumesApi, volume: string): Promise<Response> {
  const { env, caller, request, note } = context;
  const { value } = await readJson(AttachVolume, request);
  const { id: volumeId } = okOrThrow(await object.get(volume)).volume;
  const { label, id } = await referenceOf(value.sandboxId);
  note.sandbox = label;
  const { path, mode } = value;
  const { attachmentId } = okOrThrow(
    await sandboxObject(env.SANDBOX, caller.account, label).attachVolume(
      { volumeId, path, mode },
      await changeOf(context, id, value),
    ),
  );
  return answer(okOrThrow(await object.attachment(attachmentId, 0)).attachment);
}

async function attachments(context: Context, object: VolumesApi): Promise<Response> {
  const { env, caller, operation, params, request, url, note } = context;
  readQuery(operation.query ?? VolumeListQuery, url.searchParams);
  const [volume = "", id = ""] = params;
  const attachment = await find(object, volume, id);
  if (operation.method === "GET") return answer(attachment);
  const label = labelOfId(attachment.sandboxId);
  const isHeld = attachment.state === "attaching" || attachment.state === "active";
  if (isHeld && label !== null) {
    note.sandbox = label;
    const change = await changeOf(context, attachment.sandboxId, {});
    const told = await sandboxObject(env.SANDBOX, caller.account, label).detachVolume(id, change);
    if (!told.ok && !GONE.has(told.failure.code)) okOrThrow(told);
  }
  return answer(okOrThrow(await object.attachment(id, holdMs(request.headers))).attachment);
}

/** @throws RouseFailure `attachment_not_found` for one of another volume, too */
async function find(object: VolumesApi, volume: string, id: string): Promise<Attachment> {
  const { attachment } = okOrThrow(await object.attachment(id, 0));
  if (attachment.volumeId !== volume && attachment.volumeId !== okOrThrow(await object.get(volume)).volume.id)
    throw new RouseFailure("attachment_not_found", "The volume has no such attachment.");
  return attachment;
}

async function backups(context: Context, object: VolumesApi): Promise<Response> {
  const { operation, params, url } = context;
  const [backup] = params;
  if (backup === undefined)
    return pageOrThrow(await object.listBackups(readQuery(VolumeBackupListQuery, url.searchParams)));
  readQuery(operation.query ?? VolumeBackupListQuery, url.searchParams);
  if (operation.method === "GET") return answer(okOrThrow(await object.getBackup(backup, 0)).backup);
  return answer(okOrThrow(await object.removeBackup(backup)).backup);
}

function pageOrThrow(page: object | null): Response {
  if (page) return Response.json(page);
  const details = { issues: [{ path: "cursor", message: "not a cursor" }] };
  throw new RouseFailure("invalid_request", "The cursor is not one of ours.", { details });
}

function answer(body: { readonly replayed?: boolean | undefined }): Response {
  return Response.json(body, body.replayed ? { headers: { "idempotency-replayed": "true" } } : {});
}
