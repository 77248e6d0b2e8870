/** Names, labels and ids: how a sandbox is called, by people, by DNS and by the API. Pure. */
import { z } from "zod";
import { BASE36 } from "./random.ts";

/** Longest name, in characters. */
export const NAME_MAX = 128;

const PLAIN_NAME = /^[a-z](?:[a-z0-9-]{0,37}[a-z0-9])?$/;
const LABEL = /^(?:[a-z](?:[a-z0-9-]{0,37}[a-z0-9])?|0[a-z0-9-]{1,38}[a-z0-9])$/;
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** A sandbox's name: 1 to 128 printable characters, unique in its account while the sandbox exists. */
export const SandboxName = z
  .string()
  .min(1, "a name has at least 1 character")
  .refine((name) => [...name].length <= NAME_MAX, `a name has at most ${NAME_MAX} characters`)
  // oxlint-disable-next-line no-control-regex -- control characters are just what this refuses
  .refine((name) => !/[\u0000-\u001f\u007f]/.test(name), "a name has no control characters")
  .refine((name) => name.trim() === name, "a name neither starts nor ends with white space")
  // A lone surrogate has no UTF-8 form, so it could not be hashed or sent back as it came.
  .refine((name) => name.isWellFormed(), "a name is well-formed Unicode");

/** True for a name that serves as its own DNS label. */
export function isPlainName(name: string): boolean {
  return PLAIN_NAME.test(name) && !name.includes("--");
}

/** True for what `labelFor` and `randomLabel` return. */
export function isLabel(label: string): boolean {
  return LABEL.test(label) && !label.includes("--");
}

/**
 * The DNS form of a name. A plain name is its own label; any other gets a readable part and a hash, under the prefix
 * `0`, which no plain name and no port prefix starts with. Case-sensitive names differ by hash (DNS folds case).
 */
export async function labelFor(name: string): Promise<string> {
  if (isPlainName(name)) return name;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(name)));
  const slug = slugOf(name);
  return `0${slug === "" ? "" : `${slug}-`}${base32(digest, 16)}`;
}

/** A label for a sandbox without a name. */
export function randomLabel(): string {
  return `0sbx-${base32(crypto.getRandomValues(new Uint8Array(10)), 16)}`;
}

/** The label of an unnamed sandbox made under an Idempotency-Key: a resent request must find what the first one made. */
export async function labelForKey(account: string, key: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${account}\n${key}`));
  return `0sbx-${base32(new Uint8Array(digest), 16)}`;
}

/** The id of one creation under a label; an id of a deleted sandbox never comes back. */
export function newSandboxId(label: string): string {
  return `${label}~${base32(crypto.getRandomValues(new Uint8Array(8)), 12)}`;
}

/** The label in a sandbox id, or null when the text is not an id. */
export function labelOfId(id: string): string | null {
  const at = id.indexOf("~");
  if (at <= 0) return null;
  const label = id.slice(0, at);
  return isLabel(label) && /^[a-z2-7]{12}$/.test(id.slice(at + 1)) ? label : null;
}

export const SandboxId = z.string().refine((id) => labelOfId(id) !== null, "not a sandbox id");

function slugOf(name: string): string {
  const slug = name
    // "é" is "e" and an accent.
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, 22);
  return slug.replace(/-+$/, "");
}

function base32(bytes: Uint8Array, length: number): string {
  let out = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xffff;
    bits += 8;
    while (bits >= 5 && out.length < length) {
      bits -= 5;
      out += BASE32[(value >> bits) & 31];
    }
  }
  return out;
}

/** Counts the runs of one machine, from 1; grows with each. */
export const Generation = z.int().min(1);

/** Names a snapshot, and the copy that a host takes for it or for forks. */
export const SnapshotId = z.string().regex(/^snap-[0-9a-z]{20}$/, "a snapshot id such as snap-...");

export function isSnapshotId(id: string): boolean {
  return SnapshotId.safeParse(id).success;
}

/** A new snapshot id; made under an Idempotency-Key the same one again. */
export function snapshotId(account: string, key: string | null): Promise<string> {
  return newId("snap", "snapshot", account, key);
}

export const VolumeId = z.string().regex(/^vol-[0-9a-z]{20}$/, "a volume id such as vol-...");
export function volumeId(account: string, key: string | null): Promise<string> {
  return newId("vol", "volume", account, key);
}

/** Names a volume's stay with one sandbox: the next one has another id, so nothing of an earlier one is taken for it. */
export const AttachmentId = z.string().regex(/^att-[0-9a-z]{20}$/, "an attachment id such as att-...");
export function attachmentId(account: string, key: string | null): Promise<string> {
  return newId("att", "attachment", account, key);
}

/** Names a copy of a volume of one instant. */
export const BackupId = z.string().regex(/^bak-[0-9a-z]{20}$/, "a backup id such as bak-...");
export function backupId(account: string, key: string | null): Promise<string> {
  return newId("bak", "backup", account, key);
}

/** Names a URL that takes webhooks for a sandbox. */
export const HookId = z.string().regex(/^hook-[0-9a-z]{20}$/, "a hook id such as hook-...");
/** @param of the sandbox that it is of */
export function hookId(of: string, key: string | null): Promise<string> {
  return newId("hook", "hook", of, key);
}

/** Names what came in for a sandbox, for good: deliveries carry it as `webhook-id`. */
export const HookEventId = z.string().regex(/^evt-[0-9a-z]{20}$/, "an event id such as evt-...");
export function hookEventId(): Promise<string> {
  return newId("evt", "event", "", null);
}

/** Names a schedule of a sandbox. */
export const ScheduleId = z.string().regex(/^sch-[0-9a-z]{20}$/, "a schedule id such as sch-...");
/** @param of the sandbox that it is of */
export function scheduleId(of: string, key: string | null): Promise<string> {
  return newId("sch", "schedule", of, key);
}

/** Names one run of a schedule, over all its tries: a command is started under it once. */
export const ScheduleRunId = z.string().regex(/^run-[0-9a-z]{20}$/, "a run id such as run-...");
/** @param of the schedule that it is of */
export function scheduleRunId(of: string, key: string | null): Promise<string> {
  return newId("run", "schedule run", of, key);
}

/** Whether a host's folder of that name holds a volume's bytes, not a machine. */
export function isVolumeCopyId(id: string): boolean {
  return AttachmentId.safeParse(id).success || BackupId.safeParse(id).success;
}

/** An id of 20 random characters; made under an Idempotency-Key the same one again. @param what keeps ids of different kinds apart */
export async function newId(prefix: string, what: string, account: string, key: string | null): Promise<string> {
  const bytes =
    key === null
      ? crypto.getRandomValues(new Uint8Array(20))
      : new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${what}\n${account}\n${key}`)));
  return `${prefix}-${[...bytes.slice(0, 20)].map((byte) => BASE36[byte % 36]).join("")}`;
}
