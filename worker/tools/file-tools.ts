/** Tools that read, write and list files in a sandbox. */
import { z } from "zod";
import { ContentQuery, FileEntry, FileListQuery, FileStat, FileWritten, Remove } from "../../sdk/contract/guest.ts";
import { RouseFailure } from "../../sdk/contract/error-codes.ts";
import { WhichSandbox } from "./fields.ts";
import { at, query, tool, type Tool } from "./tool.ts";

const READ_BYTES = 65_536;
const READ_BYTES_MAX = 1_048_576;
/** A longer content would be longer than a model writes. */
const WRITE_CHARACTERS_MAX = 1_048_576;

const Path = ContentQuery.shape.path.describe("Absolute, or below /workspace");

/** Bytes of a stream from an offset on, at most so many, and whether more follows. */
async function part(
  body: ReadableStream<Uint8Array> | null,
  offset: number,
  most: number,
): Promise<{ bytes: Uint8Array; more: boolean }> {
  const parts: Uint8Array[] = [];
  let [skip, size, more] = [offset, 0, false];
  const reader = body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    const rest = value.subarray(Math.min(skip, value.length));
    skip -= value.length - rest.length;
    if (rest.length === 0) continue;
    const taken = rest.subarray(0, most - size);
    parts.push(taken);
    size += taken.length;
    if (taken.length === rest.length) continue;
    more = true;
    await reader.cancel();
    break;
  }
  const bytes = new Uint8Array(size);
  let end = 0;
  for (const one of parts) {
    bytes.set(one, end);
    end += one.length;
  }
  return { bytes, more };
}

/** Bytes that end in the middle of a character, without its beginning. */
function wholeCharacters(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

function base64Of(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

export const fileTools: readonly Tool[] = [
  tool({
    name: "file_read",
    title: "Read a file",
    description: "Read a file of a sandbox, or a part of it. What is not UTF-8 comes as base64.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      path: Path,
      offset: z.int().min(0).optional().describe("First byte; 0 unless given"),
      maxBytes: z.int().min(1).max(READ_BYTES_MAX).optional().describe(`Most bytes; ${READ_BYTES} unless given`),
    }),
    output: z.object({
      path: z.string(),
      text: z.string().optional(),
      base64: z.string().optional(),
      bytes: z.int(),
      nextOffset: z.int().nullable().describe("Where to read on; null: that was all"),
    }),
    readOnly: true,
    async act(api, { sandbox, path, offset = 0, maxBytes = READ_BYTES }) {
      const answer = await api.bytes("GET", at(sandbox, `/files/content${query({ path })}`));
      const { bytes, more } = await part(answer.body, offset, maxBytes);
      const whole = more ? wholeCharacters(bytes) : bytes;
      try {
        const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(whole);
        return { path, text, bytes: whole.length, nextOffset: more ? offset + whole.length : null };
      } catch {
        return { path, base64: base64Of(bytes), bytes: bytes.length, nextOffset: more ? offset + bytes.length : null };
      }
    },
  }),
  tool({
    name: "file_write",
    title: "Write a file",
    description:
      "Write a whole file, over one that is there; missing folders are made. When this answers, it is on the sandbox's disk.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      path: Path,
      text: z.string().max(WRITE_CHARACTERS_MAX).optional().describe("Content; this or base64"),
      base64: z.base64().max(1_398_104).optional().describe("Content that is no text; this or text"),
      mode: ContentQuery.shape.mode.describe("Permission bits as three octal digits, such as 755"),
    }),
    output: FileWritten.strip(),
    readOnly: false,
    destructive: true,
    idempotent: true,
    async act(api, { sandbox, path, text, base64, mode }) {
      if ((text === undefined) === (base64 === undefined))
        throw new RouseFailure("invalid_request", "Give exactly one of text and base64.", {
          details: { issues: [{ path: "text", message: "exactly one of text and base64" }] },
        });
      const bytes =
        text === undefined
          ? Uint8Array.from(atob(base64 ?? ""), (char) => char.charCodeAt(0))
          : new TextEncoder().encode(text);
      const answer = await api.bytes("PUT", at(sandbox, `/files/content${query({ path, mode })}`), bytes);
      return FileWritten.parse(await answer.json());
    },
  }),
  tool({
    name: "file_list",
    title: "List a folder",
    description: "List files and folders of a sandbox, or with path of a file show that one.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      path: FileListQuery.shape.path.describe("Folder; /workspace unless given"),
      depth: z.int().min(1).max(64).optional().describe("Levels; 1 unless given"),
      glob: FileListQuery.shape.glob.describe("Only those that match, such as **/*.ts"),
      hidden: z.boolean().optional().describe("Also names that begin with a dot"),
      limit: z.int().min(1).max(2000).optional().describe("At most so many; 200 unless given"),
    }),
    output: z.object({
      entries: z.array(
        FileEntry.pick({
          path: true,
          type: true,
          size: true,
          mode: true,
          modifiedAt: true,
          symlinkTarget: true,
        }).strip(),
      ),
    }),
    readOnly: true,
    async act(api, { sandbox, limit = 200, ...rest }) {
      if (rest.path !== undefined) {
        const stat = await api.json(FileStat, "GET", at(sandbox, `/files/stat${query({ path: rest.path })}`));
        if (stat.exists && stat.type === "file") return { entries: [stat] };
      }
      const path = at(sandbox, `/files/list${query({ ...rest, limit })}`);
      return { entries: (await api.json(z.object({ data: z.array(FileEntry) }), "GET", path)).data };
    },
  }),
  tool({
    name: "file_remove",
    title: "Remove a file or folder",
    description: "Remove a file, or with recursive a folder with all that is in it.",
    input: z.strictObject({
      sandbox: WhichSandbox,
      path: Path,
      recursive: Remove.shape.recursive.describe("Also a folder that is not empty"),
    }),
    output: z.object({ removed: z.boolean().describe("false: there was no such file") }),
    readOnly: false,
    destructive: true,
    idempotent: true,
    act: (api, { sandbox, ...body }) =>
      api.json(z.object({ removed: z.boolean() }), "POST", at(sandbox, "/files:remove"), body),
  }),
];
