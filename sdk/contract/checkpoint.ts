/**
 * Checkpoints: what a job saved to go on from. One version is one container, the same on a disk, in the mirror and on the
 * wire: the hash of the header (SHA-256, hex), a space, the header as JSON, a line end, and the body.
 */
import { z } from "zod";
import { SandboxId } from "./names.ts";

export const CHECKPOINT_FORMAT = "rouse-checkpoint/1";
/** Content type of a container. */
export const CHECKPOINT_TYPE = "application/vnd.rouse.checkpoint";

export const checkpointLimits = {
  /** Versions kept of one, unless the program says otherwise; the mirror keeps as many. */
  kept: 5,
  keptMax: 1000,
  /** A header with its hash and line end, bytes. */
  headerBytes: 65_536,
  /** Longest body that the mirror takes, bytes; on the disk there is no limit. */
  mirroredBytes: 16 * 1_048_576,
  /** Checkpoints of one sandbox that the mirror has. */
  perSandbox: 100,
  /** All that the mirror has of one sandbox, bytes. */
  totalBytes: 1024 * 1_048_576,
  versionMax: 9_999_999_999,
  /** Time for one exchange with the mirror, milliseconds. */
  mirrorMs: 2000,
} as const;

export const CheckpointName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
    "1 to 128 letters, digits, '.', '_' and '-', the first a letter or digit",
  );
const Version = z.int().min(1).max(checkpointLimits.versionMax);
const Step = z.int().min(0).max(Number.MAX_SAFE_INTEGER).nullable();

/** What is said of a version. */
export const CheckpointHeader = z.object({
  format: z.literal(CHECKPOINT_FORMAT),
  name: CheckpointName,
  version: Version,
  savedAt: z.iso.datetime(),
  type: z.enum(["json", "bytes"]),
  /** Of the body. */
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  step: Step,
  meta: z.record(z.string(), z.unknown()),
});
export type CheckpointHeader = z.infer<typeof CheckpointHeader>;

export const CheckpointVersion = CheckpointHeader.omit({ format: true, name: true }).meta({ id: "CheckpointVersion" });
export type CheckpointVersion = z.infer<typeof CheckpointVersion>;

/** A checkpoint, as the mirror has it. */
export const CheckpointInfo = z
  .object({
    kind: z.literal("checkpoint"),
    sandboxId: SandboxId,
    name: CheckpointName,
    /** The newest first; five at most. */
    versions: z.array(CheckpointVersion).min(1),
  })
  .meta({ id: "Checkpoint" });
export type CheckpointInfo = z.infer<typeof CheckpointInfo>;

export const CheckpointList = z.object({ data: z.array(CheckpointInfo) }).meta({ id: "CheckpointList" });
export type CheckpointList = z.infer<typeof CheckpointList>;

/** Query of `GET .../checkpoints/{name}`: the newest unless a version is given. */
export const CheckpointQuery = z.strictObject({ version: z.coerce.number().pipe(Version).optional() });
export type CheckpointQuery = z.infer<typeof CheckpointQuery>;

export const DeletedCheckpoint = z
  .object({ name: CheckpointName, sandboxId: SandboxId, deleted: z.literal(true) })
  .meta({ id: "DeletedCheckpoint" });
export type DeletedCheckpoint = z.infer<typeof DeletedCheckpoint>;

type Bytes = Uint8Array<ArrayBuffer>;

/** A container that verified, or why it does not. */
export type Decoded =
  | { readonly ok: true; readonly header: CheckpointHeader; readonly body: Bytes }
  | { readonly ok: false; readonly fault: string };

/** @returns null when the header is too long */
export async function encodeCheckpoint(
  about: Omit<CheckpointHeader, "format" | "bytes" | "sha256">,
  body: Bytes,
): Promise<Bytes | null> {
  const { name, version, savedAt, type, step, meta } = about;
  const sha256 = await hashOf(body);
  const header = { format: CHECKPOINT_FORMAT, name, version, savedAt, type, bytes: body.length, sha256, step, meta };
  const line: Bytes = new Uint8Array(new TextEncoder().encode(JSON.stringify(header)));
  if (line.length + 66 > checkpointLimits.headerBytes) return null;
  const whole = new Uint8Array(66 + line.length + body.length);
  whole.set(new TextEncoder().encode(`${await hashOf(line)} `));
  whole.set(line, 65);
  whole[65 + line.length] = NEW_LINE;
  whole.set(body, 66 + line.length);
  return whole;
}

/** Verify a container. It may be cut off or changed anywhere. */
export async function decodeCheckpoint(whole: Bytes): Promise<Decoded> {
  const end = whole.subarray(0, checkpointLimits.headerBytes).indexOf(NEW_LINE);
  if (end < 66 || whole[64] !== SPACE) return { ok: false, fault: "the header is cut off" };
  const line = whole.subarray(65, end);
  if ((await hashOf(line)) !== new TextDecoder().decode(whole.subarray(0, 64)))
    return { ok: false, fault: "the header does not match its hash" };
  const parsed = CheckpointHeader.safeParse(jsonOf(line));
  if (!parsed.success) return { ok: false, fault: `the header is not one of ${CHECKPOINT_FORMAT}` };
  const header = parsed.data;
  const body = whole.subarray(end + 1);
  if (body.length !== header.bytes) return { ok: false, fault: `the body has ${body.length} of ${header.bytes} bytes` };
  if ((await hashOf(body)) !== header.sha256) return { ok: false, fault: "the body does not match its hash" };
  if (header.type === "json" && jsonOf(body) === undefined) return { ok: false, fault: "the body is not JSON" };
  return { ok: true, header, body };
}

const NEW_LINE = 10;
const SPACE = 32;

async function hashOf(bytes: Bytes): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
