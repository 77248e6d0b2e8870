/** Requests and answers of the guest agent. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { errorBody, RouseFailure, statusOf } from "../../sdk/contract/error-codes.ts";

/** Largest JSON body; stdin of a command is part of one. */
const BODY_LIMIT = 8 * 1_048_576;

export interface Call {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Aborted when the caller is gone. */
  readonly gone: AbortSignal;
}

export async function readJson(call: Call): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of call.req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_LIMIT) throw new RouseFailure("payload_too_large", `A body has at most ${BODY_LIMIT} bytes.`);
    chunks.push(chunk);
  }
  if (size === 0) return {};
  let json: unknown;
  try {
    json = JSON.parse(Buffer.concat(chunks).toString());
  } catch (fault) {
    throw new RouseFailure("invalid_request", "The body is not JSON.", { cause: fault });
  }
  if (typeof json !== "object" || json === null || Array.isArray(json))
    throw new RouseFailure("invalid_request", "The body is not a JSON object.");
  return json as Record<string, unknown>;
}

export function sendJson(call: Call, body: object, headers: Record<string, string> = {}): void {
  const text = JSON.stringify(body);
  call.res.writeHead(200, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    ...headers,
  });
  call.res.end(text);
}

export function sendFailure(call: Call, fault: unknown): void {
  const failure = toFailure(fault);
  if (call.res.headersSent) {
    call.res.destroy();
    return;
  }
  const requestId = call.req.headers["x-request-id"];
  const text = JSON.stringify(errorBody(failure, typeof requestId === "string" ? requestId : undefined));
  call.res.writeHead(statusOf(failure.code), {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
  });
  call.res.end(text);
  call.req.resume();
}

/** A stream of JSON lines. `send` resolves when the reader can take more. */
export class Lines {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
    call.res.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
    call.res.flushHeaders();
  }

  async send(event: object): Promise<void> {
    const { res, gone } = this.#call;
    if (gone.aborted) return;
    if (res.write(`${JSON.stringify(event)}\n`)) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        res.off("drain", done);
        gone.removeEventListener("abort", done);
        resolve();
      };
      res.on("drain", done);
      gone.addEventListener("abort", done);
    });
  }

  end(): void {
    this.#call.res.end();
  }
}

const errnoCodes: Record<string, [code: ConstructorParameters<typeof RouseFailure>[0], text: string]> = {
  ENOENT: ["file_not_found", "There is no such file or folder"],
  EISDIR: ["is_a_directory", "That is a folder"],
  ENOTDIR: ["not_a_directory", "A part of the path is not a folder"],
  EACCES: ["file_access_denied", "The guest user may not do that"],
  EPERM: ["file_access_denied", "The guest user may not do that"],
  EROFS: ["file_access_denied", "That file system is read-only"],
  EEXIST: ["file_exists", "That exists already"],
  ENOTEMPTY: ["directory_not_empty", "The folder is not empty"],
  ENOSPC: ["disk_full", "The disk is full"],
  EDQUOT: ["disk_full", "The disk is full"],
  ENAMETOOLONG: ["invalid_path", "The path or a name in it is too long"],
  ELOOP: ["invalid_path", "The path leads in a circle of links"],
  EINVAL: ["invalid_path", "The path can't be used like that"],
};

export function toFailure(fault: unknown): RouseFailure {
  if (fault instanceof RouseFailure) return fault;
  if (fault instanceof Error && "code" in fault && typeof fault.code === "string") {
    const known = errnoCodes[fault.code];
    if (known)
      return new RouseFailure(
        known[0],
        "path" in fault && typeof fault.path === "string" ? `${known[1]}: ${fault.path}` : `${known[1]}.`,
      );
  }
  return new RouseFailure("guest_failed", "The guest agent failed.", { cause: fault });
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function record(value: unknown): Record<string, string> | undefined {
  return typeof value === "object" && value !== null ? (value as Record<string, string>) : undefined;
}
